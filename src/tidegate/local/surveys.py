"""Which surveys a specification of the local model asks for, and which fleets are too small."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from tidegate.errors import SettingError
from tidegate.local.reports import expected_variance
from tidegate.local.schedule import Repetition
from tidegate.local.square_wave_survey import PublishedSurvey
from tidegate.local.survey import Given, Survey
from tidegate.local.tail.rounds import (
    Planned,
    growing,
    halved,
    held_out,
    least_fleet,
    survey_size,
)
from tidegate.local.tail.survey import TailSurvey
from tidegate.local.tail.two_sides import TwoSides
from tidegate.local.wave_threshold import Objective
from tidegate.local.wire import exact_of

if TYPE_CHECKING:
    from tidegate.local.topl import Topl

ADAPTIVE, PUBLISHED, AUTHORS = "adaptive", "published", "published-authors"
PERCENTILE = "percentile"
_OBJECTIVES = {
    PUBLISHED: Objective.CORRECTED,
    AUTHORS: Objective.AUTHORS,
    PERCENTILE: Objective.PERCENTILE,
}
_PUBLISHED_HOLDOUT = 65_536  # the paper's
_PERIOD = 16  # a later survey asks one device in so many
# Suggested where a fleet is too small for what it may spend.
_EPSILONS = tuple(Fraction(one) for one in ("1/5", "1/2", "1", "2", "4"))


def first_survey(topl: Topl) -> Survey:
    """How the threshold is chosen first."""
    if topl.threshold is not None:
        steps = max(1, round(topl.threshold / topl.resolution))
        return Given(steps, -min(steps, topl.lattice.bottom))
    if topl.scheme != ADAPTIVE:
        return PublishedSurvey(
            epsilon=topl.survey_epsilon,
            stream_epsilon=topl.epsilon,
            top=topl.lattice.top,
            holdout=asked_first(topl),
            horizon=topl.horizon,
            objective=_OBJECTIVES[topl.scheme],
            smoothing=topl.smoothing,
        )
    if topl.holdout is None:
        size = asked_first(topl)
        return _asking(topl, growing(size, topl.horizon, topl.fleet, keep_asking=topl.keep_asking))
    # Every second device of the first eighth of the horizon.
    in_stream = topl.horizon // 16 if topl.keep_asking else 0
    return _asking(topl, held_out(topl.holdout, in_stream, topl.horizon))


def later_surveys(topl: Topl) -> Repetition | None:
    """How the threshold is chosen again; None: it stays."""
    if not topl.keep_asking or topl.scheme != ADAPTIVE or topl.threshold is not None:
        return None
    period = max(topl.horizon, _PERIOD * asked_first(topl))
    asked = period // _PERIOD
    # From one survey's beginning to the next one's; only the first is of another size.
    return Repetition(_asking(topl, held_out(asked, 0, topl.horizon)), period - 2 * asked)


def asked_first(topl: Topl) -> int:
    """How many devices are asked for the threshold before the stream begins."""
    if topl.holdout is not None:
        return topl.holdout
    if topl.scheme != ADAPTIVE:
        return _PUBLISHED_HOLDOUT
    return survey_size(topl.survey_epsilon, topl.fleet, sides=2 if topl.lower else 1)


def refuse_hopeless(topl: Topl) -> None:
    """Refuse a fleet that is too small for any answer: public settings alone show it."""
    if topl.fleet is None:
        return
    needed = least_fleet(topl.epsilon, topl.survey_epsilon)
    if topl.fleet < needed:
        enough = next(
            (one for one in _EPSILONS if least_fleet(one, one) <= topl.fleet), _EPSILONS[-1]
        )
        raise SettingError(
            "fleet",
            f"{topl.fleet:,} reports at epsilon = {float(topl.epsilon):g} cannot give a useful "
            f"sum, whatever the values are: {needed:,} are needed, or epsilon = "
            f"{float(enough):g} with at least {least_fleet(enough, enough):,}",
        )


def check_announceable(topl: Topl) -> None:
    """Refuse numbers with too many digits: no device could read them in an announcement."""
    for name in ("epsilon", "threshold_epsilon", "bound", "resolution"):
        if getattr(topl, name) is not None:
            exact_of({name: str(getattr(topl, name))}, name)


def _asking(topl: Topl, rounds: tuple[Planned, ...]) -> Survey:
    """One-bit questions about the tail, on both sides of 0 if values lie there."""
    above = TailSurvey(
        epsilon=topl.survey_epsilon,
        stream_epsilon=topl.epsilon,
        variance=expected_variance(topl.question(1), both_sides=bool(topl.lower)),
        top=topl.lattice.top,
        rounds=rounds,
        relocate=topl.holdout is None or bool(topl.lower),
    )
    if not topl.lower:
        return above
    halves = tuple(halved(planned) for planned in rounds)
    above = replace(above, rounds=halves, partial=True)
    return TwoSides(above, replace(above, top=topl.lattice.bottom))
