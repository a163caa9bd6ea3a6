"""`tidegate.events`: the pipeline of an event stream."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from tidegate import threshold
from tidegate.errors import SettingError
from tidegate.estimate.mixture.event_mixture import EventMixture
from tidegate.estimate.mixture.kalman_filter.state_space_models import MOST_TRUNCATED
from tidegate.exact_numbers import Number, positive, whole
from tidegate.methods._cycle_periods import Period, periods_as_rows
from tidegate.methods.adaptive import WARM_UP_TRUNCATED
from tidegate.perturb.adaptive.event_trees import EventTrees
from tidegate.run.event_means import EventMeans
from tidegate.run.event_ticks import CHOICE_SHARE, DAY, EVIDENCE, SUM_SHARE, Ticks
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Epsilon, flag, within
from tidegate.stages import Threshold
from tidegate.units import AddedEvent


def events(
    epsilon: Number,
    bound: Number | None = None,
    *,
    every: str,
    start: Any,
    zone: str | None = None,
    fixed: bool = False,
    cycles: bool = True,
    horizon: int = 2**20,
    nodes: tuple[int, ...] | None = None,
    period: Period = None,
    lower: Number = 0,
    resolution: Number | None = None,
    non_negative: bool = False,
    history: int | None = None,
) -> Pipeline:
    """Sums, or counts, of events per tick of a clock; protects that an event happened at all.

    Pure ε-DP in exact arithmetic for one event that is added or removed. A changed value, or a time
    that is moved, costs 2·ε: an event is removed and another one added. How many events there are
    is not published; ticks are, empty ones too, since they come from the clock.

    Args:
        epsilon: the budget of every event.
        bound: public upper bound of an event's value; None: events are counted.
        every: how long a tick is: `1s`, `15min`, `1h`, `1d`, up to weeks.
        start: when the first tick begins; public, never read off the events.
        zone: where times without a zone were written; None: as `start` says.
        fixed: truncate at the bound. False: at a threshold that is chosen privately, from the
            events of a warm-up.
        cycles: expect the level to follow the day and the week, where a horizon has some of them;
            learnt from what was released, so it costs no privacy. `period` names others.
        horizon: the longest range that should be answered well, in ticks, or how many will come.
        nodes: measure every block by this tree, such as (1, 16), instead of choosing.
        period: a cycle to learn, as in `adaptive`: a length of time such as `1d`, a number of
            ticks, or a list of them.
        lower: public lower bound of an event's value, 0 or below.
        resolution, non_negative, history: as in `adaptive`.

    >>> release = events(epsilon=1, every="15min", start="2024-02-01", horizon=96).start()
    >>> release.push(["2024-02-01T00:03", "2024-02-01T00:14", "2024-02-01T09:30"])
    >>> len(release.advance("2024-02-02").values)
    96
    >>> print(release.guarantee)
    ε = 1 per event that is added or removed (exact arithmetic, central model)
    """
    budget = within("epsilon", epsilon, Epsilon)
    fixed, cycles = flag("fixed", fixed), flag("cycles", cycles)
    horizon = whole("horizon", horizon, minimum=1)
    ticks = Ticks(every=every, start=start, zone=zone)
    rule: Threshold = threshold.Fixed(1 if bound is None else bound)
    part, truncated, spread = Fraction(1), 0.0, Fraction(1 if bound is None else "1/5")
    if bound is not None and not fixed:
        rule = threshold.TailQuantile(
            epsilon=CHOICE_SHARE * budget,
            bound=bound,
            holdout=-(-EVIDENCE * budget.denominator // budget.numerator),
            horizon=horizon,
            stream_epsilon=budget,
        )
        part, truncated = (
            SUM_SHARE,
            min(MOST_TRUNCATED, WARM_UP_TRUNCATED / float(budget * horizon)),
        )
    usual = _event_periods(ticks, horizon) if cycles else None
    expected = usual if period is None else periods_as_rows(period, ticks.length)
    return Pipeline(
        threshold=rule,
        perturber=EventTrees(
            epsilon=budget,
            horizon=horizon,
            nodes=nodes,
            warm_up=part,
            windows=part != 1,
            sizes=part != 1,
        ),
        estimator=EventMixture(
            truncated=truncated,
            spread=spread,
            period=expected,
            modulated=expected is not None and len(expected) > 1,
        ),
        resolution=1 if bound is None else resolution,
        non_negative=non_negative,
        unit=AddedEvent(),
        history=history,
        lower=lower,
        ticks=ticks,
    )


def _event_periods(ticks: Ticks, horizon: int) -> tuple[int, ...] | None:
    """Day and week in ticks, if a horizon holds several of them: the clock is public."""
    day, rest = divmod(DAY, ticks.length)
    found = tuple(
        period for period in (day, 7 * day) if period > 2 and _SOME * period <= horizon and not rest
    )
    return found or None


_SOME = 3  # ticks of a cycle: fewer tell nothing

# Of ε, for the sums of a mean: their noise is scaled to θ, which is several times the mean. Where
# it is 5 to 20 times that of numbers, relatively, the best share is 0.75 to 0.88.
SUMS = Fraction(4, 5)


def event_means(
    epsilon: Number, bound: Number, *, share: Number = SUMS, **settings: Any
) -> EventMeans:
    """Sums, counts and means of events over ranges of time; ε for all of them together.

    Args:
        epsilon: the budget of every event.
        bound: public upper bound of an event's value.
        share: the part of ε that sums get; numbers get the rest.
        **settings: as in `events`.

    >>> means = event_means(epsilon=1, bound=200, every="15min", start="2024-02-01", horizon=960)
    >>> means.guarantee.epsilon, means.counts.guarantee.epsilon
    (Fraction(1, 1), Fraction(1, 5))
    """
    budget, part = within("epsilon", epsilon, Epsilon), positive("share", share)
    if part >= 1:
        raise SettingError("share", "must lie between 0 and 1")
    counted = {name: settings[name] for name in settings if name not in _OF_VALUES}
    return EventMeans(
        events(part * budget, bound, **settings), events((1 - part) * budget, **counted)
    )


_OF_VALUES = ("lower", "resolution", "fixed")
