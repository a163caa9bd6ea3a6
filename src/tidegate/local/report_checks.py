"""Reject reports, one by one or in arrays, with a reason.

A single report is checked by `messages.parsed` and `Report.problem`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tidegate.errors import TidegateError
from tidegate.guarantee import Guarantee
from tidegate.lattice import IntArray
from tidegate.local.announcements_and_reports import Announcement
from tidegate.local.questions.question import question_slices

_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
CLOSED = "late"
REASONS = {
    "malformed": "it is no report",
    "version": "it is of another version",
    "round": "its round is not one of this collection's",
    CLOSED: "its round has closed",
    "slot": "its round has no such question",
    "phase": "its question is of another phase",
    "epsilon": "its question has another epsilon",
    "domain": "its question has no such report",
    "assignment": "its client is asked another question",
    "duplicate": "its client has reported in this round",
}


class RejectedError(TidegateError, ValueError):
    """A report was rejected. `reason` is one of `REASONS`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def _message(self) -> str:
        return f"the report was rejected: {REASONS[self.reason]}"


@dataclass(frozen=True)
class Received:
    """The outcomes of some reports.

    Attributes:
        accepted: how many were taken.
        rejected: how many were not, by reason.
        rejected_at: the reason for each rejected report, by its index among the given ones; for
            the first 10,000 that were rejected.
        codes: the outcome of each given report, a byte each: 0, or 1 plus the index of the reason
            in `REASONS`.
        shuffled: of reports that went through a shuffler: what each of them costs in the central
            model, for information (see `shuffle.amplified`).
    """

    accepted: int
    rejected: Counter[str] = field(default_factory=Counter)
    shuffled: Guarantee | None = None
    rejected_at: dict[int, str] = field(default_factory=dict)
    codes: bytes = field(default=b"", repr=False)

    def outcome(self, place: int) -> str:
        """The outcome of the report at this index: "accepted", or the reason of its rejection.

        A "duplicate" was taken before, so its device may forget it; "late" will never be taken.

        >>> Received(1, Counter({"late": 1}), codes=code("accepted") + code("late")).outcome(1)
        'late'
        """
        return _OUTCOMES[self.codes[place]]


_OUTCOMES = ("accepted", *REASONS)


def code(outcome: str) -> bytes:
    """An outcome as one byte of `Received.codes`."""
    return bytes([_OUTCOMES.index(outcome)])


def has_closed(name: str, current: str) -> bool:
    """Whether this collection has closed a round of this name.

    >>> has_closed("5f.1.0", "5f.2.0"), has_closed("5f.3.0", "5f.2.0"), has_closed("5f", "5f.2.0")
    (True, False, False)
    """
    (mine, *numbers), (other, *passed) = current.split("."), name.split(".")
    if mine != other or len(passed) != 2 or not all(_NUMBER.fullmatch(one) for one in passed):
        return False
    return [*map(int, passed)] < [*map(int, numbers)]


def admitted(
    slots: IntArray, reports: IntArray, announced: Sequence[Announcement], left: int | None
) -> tuple[IntArray, IntArray, Counter[str]]:
    """Sort the reports of one round: those to accept, at most `left`, and the others by reason."""
    domains = np.array([asked.question.reports for asked in announced])
    rejected = Counter[str]()
    if not _all_reports_inside(slots, reports, domains):
        known = (slots >= 0) & (slots < len(domains))
        inside = known & (reports >= 0) & (reports < domains[np.where(known, slots, 0)])
        rejected["slot"] = int(np.count_nonzero(~known))
        rejected["domain"] = int(np.count_nonzero(known & ~inside))
        slots, reports = slots[inside], reports[inside]
    rejected["round"] = 0 if left is None else slots[left:].size
    return slots[:left], reports[:left], +rejected  # the plus leaves out what is 0


def _all_reports_inside(slots: IntArray, reports: IntArray, domains: IntArray) -> bool:
    """Whether all reports are in range: nearly always true, and fast to check piece by piece."""
    for piece in question_slices(slots.size):
        if slots[piece].min() < 0 or slots[piece].max() >= len(domains):
            return False
        if reports[piece].min() < 0 or (reports[piece] >= domains[slots[piece]]).any():
            return False
    return True
