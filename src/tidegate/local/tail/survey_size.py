"""How many devices answer about the tail, and when."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, repeat

import numpy as np

from tidegate.local.mechanisms import hybrid_variance

_PARTS = 5  # of a hold-out: one that locates the tail, four that refine it
_STREAM_PARTS = 6
# Rounds of a first survey that chooses its own length: those that locate, those that refine.
_LOCATING, _REFINING = 2, 2
_BITS = 1_000  # answers of a first survey, where an answer is worth about one honest bit
_FEWEST, _MOST = 512, 8_192
_LARGEST_SHARE = 8  # at most one device in 8 of a fleet, ...
_SMALL_SHARE, _SMALL = 4, 256  # ... or one in four, if that is no more than this
_LOCATED, _LEAST_FLEET = 32, 100
_ROUNDED = 8  # so that rounds are equal, and their halves too
_AHEAD = 2  # a decision has ranges in mind that are this many times what was collected
_REPORTS = (3, 7, 15)  # for one device that is asked in the stream, from doubling to doubling


@dataclass(frozen=True, kw_only=True)
class PlannedSurvey:
    """A round of a survey.

    Attributes:
        participants: how many devices answer; without questions, how many report.
        horizon: the longest range that the decision after it has in mind.
        asks: whether anybody is asked about the tail.
        locates: whether all orders of magnitude are asked about, or the tail as it is known.
        in_stream: during the stream.
        reports: how many devices report for one that is asked in the stream.
        copies: how many positions each report stands for (rounds in which nobody is asked).
    """

    participants: int
    horizon: int
    asks: bool = True
    locates: bool = False
    in_stream: bool = False
    reports: int = 1
    copies: int = 1


def survey_of_hold_out(holdout: int, in_stream: int, horizon: int) -> tuple[PlannedSurvey, ...]:
    """The rounds of a hold-out of a given size, and of later questions in the stream."""
    before = [
        PlannedSurvey(
            participants=_part_of_survey(holdout, index, _PARTS),
            horizon=horizon,
            locates=index == 0,
        )
        for index in range(_PARTS)
    ]
    later = [
        PlannedSurvey(
            participants=_part_of_survey(in_stream, index, _STREAM_PARTS),
            horizon=horizon,
            in_stream=True,
        )
        for index in range(_STREAM_PARTS if in_stream else 0)
    ]
    return (*before, *later)


def growing_survey(
    first: int, horizon: int, fleet: int | None, *, keep_asking: bool
) -> tuple[PlannedSurvey, ...]:
    """A short survey, then the stream, with more questions after each doubling.

    After `first` devices were asked, as many report, and every report also stands for one that was
    asked: nothing is withheld. From then on every fourth, eighth, sixteenth device is asked in the
    stream, so that calm and busy hours are seen in their proportion; after each doubling the
    threshold is decided anew. It moves out with what has been collected: a decision has ranges in
    mind of twice that length, at most the horizon.
    """
    aim = min(horizon, max(fleet or 0, 4 * _AHEAD * first))
    rounds = _LOCATING + _REFINING
    plan = [
        PlannedSurvey(
            participants=_part_of_survey(first, index, rounds),
            horizon=aim,
            locates=index < _LOCATING,
        )
        for index in range(rounds)
    ]
    plan.append(
        PlannedSurvey(participants=first, horizon=aim, asks=False, in_stream=True, copies=2)
    )
    collected = 2 * first
    densities = chain(_REPORTS, repeat(_REPORTS[-1]))
    while keep_asking and 2 * collected <= horizon:
        aim = min(horizon, max(aim, 2 * _AHEAD * collected))
        reports = next(densities)
        asked = collected // (reports + 1)
        plan.append(PlannedSurvey(participants=asked, horizon=aim, in_stream=True, reports=reports))
        collected += (reports + 1) * asked
    return tuple(plan)


def halved_survey(planned: PlannedSurvey) -> PlannedSurvey:
    """The survey of one side of 0, with half of the devices, if both sides are asked about."""
    if not planned.asks:
        return planned
    return replace(planned, participants=max(planned.participants // 2, 1))


def survey_size(epsilon: Fraction, fleet: int | None, sides: int = 1) -> int:
    """How many devices choose the first threshold.

    An answer at ε says as much about a rare event as tanh²(ε/2)/(1 − tanh²(ε/2)) = sinh²(ε/2)
    honest ones: so their number falls with ε, from some thousands to some hundreds. A fleet
    gives one device in eight, a small one in four.
    """
    wanted = sides * min(max(_BITS / (4 * math.sinh(epsilon / 2) ** 2), _FEWEST), _MOST)
    if fleet is not None:
        wanted = min(wanted, max(fleet // _LARGEST_SHARE, min(fleet // _SMALL_SHARE, _SMALL), 1))
    return _ROUNDED * max(1, math.floor(wanted / _ROUNDED))


def least_survey_fleet(epsilon: Fraction, survey_epsilon: Fraction) -> int:
    """The least number of reports for a first answer, whatever the values are.

    With a mean of an eighth of θ, the sum over N reports of variance V on [−1, 1] has a relative
    error of 4·√(V/N): 16·V are as good as none. And one device in four chooses θ: with fewer than
    32 honest bits' worth of answers its order of magnitude would be chance.

    >>> [least_survey_fleet(Fraction(one), Fraction(one)) for one in ("1/10", "1/2", "1", "4")]
    [12790, 502, 118, 100]
    """
    worst = float(hybrid_variance(np.zeros(1), epsilon)[0])
    bits = _SMALL_SHARE * _LOCATED / (4 * math.sinh(survey_epsilon / 2) ** 2)
    return max(math.ceil(16 * worst), math.ceil(bits), _LEAST_FLEET)


def _part_of_survey(total: int, index: int, parts: int) -> int:
    """The number of `total` that belong to this part, as evenly as possible."""
    return total * (index + 1) // parts - total * index // parts
