"""The adaptive release, with and without a hold-out: Tidegate's own method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Unpack

from tidegate import estimate, perturb, threshold
from tidegate.estimate.mixture.catch_up import catch_up_share
from tidegate.estimate.mixture.kalman_filter.state_space_models import MOST_TRUNCATED, TRUNCATED
from tidegate.exact_numbers import Number, exact
from tidegate.methods._budget import budget
from tidegate.methods._cycle_periods import refuse_periods_as_lengths
from tidegate.methods._feasibility import check_feasible_horizon, feasible_holdout
from tidegate.methods._preset import Common, assembled_preset, preset
from tidegate.methods._registration import Method
from tidegate.run.pipeline import Pipeline
from tidegate.run.refinement_schedule import WARM_SHARE, Refinement
from tidegate.run.threshold_schedule_and_reselection import threshold_and_reselection
from tidegate.run.two_sided_caps import LONGER
from tidegate.run.warm_up_length import first_length
from tidegate.stages.late_looks import looks_pay
from tidegate.units import Unit, Window

# What truncation takes from a value on average, in θ/(ε·horizon): the choice leaves 25/ε values of
# a horizon above θ, each by an eighth of θ or so.
WARM_UP_TRUNCATED = 3.2


def without_holdout(
    per_event: Fraction,
    bound: Number,
    horizon: int,
    nodes: tuple[int, ...] | None = None,
    *,
    period: int | Sequence[int] | None = None,
    windows: bool = True,
    restarts: bool = True,
    unit: Unit | None = None,
    catch_up: Number | None = None,
    **common: Unpack[Common],
) -> Pipeline:
    """The release without a hold-out: all values are released, the threshold is refined.

    `per_event` is the budget of one value.
    """
    perturber = perturb.AdaptiveTrees(epsilon=per_event, horizon=horizon, nodes=nodes)
    truncated = WARM_UP_TRUNCATED / float(per_event * perturber.horizon)
    warm_up = first_length(per_event, perturber.horizon)
    looks = windows and looks_pay(per_event, perturber.horizon)
    if exact("lower", common.get("lower", 0)) < 0:
        warm_up, looks = math.ceil(warm_up * LONGER), False
    return assembled_preset(
        threshold=threshold.TailQuantile(
            epsilon=WARM_SHARE * per_event,
            bound=bound,
            holdout=warm_up,
            horizon=perturber.horizon,
            stream_epsilon=per_event,
        ),
        perturber=perturber,
        estimator=estimate.Mixture(
            truncated=min(MOST_TRUNCATED, truncated),
            period=period,
            catch_up=_catch_up(catch_up, per_event, perturber.horizon, unit),
        ),
        reselect=Refinement(windows=windows, restarts=restarts, looks=looks),
        unit=unit,
        **common,
    )


def _catch_up(
    given: Number | None, per_event: Fraction, horizon: int, unit: Unit | None
) -> Number | None:
    """A window leaves its values little budget: jumps would drown what short ranges hold."""
    if given is None and isinstance(unit, Window):
        return catch_up_share(per_event, horizon)
    return given


@preset
def adaptive(
    epsilon: Number,
    bound: Number,
    *,
    horizon: int = 2**20,
    holdout: int | None = None,
    nodes: tuple[int, ...] | None = None,
    period: int | Sequence[int] | None = None,
    unit: Unit | None = None,
    start_early: int | None = None,
    rethreshold_every: int | None = None,
    rethreshold_share: Number | None = None,
    catch_up: Number | None = None,
    **common: Unpack[Common],
) -> Pipeline:
    """Trees chosen block by block, and a mixture of forecasters; recommended.

    As private and as prompt as ToPS, and mostly far more accurate; pure ε-DP in exact arithmetic.
    The threshold does not depend on the unit of the data; how finely a block is measured is chosen
    from what was released before it; running sums are estimated by a mixture of forecasters, whose
    answers about the past get better as more is released.

    When: recommended: the most accurate on most streams, for ranges of any length; `tops` is
        better where bursts are far above the rest, or ε is tiny.
    Reference: this project (docs/privacy/adaptive.md).

    Args:
        epsilon: the budget of every value.
        bound: public upper bound of a value; larger values count as this.
        horizon: the longest range that should be answered well, or how many values will come if
            that is known to be fewer: the longest blocks follow from it.
        holdout: the paper's form: this many first values are spent on the threshold and not
            released. None: nothing is withheld; one row comes out for each row in, the first ones
            as a forecast that is set right at the end of a short warm-up, and the threshold is
            refined as values come (`Refinement` of `tidegate.run`). `start_early` and
            `rethreshold_every` go with a hold-out, of 65,536 values if none is given.
        nodes: measure every block by this tree, such as (1, 16), instead of choosing.
        period: rows in a day, a week or another cycle that the stream may follow, such as 86400, or
            a list of them. The cycle is learnt from released sums, and models without a cycle stay
            in the mixture. Post-processing: noise and guarantee stay what they are.
        unit: what `epsilon` protects; None: one event.
        start_early: as in `tops`: begin after this many held-out values, and choose again.
        rethreshold_every: as in `tops`: choose the threshold again after this many released values.
            Each new threshold learns the stream anew: once in several horizons is often enough.
        rethreshold_share: as in `tops`. A threshold that is chosen with a small share is lower: it
            leaves about 7/(its budget) values of the window above it (a long window fewer).
        catch_up: what released sums say about the past is published in parts: this share of what is
            left with every cell (a 256th of the horizon or so). With little budget short ranges
            have half of the squared error or less: 1/2 where ε·horizon is about 8,000, 1/4 at
            1,000. None: so for windows, by their budget; all at once (1) for events.

    >>> pipeline = adaptive(epsilon=0.1, bound=1657)
    >>> print(pipeline.guarantee)
    ε = 0.1 per event (exact arithmetic, central model)
    >>> pipeline.holdout, pipeline.warm_up
    (0, 372)
    >>> print(adaptive(epsilon=0.1, bound=1657, rethreshold_every=2**22).guarantee)
    ε = 0.1 per event (exact arithmetic, central model)
    """
    refuse_periods_as_lengths(period)
    unit, per_event, share = budget(
        epsilon, unit, rethreshold_share, start_early, rethreshold_every
    )
    check_feasible_horizon(per_event, horizon, unit)
    if holdout is None and start_early is None and rethreshold_every is None:
        return without_holdout(
            *(per_event, bound, horizon, nodes),
            period=period,
            unit=unit,
            catch_up=catch_up,
            **common,
        )
    holdout = feasible_holdout(holdout, per_event, unit)

    def selector(budget: Fraction, values: int) -> threshold.ScaleFree:
        return threshold.ScaleFree(epsilon=budget, bound=bound, holdout=values)

    first, reselect = threshold_and_reselection(
        selector, per_event, share, holdout, start_early, rethreshold_every
    )
    lasting = first if reselect is None else reselect.threshold
    information = min(
        float(choice.guarantee.epsilon * choice.holdout) for choice in (first, lasting)
    )
    return assembled_preset(
        threshold=first,
        perturber=perturb.AdaptiveTrees(
            epsilon=per_event * (1 - share), horizon=horizon, nodes=nodes
        ),
        estimator=estimate.Mixture(
            truncated=min(MOST_TRUNCATED, TRUNCATED / information),
            period=period,
            catch_up=_catch_up(catch_up, per_event, horizon, unit),
        ),
        unit=unit,
        reselect=reselect,
        **common,
    )


METHOD = Method(adaptive)
