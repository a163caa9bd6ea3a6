"""Values on both sides of 0: some devices are asked about the one side, others about the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from tidegate.local.questions import TailQuestion
from tidegate.local.survey import Decision, Round, Tally
from tidegate.local.tail.survey import TailSurvey

_FEW = 0.4  # of the values


@dataclass(frozen=True)
class TwoSides:
    """A survey of the values above 0 and one of those below, in the same rounds.

    Privacy: a device answers one question, about one side; which one is decided by its place in the
    rotation, never by its value. Every question costs at most ε by itself, so a value is ε-private
    as in a survey of one side (parallel composition).

    Attributes:
        above: of the values, as far as they are above 0.
        below: of their opposites, as far as these are.
    """

    above: TailSurvey
    below: TailSurvey

    def next_round(self, tallies: Sequence[Tally]) -> Round | None:
        """The questions of both, in turns; each side has its own participants."""
        above = self.above.next_round(_side(tallies, below=False))
        below = self.below.next_round(_side(tallies, below=True))
        if above is None or below is None:
            return None
        if not above.questions:
            return above
        opposite = (replace(question, below=True) for question in _tail(below))
        turns = chain.from_iterable(zip_longest(_tail(above), opposite))
        return replace(
            above,
            questions=tuple(question for question in turns if question is not None),
            participants=above.participants + below.participants,
        )

    def decide(self, tallies: Sequence[Tally]) -> Decision:
        """Both thresholds. Noise grows with their sum, so each is chosen given the other.

        A side that few values seem to lie on (refunds, frost) is cut no farther out than the other:
        few answers speak of it, and what the prior thinks possible there must not rule the noise of
        all reports.
        """
        above, below = _side(tallies, below=False), _side(tallies, below=True)
        upper = self.above.decide(above)
        lower = self.below.decide(below)
        for _ in range(2):
            lower = self.below.decide(below, other=upper.threshold)
            upper = self.above.decide(above, other=lower.threshold)
        if self.below.mass(below) < _FEW:
            lower = _no_farther(lower, upper.threshold)
        elif self.above.mass(above) < _FEW:
            upper = _no_farther(upper, lower.threshold)
        return replace(upper, below=lower)


def _no_farther(chosen: Decision, threshold: int) -> Decision:
    """The decision, or a smaller threshold; nothing is added for what is then cut."""
    if chosen.threshold <= threshold:
        return chosen
    return replace(chosen, threshold=threshold, offset=0.0)


def _tail(asked: Round) -> list[TailQuestion]:
    return [question for question in asked.questions if isinstance(question, TailQuestion)]


def _side(tallies: Sequence[Tally], *, below: bool) -> tuple[Tally, ...]:
    """What was answered about one side, as if there were no other."""
    sides = []
    for tally in tallies:
        mine = [
            (replace(question, below=False), counts)
            for question, counts in zip(tally.questions, tally.counts, strict=True)
            if isinstance(question, TailQuestion) and question.below == below
        ]
        sides.append(
            Tally(
                questions=tuple(question for question, _ in mine),
                counts=tuple(counts for _, counts in mine),
            )
        )
    return tuple(sides)
