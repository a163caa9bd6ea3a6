"""`Task`: which device is asked what, and where its reports are added.

It knows no names: who was given which slot, and who has reported, is kept by its owner in the same
transaction. Nothing here looks at a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from tidegate.errors import SnapshotError
from tidegate.local.announcements_and_reports import Announcement, Report
from tidegate.local.question_assignment import announced
from tidegate.local.report_checks import CLOSED
from tidegate.local.server_collection import STREAM, Slot
from tidegate.local.task.round_calendar import RoundCalendar
from tidegate.local.task.task_round import BESIDE, MOST_SLOTS, RoundPart, TaskRound
from tidegate.local.topl import Topl

LEASE = 600  # seconds until a device that was asked for the threshold and is silent is replaced
_FEW_MARKS = 2  # of running sums by position: here sums are by time


@dataclass(eq=False)
class Task:
    """The rounds of one task that still take reports, and their survey.

    **Never more are asked than may answer.** A part of a survey wants a number of
    answers, and that many devices are asked. If somebody is silent for `LEASE` seconds, others are
    asked in their place; whoever answers later is still taken. Meanwhile devices are asked for
    their value, beside the survey, once there is a threshold. So a device that answers while its
    round takes reports has never spent its ε for nothing: its report is in the tallies of its
    round. (An answer about the threshold that comes when the threshold was decided is counted,
    and decides nothing any more.)

    Attributes:
        task_id: 32 bytes in base 64, as in DAP; the names of rounds begin with it.
        topl: what is asked of devices.
        calendar: when rounds open and close.
        rounds: by number: the open one and those in their grace period.
        asked: how many devices were asked in the open part of the survey, in any round, and not
            replaced.
        asked_last: when the last of them was.
    """

    task_id: str
    topl: Topl
    calendar: RoundCalendar
    rounds: dict[int, TaskRound] = field(default_factory=dict)
    asked: int = 0
    asked_last: float = 0.0

    def __post_init__(self) -> None:
        self.collection = self.topl.collection(capacity=_FEW_MARKS)

    # -- asking ----------------------------------------------------------------------------------

    def round_name(self, number: int) -> str:
        """The name of a round in messages."""
        return f"{self.task_id}.{number}"

    def number_of(self, name: str) -> int | None:
        """The number of the round with this name. None: it does not belong to this task."""
        return _round_number_in_task(name, self.task_id)

    def hand_out(self, now: float) -> tuple[int, int] | None:
        """Round and slot for a device without a question in this round. None: nobody is asked now.

        If all devices that the open part of a survey wants were asked, others are asked for their
        value. Before there is a threshold they cannot be: come again in `LEASE` seconds.
        """
        left, number = self.collection.left, self.calendar.number(now)
        survey, slots = self.collection.round, self.collection.slots
        if left is not None and self.asked - self.collection.taken >= left:
            if now - self.asked_last >= LEASE:
                self.asked = self.collection.taken
            else:
                survey = BESIDE
                slots = tuple(slot for slot in slots if slot.phase == STREAM)[:1]
        part = self._open_part(number, survey, slots) if slots else None
        if part is None:
            return None
        if survey != BESIDE:
            self.asked += 1
            self.asked_last = now
        part.handed += 1
        return number, part.first + (part.handed - 1) % len(part.slots)

    def _open_part(self, number: int, survey: int, slots: tuple[Slot, ...]) -> RoundPart | None:
        opened = self.rounds.setdefault(number, TaskRound(number))
        for part in reversed(opened.parts):
            if part.survey == survey and part.slots == slots:
                return part
        if opened.end + len(slots) > MOST_SLOTS:
            return None  # the next round has room again
        decision = self.collection.decision
        offset = 0.0 if decision is None else decision.added * self.topl.lattice.step
        return opened.open(survey, slots, offset)

    def announcement(self, number: int, slot: int) -> Announcement:
        """The question of a slot that was handed out."""
        part = self.rounds[number].part_of(slot)
        if part is None:
            raise SnapshotError("a device was given a slot that is not there")
        topl = self.topl
        return announced(
            [part.slots[slot - part.first]],
            name=self.round_name(number),
            lower=topl.lower,
            bound=topl.bound,
            resolution=topl.resolution,
            first=slot,
        )[0]

    # -- receiving -------------------------------------------------------------------------------

    def problem(self, report: Report, now: float) -> str | None:
        """The reason to reject a report, from anybody (`report_checks.REASONS`); None: take it."""
        number = self.number_of(report.round)
        return self.round_problem(number, now) or self.report_problem(number, report)

    def round_problem(self, number: int | None, now: float) -> str | None:
        """The reason to reject all reports to this round now; None: it takes reports."""
        if number is None or number > self.calendar.number(now):
            return "round"
        return CLOSED if now >= self.calendar.accepted_until(number) else None

    def report_problem(self, number: int | None, report: Report) -> str | None:
        """The reason to reject a report to a round that takes reports; None: it is valid."""
        opened = None if number is None else self.rounds.get(number)
        asked = None if opened is None else opened.slot(report.slot)
        return "slot" if asked is None else report.problem_with(asked)

    def take(self, number: int, taken: Iterable[tuple[int, int]]) -> bool:
        """Add valid (slot, report) pairs of a round; True: new questions open.

        What the open part of the survey still wants goes to it too.
        """
        opened, survey = self.rounds[number], self.collection.round
        answers: list[tuple[int, int]] = []  # to the open part of the survey
        for slot, report in taken:
            part = opened.part_of(slot)
            if part is None:
                raise SnapshotError("a report to a slot that is not there")
            part.counts[slot - part.first][report] += 1
            if part.survey == self.collection.round:
                answers.append((slot - part.first, report))
                if len(answers) == self.collection.left:  # which closes it
                    self._answer(answers)
                    answers = []
        self._answer(answers)
        return self.collection.round != survey

    def _answer(self, answers: list[tuple[int, int]]) -> None:
        if not answers:
            return
        before = self.collection.round
        self.collection.receive(*np.array(answers, dtype=np.int64).T)
        if self.collection.round != before:
            self.asked, self.asked_last = 0, 0.0

    # -- state -----------------------------------------------------------------------------------

    @property
    def threshold(self) -> float | None:
        """θ, in units of the data; None before it is chosen."""
        return self.collection.threshold

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore from `state`, the collection's at its present round, and all stored `rounds`."""
        self.collection.restore(state)
        if self.collection.left is None:
            return
        for opened in self.rounds.values():
            for part in opened.parts:
                if part.survey == self.collection.round:
                    self._replay(part)

    def _replay(self, part: RoundPart) -> None:
        for index, counts in enumerate(part.counts):
            reports = np.repeat(np.arange(counts.size), counts)
            self.collection.receive(np.full(reports.size, index), reports)

    def passed(self, now: float) -> list[int]:
        """The rounds that take no more reports, to be dropped."""
        return [one for one in self.rounds if now >= self.calendar.accepted_until(one)]


@lru_cache(maxsize=256)  # all reports of a day name the same few rounds
def _round_number_in_task(name: str, task_id: str) -> int | None:
    task, _, number = name.rpartition(".")
    if task != task_id or not number.isdecimal() or str(int(number[:18])) != number:
        return None
    return int(number)
