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
    """The released numbers behind some published values, in lattice units. None of it is secret.

    Attributes:
        sums: the noisy sums that were completed.
        following: of blocks of one size, the prediction after each.
        begun: of guided blocks, where each of those that began starts, how long it is, by which
            option it is measured, and which model was the best then; one after another.
        runs: of guided releases, how many equal values in a row were published, each time.
        levels: and what they were, in the unit of the data.
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

    def keep(self, published: FloatArray) -> None:
        """Keep published values as runs: inside a cell all but the last are alike."""
        exact = published.view(np.int64)  # bit for bit: −0.0 is not 0.0
        starts = np.concatenate(([0], 1 + np.flatnonzero(exact[1:] != exact[:-1])))
        self.runs = np.diff(starts, append=published.size)
        self.levels = published[starts]

    def published(self) -> FloatArray:
        """The values that `keep` was given.

        >>> trace = Trace()
        >>> trace.keep(np.array([1.5, 1.5, 1.5, -4.0, 2.0, 2.0]))
        >>> trace.runs, trace.levels
        (array([3, 1, 2]), array([ 1.5, -4. ,  2. ]))
        >>> trace.published()
        array([ 1.5,  1.5,  1.5, -4. ,  2. ,  2. ])
        """
        return np.repeat(self.levels, self.runs)


@dataclass
class Piece:
    """The values [start, end) of one phase."""

    start: int
    end: int
    phase_start: int  # where the phase began: tells a new phase from a continued one
    first: float  # the phase's first prediction
    blocked: float | None  # what was published instead of values that were withheld
    trace: Trace
