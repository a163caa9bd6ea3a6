"""ToPS: a private threshold, a consistent hierarchy, a smoother."""

from __future__ import annotations

from fractions import Fraction
from typing import Unpack

from tidegate import estimate, perturb, threshold
from tidegate.exact_numbers import Number
from tidegate.methods._budget import budget
from tidegate.methods._feasibility import check_feasible_horizon, feasible_holdout
from tidegate.methods._preset import Common, assembled_preset, preset
from tidegate.methods._registration import Method
from tidegate.run.pipeline import Pipeline
from tidegate.run.threshold_schedule_and_reselection import threshold_and_reselection
from tidegate.stages import Estimator
from tidegate.units import Unit


@preset
def tops(
    epsilon: Number,
    bound: Number,
    *,
    horizon: int = 2**20,
    holdout: int | None = None,
    fanout: int = 16,
    estimator: Estimator | None = None,
    skipped: int | None = None,
    unit: Unit | None = None,
    start_early: int | None = None,
    rethreshold_every: int | None = None,
    rethreshold_share: Number | None = None,
    **common: Unpack[Common],
) -> Pipeline:
    """A private threshold, a consistent hierarchy with skipped levels, a smoother.

    ToPS, the paper's method; pure ε-DP in exact arithmetic.

    When: intervals must rest on no model, bursts are far above the rest, or ε is tiny; assumes
        ranges of many blocks.
    Reference: Wang et al., Continuous Release of Data Streams under both Centralized and Local
        Differential Privacy, CCS 2021.

    Args:
        epsilon: the budget of every value: of the held-out ones for the threshold, of the others
            for the stream.
        bound: public upper bound of a value; larger values count as this.
        horizon: the longest range that should be answered well.
        holdout: how many values are spent on the threshold and not released; None: 65,536.
        fanout: children per node of the hierarchy.
        estimator: how values inside a block are predicted; None: `estimate.Recent()`.
        skipped: levels left to the smoother; None: the paper's rule.
        unit: what `epsilon` protects; None: one event.
        start_early: begin after this many held-out values, and choose again, from `holdout`
            values, once as many were released.
        rethreshold_every: choose the threshold again each time this many values were released.
        rethreshold_share: the part of the stream's budget that choosing again gets; None: 1/10 if
            it starts early, else the values that choose are withheld from the stream instead.

    >>> pipeline = tops(epsilon=0.1, bound=1657)
    >>> print(pipeline.guarantee)
    ε = 0.1 per event (exact arithmetic, central model)
    >>> print(tops(epsilon=0.1, bound=1657, start_early=1000, rethreshold_share=0.2).guarantee)
    ε = 0.1 per event (exact arithmetic, central model)
    """
    unit, per_event, share = budget(
        epsilon, unit, rethreshold_share, start_early, rethreshold_every
    )
    check_feasible_horizon(per_event, horizon, unit)
    holdout = feasible_holdout(holdout, per_event, unit)
    stream_epsilon = per_event * (1 - share)

    def selector(budget: Fraction, values: int) -> threshold.NoisyMax:
        return threshold.NoisyMax(
            epsilon=budget,
            bound=bound,
            holdout=values,
            stream_epsilon=stream_epsilon if share else None,
            horizon=horizon,
            fanout=fanout,
        )

    first, reselect = threshold_and_reselection(
        selector, per_event, share, holdout, start_early, rethreshold_every
    )
    return assembled_preset(
        threshold=first,
        perturber=perturb.Hierarchy(
            epsilon=stream_epsilon, horizon=horizon, fanout=fanout, skipped=skipped
        ),
        estimator=estimator or estimate.Recent(),
        unit=unit,
        reselect=reselect,
        **common,
    )


METHOD = Method(tops, example={"fanout": 4})
