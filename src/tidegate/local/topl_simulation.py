"""The result of simulating all devices and their server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import SettingError
from tidegate.guarantee import Guarantee
from tidegate.lattice import FloatArray, IntArray
from tidegate.local.server_collection import ServerCollection, Slot
from tidegate.local.survey import SurveyDecision
from tidegate.randomness import Keystream, WordSource
from tidegate.record.answer import Answer

# Devices that answer at once: large enough for numpy, small enough for the cache.
_BATCH = 1 << 16


@dataclass(frozen=True)
class Simulation:
    """A collection with the reports of simulated devices.

    Attributes:
        released: one number for every value after the hold-out.
        guarantee: what the devices' values were promised.
        collection: the server's state; `query` asks it.
    """

    released: FloatArray = field(repr=False)
    guarantee: Guarantee
    collection: ServerCollection = field(repr=False)

    @property
    def decision(self) -> SurveyDecision | None:
        """The last choice of the threshold; None if the hold-out was not full."""
        return self.collection.decision

    @property
    def threshold(self) -> float | None:
        """θ, in units of the data."""
        return self.collection.threshold

    @property
    def advice(self) -> str | None:
        """Advice about the threshold for the user; may be empty."""
        return self.collection.advice

    def query(self, start: int, end: int, confidence: float = 0.95) -> Answer:
        """The sum over released values [start, end)."""
        return self.collection.query(start, end, confidence)


def refuse_to_simulate_below(numbers: NDArray[Any], lower: float) -> None:
    """Refuse values that no device would report: only a rehearsal may read them."""
    wrong = np.flatnonzero(numbers < lower)
    if wrong.size:
        raise SettingError(
            "lower",
            f"{wrong.size:,} values lie below it ({lower:g}), the first at position "
            f"{int(wrong[0]):,}: give a lower that no value is below, or clamp=True (--clamp)",
        )


def run_simulation(
    collection: ServerCollection, values: IntArray, keystream: Keystream
) -> FloatArray:
    """Let the devices of `values` (in steps) answer in order; return what is published."""
    published = [np.zeros(0)]
    position = batch = 0
    while position < values.size:
        count = min(_BATCH, values.size - position)
        if collection.left is not None:
            count = min(count, collection.left)
        slots = _simulated_rotation(collection.taken, count, len(collection.slots))
        devices = values[position : position + count]
        reports = _simulated_answers(collection.slots, slots, devices, keystream.at(chunk=batch))
        published.append(collection.receive(slots, reports))
        position += count
        batch += 1
    return np.concatenate(published)


def _simulated_rotation(taken: int, count: int, slots: int) -> IntArray:
    """The slots of the next devices."""
    if slots == 1:  # most of the stream, and a division is slow
        return np.zeros(count, dtype=np.int64)
    return (np.arange(count) + taken) % slots


def _simulated_answers(
    asked: tuple[Slot, ...], slots: IntArray, devices: IntArray, words: WordSource
) -> IntArray:
    """The reports of devices to their slots."""
    if len(asked) == 1:
        return asked[0].question.answers(devices, words)
    reports = np.zeros(devices.size, dtype=np.int64)
    for index, slot in enumerate(asked):
        mine = slots == index
        reports[mine] = slot.question.answers(devices[mine], words)
    return reports
