"""Named combinations of stages: the paper's methods are functions, not classes.

| function | threshold | perturber | estimator | guarantee |
|---|---|---|---|---|
| `tops` | NM-E | Ĥ16c (levels skipped) | Recent | ε |
| `adaptive` | tail quantile, refined | trees chosen block by block | mixture of forecasters | ε |
| `pak` | S-PAK | H2 | – | (ε, δ), float arithmetic |
| `pak_with_tops_threshold` | NM-E | H2 | – | ε |
| `pak_with_tops_stream` | S-PAK | Ĥ16c | Recent | (ε, δ), float arithmetic |
| `topl` | asked of devices | on the devices | – | ε, local model |

Threshold and stream look at disjoint values, so each gets the whole ε.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from tidegate import estimate, perturb, threshold, units
from tidegate.errors import SettingError
from tidegate.estimate.mixture.models import MOST_TRUNCATED, TRUNCATED
from tidegate.exact_numbers import Number, positive
from tidegate.methods.baselines import pak, pak_with_tops_stream, pak_with_tops_threshold
from tidegate.methods.refined import refined
from tidegate.run.pipeline import Pipeline
from tidegate.run.reselection import chosen_again, share_of
from tidegate.stages import Estimator
from tidegate.units import Unit

if TYPE_CHECKING:
    from tidegate.local.topl import Topl

__all__ = [
    "adaptive",
    "pak",
    "pak_with_tops_stream",
    "pak_with_tops_threshold",
    "topl",
    "tops",
]


def adaptive(
    epsilon: Number,
    bound: Number,
    *,
    horizon: int = 2**20,
    holdout: int | None = None,
    resolution: Number = 1,
    nodes: tuple[int, ...] | None = None,
    non_negative: bool = False,
    history: int | None = None,
    unit: Unit | None = None,
    start_early: int | None = None,
    rethreshold_every: int | None = None,
    rethreshold_share: Number | None = None,
) -> Pipeline:
    """The adaptive release: as private and as prompt as ToPS, and mostly far more accurate.

    Pure ε-DP in exact arithmetic. The threshold does not depend on the unit of the data; how finely
    a block is measured is chosen from what was released before it; running sums are estimated by a
    mixture of forecasters, whose answers about the past get better as more is released.

    Args:
        epsilon: the budget of every value.
        bound: public upper bound of a value; larger values count as this.
        horizon: the longest range that should be answered well, or how many values will come if
            there are fewer: the length of the warm-up and of blocks follow from it.
        holdout: the paper's form: so many of the first values are spent on the threshold and not
            released. None: nothing is withheld; one row comes out for each row in, the first ones
            as a forecast that is set right at the end of a short warm-up, and the threshold is
            refined as values come (`tidegate.run.refinement.Refinement`). `start_early` and
            `rethreshold_every` go with a hold-out, of 65,536 values if none is given.
        resolution: values are rounded to multiples of this. The threshold is at least one step.
        nodes: measure every block by this tree, such as (1, 16), instead of choosing.
        non_negative: publish no negative values.
        history: how many released values queries can look back on; None: 16 horizons.
        unit: what `epsilon` protects; None: one event.
        start_early: as in `tops`: begin after this many held-out values, and choose again.
        rethreshold_every: as in `tops`: choose the threshold again after so many released values.
            Each new threshold learns the stream anew: once in several horizons is often enough.
        rethreshold_share: as in `tops`. A threshold that is chosen with a small share is lower: it
            leaves about 7/(its budget) values of the window above it.

    >>> pipeline = adaptive(epsilon=0.1, bound=1657)
    >>> print(pipeline.guarantee)
    ε = 0.1 per event (exact arithmetic, central model)
    >>> pipeline.holdout, pipeline.warm_up
    (0, 2358)
    >>> print(adaptive(epsilon=0.1, bound=1657, rethreshold_every=2**22).guarantee)
    ε = 0.1 per event (exact arithmetic, central model)
    """
    unit, per_event, share = _budget(
        epsilon, unit, rethreshold_share, start_early, rethreshold_every
    )
    if holdout is None and start_early is None and rethreshold_every is None:
        return refined(
            per_event,
            bound,
            horizon,
            nodes,
            resolution=resolution,
            non_negative=non_negative,
            history=history,
            unit=unit,
        )
    holdout = 65_536 if holdout is None else holdout

    def selector(budget: Fraction, values: int) -> threshold.ScaleFree:
        return threshold.ScaleFree(epsilon=budget, bound=bound, holdout=values)

    first, reselect = chosen_again(
        selector, per_event, share, holdout, start_early, rethreshold_every
    )
    lasting = first if reselect is None else reselect.threshold
    information = min(
        float(choice.guarantee.epsilon * choice.holdout) for choice in (first, lasting)
    )
    return Pipeline(
        threshold=first,
        perturber=perturb.AdaptiveTrees(
            epsilon=per_event * (1 - share), horizon=horizon, nodes=nodes
        ),
        estimator=estimate.Mixture(truncated=min(MOST_TRUNCATED, TRUNCATED / information)),
        resolution=resolution,
        non_negative=non_negative,
        history=history,
        unit=unit,
        reselect=reselect,
    )


def tops(
    epsilon: Number,
    bound: Number,
    *,
    horizon: int = 2**20,
    holdout: int = 65_536,
    fanout: int = 16,
    resolution: Number = 1,
    estimator: Estimator | None = None,
    skipped: int | None = None,
    non_negative: bool = False,
    history: int | None = None,
    unit: Unit | None = None,
    start_early: int | None = None,
    rethreshold_every: int | None = None,
    rethreshold_share: Number | None = None,
) -> Pipeline:
    """ToPS: the paper's method. Pure ε-DP in exact arithmetic.

    Args:
        epsilon: the budget of every value: of the held-out ones for the threshold, of the others
            for the stream.
        bound: public upper bound of a value; larger values count as this.
        horizon: the longest range that should be answered well.
        holdout: how many values are spent on the threshold and not released.
        fanout: children per node of the hierarchy.
        resolution: values are rounded to multiples of this.
        estimator: how values inside a block are predicted; None: `estimate.Recent()`.
        skipped: levels left to the smoother; None: the paper's rule.
        non_negative: publish no negative values.
        history: how many released values queries can look back on; None: 16 horizons.
        unit: what `epsilon` protects; None: one event.
        start_early: begin after this many held-out values, and choose again, from `holdout`
            values, once as many were released.
        rethreshold_every: choose the threshold again after every so many released values.
        rethreshold_share: the part of the stream's budget that choosing again gets; None: 1/10 if
            it starts early, else the values that choose are withheld from the stream instead.

    >>> pipeline = tops(epsilon=0.1, bound=1657)
    >>> print(pipeline.guarantee)
    ε = 0.1 per event (exact arithmetic, central model)
    >>> print(tops(epsilon=0.1, bound=1657, start_early=1000, rethreshold_share=0.2).guarantee)
    ε = 0.1 per event (exact arithmetic, central model)
    """
    unit, per_event, share = _budget(
        epsilon, unit, rethreshold_share, start_early, rethreshold_every
    )
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

    first, reselect = chosen_again(
        selector, per_event, share, holdout, start_early, rethreshold_every
    )
    return Pipeline(
        threshold=first,
        perturber=perturb.Hierarchy(
            epsilon=stream_epsilon, horizon=horizon, fanout=fanout, skipped=skipped
        ),
        estimator=estimator or estimate.Recent(),
        resolution=resolution,
        non_negative=non_negative,
        history=history,
        unit=unit,
        reselect=reselect,
    )


def _budget(
    epsilon: Number,
    unit: Unit | None,
    share: Number | None,
    start_early: int | None,
    every: int | None,
) -> tuple[Unit, Fraction, Fraction]:
    """The unit, the budget of one event, and the part of it that choosing again gets."""
    unit = units.Event() if unit is None else unit
    if not isinstance(unit, Unit):
        raise SettingError("unit", "must be a unit such as tidegate.units.Window(length=60)")
    per_event = positive("epsilon", epsilon) / unit.size
    return unit, per_event, share_of(share, start_early, every)


def topl(
    epsilon: Number,
    bound: Number,
    *,
    resolution: Number = 1,
    holdout: int = 65_536,
    horizon: int = 2**20,
    threshold_epsilon: Number | None = None,
    scheme: str = "adaptive",
    smoothing: bool = False,
    report: str | None = None,
    keep_asking: bool = True,
    threshold: Number | None = None,
) -> Topl:
    """The local model: every value is perturbed where it is born (see `tidegate.local.topl.Topl`).

    `scheme="published"` is the paper's ToPL with its objective corrected, "published-authors" with
    the authors' objective.

    >>> print(topl(epsilon=1.0, bound=1657).guarantee)
    ε = 1 per event (exact arithmetic, local model)
    """
    from tidegate.local.topl import Topl  # on demand: the central model needs none of it

    return Topl(
        epsilon=epsilon,
        bound=bound,
        resolution=resolution,
        holdout=holdout,
        horizon=horizon,
        threshold_epsilon=threshold_epsilon,
        scheme=scheme,
        smoothing=smoothing,
        report=report,
        keep_asking=keep_asking,
        threshold=threshold,
    )
