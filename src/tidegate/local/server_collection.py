"""The server's state: open questions, answers, published sums.

One state machine serves the simulation and the real server. It knows no clients and no messages:
only slots (places in the rotation of the open round) and reports (column numbers). Its memory
is bounded: tallies of the rounds, and running sums of the stream.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tidegate.errors import InputError, RefusedError, SnapshotError
from tidegate.lattice import FloatArray, IntArray
from tidegate.local.announcements_and_reports import question_from_plain
from tidegate.local.canonical_json import finite_json_number, whole_field, whole_json_number
from tidegate.local.collected_sums import CollectedSums
from tidegate.local.questions import Question, ValueQuestion
from tidegate.local.report_variance import worst_report_variance
from tidegate.local.round_schedule import Reporter, RoundRepetition, RoundSchedule
from tidegate.local.running_sums import CAPACITY
from tidegate.local.survey import MOST, Survey, SurveyDecision, SurveyTally, survey_counts_of
from tidegate.record.answer import Answer
from tidegate.record.range_queries_and_answers import Answers

_SLICE = 1 << 14  # reports whose intermediate arrays fit into a processor's second cache
THRESHOLD, STREAM = "threshold", "stream"


@dataclass(frozen=True)
class Slot:
    """A place in the rotation: the question, its purpose, and its cost."""

    question: Question
    phase: str
    epsilon: Fraction


class ServerCollection:
    """The rounds of a survey, then the stream.

    `slots` is the rotation of the open round: the device that is n-th to be asked gets slot n mod
    len(slots), whatever its value is. `receive` takes reports to these slots, in any order, at
    most `left` of them at once. A round closes with its last report, and the next one opens.

    While a survey asks during the stream, reports and its questions alternate, and every report
    stands for its own position and for the next one. After a survey that withholds nothing, as
    many reports as devices were asked stand for two positions each.

    Args:
        survey: how the threshold is chosen.
        reporter: the question for the values themselves.
        again: how it is chosen again later on; None: after the survey the stream is one round
            without an end.
        threshold_epsilon: what an answer to the survey may cost.
        epsilon: what a report of the stream may cost.
        step: the resolution.
        capacity: how many marks of running sums are kept at most.
    """

    def __init__(
        self,
        *,
        survey: Survey,
        reporter: Reporter,
        threshold_epsilon: Fraction,
        epsilon: Fraction,
        again: RoundRepetition | None = None,
        step: float = 1.0,
        capacity: int = CAPACITY,
    ) -> None:
        self.schedule = RoundSchedule(survey, reporter, again)
        self._epsilons = {THRESHOLD: threshold_epsilon, STREAM: epsilon}
        self._step = step
        self.tallies: list[SurveyTally] = []
        self.decision: SurveyDecision | None = None
        self._collected = CollectedSums(capacity)
        # What the open round published and nobody asked for yet: worth and repetitions.
        self._waiting: list[tuple[FloatArray, IntArray]] = []
        self._waiting_count = 0
        self.round = -1  # the number of the open round
        self.copies = 1  # how many positions a report of the open round stands for
        # The last report, in steps, and how often it stood for a device that was asked otherwise.
        self._last: float | None = None
        self._repeats = 0
        self.repeated = False  # whether the threshold is being chosen again, or was
        self._open([], repeated=False)

    # ------------------------------------------------------------------------------ asking

    @property
    def threshold(self) -> float | None:
        """θ, in units of the data; None before it is chosen."""
        return None if self.decision is None else self.decision.threshold * self._step

    @property
    def advice(self) -> str | None:
        """Advice about the threshold for the user; may be empty."""
        chosen = self.decision
        if chosen is None or not chosen.mostly_prior:
            return None
        return (
            f"the reports leave the best threshold open from {chosen.low * self._step:.3g} to "
            f"{chosen.high * self._step:.3g}, so that {self.threshold:g} is mostly prior belief: "
            "a larger holdout would know better"
        )

    @property
    def collected(self) -> CollectedSums:
        """The published sums."""
        self.settle()
        return self._collected

    def settle(self) -> None:
        """Add up the waiting reports together; the split changes nothing."""
        if not self._waiting:
            return
        worth, repeats = map(np.concatenate, zip(*self._waiting, strict=True))
        self._waiting, self._waiting_count, step = [], 0, self._step
        offset, worst = self._added * step, self._worst * step**2
        self._collected.push(worth * step, repeats, offset=offset, worst=worst)

    @property
    def left(self) -> int | None:
        """How many more reports the open round takes; None if it never closes."""
        return None if self.participants is None else self.participants - self.taken

    def _open(self, tallies: list[SurveyTally], *, repeated: bool) -> None:
        """Open the next round: whatever can fail happens before anything changes."""
        opening = self.schedule.opening(tallies, self.decision, repeated=repeated)
        slots = tuple(self._slot(question) for question in opening.questions)
        collected = self.collected  # the reports of the round before are in
        if opening.decision is not None and opening.decision != self.decision:
            chosen = opening.decision
            collected.begin(chosen.threshold * self._step, chosen.lowest * self._step)
        self.decision, self.tallies, self.repeated = opening.decision, tallies, repeated
        self._set_slots(slots)
        self.participants, self.taken, self.copies = opening.participants, 0, opening.copies
        self._counts = [np.zeros(slot.question.reports, dtype=np.int64) for slot in slots]
        self.round += 1

    def _slot(self, question: Question) -> Slot:
        phase = STREAM if isinstance(question, ValueQuestion) else THRESHOLD
        question.check(self._epsilons[phase])
        return Slot(question, phase, self._epsilons[phase])

    def _set_slots(self, slots: tuple[Slot, ...]) -> None:
        self.slots = slots
        self._reports = np.array([slot.question.reports for slot in slots])
        self._is_value = np.array([slot.phase == STREAM for slot in slots])
        self._value = next(
            (slot.question for slot in slots if isinstance(slot.question, ValueQuestion)), None
        )
        self._worst = np.zeros(2) if self._value is None else worst_report_variance(self._value)
        self._added = 0.0 if self.decision is None else self.decision.added  # to every report

    # --------------------------------------------------------------------------- receiving

    def receive(self, slots: IntArray, reports: IntArray) -> FloatArray:
        """Take reports to slots of the open round; return what is published for them.

        During the survey before the stream nothing is published: the answer is empty.

        Raises:
            InputError: if a slot or a report does not exist, or the round has not that many left;
                then nothing was taken.
        """
        self._refuse_wrong(slots, reports)
        copies = self.copies
        published = np.zeros(0 if self._value is None else copies * len(reports))
        if self._value is not None:
            for start in range(0, len(reports), _SLICE):  # the split changes nothing
                piece = slice(start, start + _SLICE)
                published[copies * start : copies * (start + _SLICE)] = self._publish(
                    self._value, self._is_value[slots[piece]], reports[piece]
                )
        self.taken += len(reports)
        if self.left is None:
            return published  # no tally: nothing more is decided
        for index, slot in enumerate(self.slots):
            if slot.phase == THRESHOLD:
                given = reports[slots == index]
                self._counts[index] += np.bincount(given, minlength=slot.question.reports)
        if self.left == 0:
            self._close()
        return published

    def _refuse_wrong(self, slots: IntArray, reports: IntArray) -> None:
        if slots.shape != reports.shape or slots.ndim != 1:
            raise InputError("every report needs its slot")
        if self.left is not None and len(reports) > self.left:
            raise InputError(f"the open round takes {self.left} more reports, not {len(reports)}")
        if not len(slots):
            return
        if slots.min() < 0 or slots.max() >= len(self.slots):
            raise InputError("a report to a question that was not asked")
        if reports.min() < 0 or np.any(reports >= self._reports[slots]):
            raise InputError("a report outside its question's domain")

    def _close(self) -> None:
        asked = [index for index, slot in enumerate(self.slots) if slot.phase == THRESHOLD]
        if not asked and self.schedule.complete(self.tallies, repeated=self.repeated):
            self._open([], repeated=True)  # the pause before the next survey has ended
            return
        tally = SurveyTally(
            questions=tuple(self.slots[index].question for index in asked),
            counts=tuple(tuple(self._counts[index].tolist()) for index in asked),
        )
        self._open([*self.tallies, tally], repeated=self.repeated)

    def _publish(self, value: ValueQuestion, is_value: Any, reports: IntArray) -> FloatArray:
        """Publish each report at its position, and repeat it for following devices without one."""
        if len(self.slots) == 1:
            worth = np.repeat(value.decoded[reports], self.copies)
            repeats = np.tile(np.arange(self.copies), len(reports))
        else:
            indices = np.arange(len(reports))
            source = np.maximum.accumulate(np.where(is_value, indices, -1))
            carried = source < 0  # still represented by a report of an earlier push
            middle = (value.lowest + value.threshold) / 2
            last = middle if self._last is None else self._last
            worth = value.decoded[np.where(is_value, reports, 0)][source]
            worth = np.where(carried, last, worth)
            repeats = np.where(carried, self._repeats + 1 + indices, indices - source)
        self._last, self._repeats = float(worth[-1]), int(repeats[-1])
        self._waiting.append((worth, repeats))
        self._waiting_count += len(worth)
        if self._waiting_count >= _SLICE:
            self.settle()
        return (worth + self._added) * self._step

    # ----------------------------------------------------------------------------- answers

    def query(self, start: int, end: int, confidence: float = 0.95) -> Answer:
        """The sum over the published positions [start, end)."""
        return self.queries([start], [end], confidence)[0]

    def queries(self, starts: ArrayLike, ends: ArrayLike, confidence: float = 0.95) -> Answers:
        """The sums over many ranges (see `CollectedSums.queries`)."""
        return self.collected.queries(starts, ends, confidence)

    # ------------------------------------------------------------------------------- state

    def plain(self) -> dict[str, Any]:
        """The whole state as plain data; it has no raw values, only sums of reports."""
        return {
            "round": self.round,
            "participants": self.participants,
            "taken": self.taken,
            "copies": self.copies,
            "questions": [slot.question.plain() for slot in self.slots],
            "counts": [counts.tolist() for counts in self._counts],
            "tallies": [tally.plain() for tally in self.tallies],
            "repeated": self.repeated,
            "decision": None if self.decision is None else self.decision.plain(),
            "last": [self._last, self._repeats],
            "collected": self.collected.plain(),
        }

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Restore from `plain`; `self` must be new, with the same settings.

        Raises:
            SnapshotError: if this is not such a state; then nothing has changed.
        """
        try:
            self._restore(plain)
        except (LookupError, TypeError, ValueError, RefusedError, ArithmeticError):
            raise SnapshotError("this is not the state of such a collection") from None

    def _restore(self, plain: Mapping[str, Any]) -> None:
        slots = tuple(self._slot(question_from_plain(one)) for one in plain["questions"])
        counts = survey_counts_of(plain["counts"], [slot.question for slot in slots])
        tallies = [SurveyTally.from_plain(one) for one in plain["tallies"]]
        decided, worth, repeated = plain["decision"], plain["last"][0], plain["repeated"]
        decision = None if decided is None else SurveyDecision.from_plain(decided)
        collected = CollectedSums.from_plain(plain["collected"])
        last = None if worth is None else finite_json_number(worth, "last", math.inf)
        repeats = whole_json_number(plain["last"][1], "last", 0, MOST)
        round_number = whole_field(plain, "round", 0, MOST)
        participants = plain["participants"]
        if participants is not None:
            participants = whole_field(plain, "participants", 1, MOST)
        taken = whole_field(plain, "taken", 0, MOST if participants is None else participants - 1)
        copies = whole_field(plain, "copies", 1, 2)
        if not slots or type(repeated) is not bool:
            raise ValueError("no questions, or no flag")
        # Nothing below can fail.
        self._last, self._repeats, self.round = last, repeats, round_number
        self.participants, self.taken, self.repeated = participants, taken, repeated
        self.copies, self.tallies, self.decision = copies, tallies, decision
        self._set_slots(slots)
        self._counts = [np.array(row, dtype=np.int64) for row in counts]
        self._collected, self._waiting, self._waiting_count = collected, [], 0
