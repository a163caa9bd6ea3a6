"""One round of a task: its questions, and how often each answer was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate.lattice import IntArray
from tidegate.local.announcements_and_reports import question_from_plain
from tidegate.local.canonical_json import (
    canonical_digest,
    exact_json_fraction,
    finite_json_number,
    whole_field,
)
from tidegate.local.server_collection import Slot
from tidegate.local.survey import MOST, survey_counts_of

MOST_SLOTS = 1 << 16  # a message can name no more
BESIDE = -1  # the survey of devices that are asked while a survey waits for others


@dataclass(eq=False)
class RoundPart:
    """Devices with the same questions, in rotation.

    Attributes:
        survey: the number of the collection's round that these questions are of, or `BESIDE`.
        first: the slot of its first question; slots are counted through the whole round.
        slots: the questions.
        offset: what truncation is expected to take from a value, in units of the data.
        handed: how many devices were asked.
        counts: how often each report to each question was given.
        names: of the questions, by their content.
    """

    survey: int
    first: int
    slots: tuple[Slot, ...]
    offset: float
    handed: int = 0
    counts: list[IntArray] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.counts = [np.zeros(slot.question.reports, dtype=np.int64) for slot in self.slots]
        made: dict[int, str] = {}  # the question for the value comes many times
        for slot in self.slots:
            if id(slot.question) not in made:
                made[id(slot.question)] = round_slot_name(slot)
        self.names = tuple(made[id(slot.question)] for slot in self.slots)

    @property
    def end(self) -> int:
        """The index after its last slot."""
        return self.first + len(self.slots)

    def plain(self) -> dict[str, Any]:
        """The part as plain data, for a database that stores the questions under their `names`."""
        return {
            "survey": self.survey,
            "slots": list(self.names),
            "offset": self.offset,
            "handed": self.handed,
            "counts": [counts.tolist() for counts in self.counts],
        }


@dataclass(eq=False)
class TaskRound:
    """A round and its parts, in the order in which they were opened."""

    number: int
    parts: list[RoundPart] = field(default_factory=list)

    @property
    def reports(self) -> int:
        """The number of accepted reports."""
        return sum(int(counts.sum()) for part in self.parts for counts in part.counts)

    @property
    def end(self) -> int:
        """The number of slots."""
        return self.parts[-1].end if self.parts else 0

    def part_of(self, slot: int) -> RoundPart | None:
        """The part of a slot. None: the slot does not exist."""
        return next((part for part in self.parts if part.first <= slot < part.end), None)

    def slot(self, slot: int) -> Slot | None:
        """The question of a slot. None: the slot does not exist."""
        part = self.part_of(slot)
        return None if part is None else part.slots[slot - part.first]

    def unanswered(self, slot: int) -> int:
        """How many devices given this slot have not reported, if only such devices reported."""
        part = self.part_of(slot)
        if part is None:
            return 0
        index = slot - part.first
        given = part.handed // len(part.slots) + (index < part.handed % len(part.slots))
        return given - int(part.counts[index].sum())

    def open(self, survey: int, slots: Sequence[Slot], offset: float) -> RoundPart:
        """Ask other questions from now on."""
        self.parts.append(RoundPart(survey, self.end, tuple(slots), offset))
        return self.parts[-1]

    def plain(self) -> dict[str, Any]:
        """The round as plain data, for a database that stores the questions under their names."""
        return {"number": self.number, "parts": [part.plain() for part in self.parts]}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], known: Mapping[str, Slot]) -> TaskRound:
        """The round from what `plain` returned."""
        made = cls(whole_field(plain, "number", 0, MOST))
        for one in plain["parts"]:
            slots = tuple(known[name] for name in one["slots"])
            part = made.open(
                whole_field(one, "survey", BESIDE, MOST),
                slots,
                finite_json_number(one["offset"], "offset", 1e300),
            )
            part.handed = whole_field(one, "handed", 0, MOST)
            rows = survey_counts_of(one["counts"], [slot.question for slot in slots])
            part.counts = [np.array(row, dtype=np.int64) for row in rows]
        return made


def round_slot_name(slot: Slot) -> str:
    """The name of a question in a database: a digest of content, phase and cost."""
    return canonical_digest(round_slot_as_plain(slot))


def round_slot_as_plain(slot: Slot) -> dict[str, Any]:
    """A question, its phase and its cost as plain data."""
    return {
        "question": slot.question.plain(),
        "phase": slot.phase,
        "epsilon": str(slot.epsilon),
    }


def round_slot_from_plain(plain: Mapping[str, Any]) -> Slot:
    """The slot from what `round_slot_as_plain` returned."""
    question = question_from_plain(plain["question"])
    return Slot(question, plain["phase"], exact_json_fraction(plain, "epsilon"))
