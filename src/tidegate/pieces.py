"""What was released of a stream at once: enough to publish it again, and to answer from it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import no_sums


def _no_numbers() -> FloatArray:
    return np.empty(0)


@dataclass
class Trace:
    """The released numbers behind some published values, in lattice units. Nothing of it is secret.

    Attributes:
        sums: the noisy sums that were completed.
        following: of blocks of one size, the prediction after each.
        begun: of guided blocks, where each of those that began starts, how long it is, by which
            option it is measured, and which model was the best then; one after another.
        runs: of guided releases, how many values were published with one forecast, each time.
        levels: for each run, what was published for all values but the last, and for the last.
    """

    sums: IntArray = field(default_factory=no_sums)
    following: FloatArray = field(default_factory=_no_numbers)
    begun: IntArray = field(default_factory=no_sums)
    runs: IntArray = field(default_factory=no_sums)
    levels: FloatArray = field(default_factory=_no_numbers)

    def joined(self, later: Trace) -> Trace:
        """This trace and the one that follows it."""
        pairs = zip(vars(self).values(), vars(later).values(), strict=True)
        return Trace(*(np.concatenate(pair) for pair in pairs))

    def values(self, step: float) -> FloatArray:
        """The published values of all runs, as they were."""
        each, last = self.levels.reshape(-1, 2).T * step
        out = np.repeat(each, self.runs)
        out[np.cumsum(self.runs) - 1] = last
        return out


@dataclass
class Piece:
    """The values [start, end) of one phase."""

    start: int
    end: int
    phase_start: int  # where the phase began: tells a new phase from a continued one
    first: float  # the phase's first prediction
    blocked: float | None  # what was published instead of values that were withheld
    trace: Trace
