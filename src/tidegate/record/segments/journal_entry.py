"""Journal entries: values released together, with all that re-emitting and queries need."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import NO_NUMBERS, NO_SUMS


@dataclass
class JournalTrace:
    """The released numbers behind some published values, in lattice units. Nothing in it is secret.

    Attributes:
        sums: the noisy sums that were completed.
        begun: start, length, choice and model_weights of the blocks that began, one after another.
        predictions, totals, widths: the cells that were completed (`tidegate.stages.Cells`).
        marks: what the perturber said about the sums, if it did.
        sizes: numbers of events by size, with noise: a row for each piece (`run.event_sizes`).
    """

    sums: IntArray = field(default_factory=lambda: NO_SUMS)
    begun: IntArray = field(default_factory=lambda: NO_SUMS)
    predictions: FloatArray = field(default_factory=lambda: NO_NUMBERS)
    totals: IntArray = field(default_factory=lambda: NO_SUMS)
    widths: IntArray = field(default_factory=lambda: NO_SUMS)
    marks: IntArray = field(default_factory=lambda: NO_SUMS)
    sizes: IntArray = field(default_factory=lambda: NO_SUMS)

    def joined(self, later: JournalTrace) -> JournalTrace:
        """This trace followed by the next one."""
        pairs = zip(vars(self).values(), vars(later).values(), strict=True)
        return JournalTrace(*(np.concatenate(pair) for pair in pairs))


@dataclass
class JournalEntry:
    """The values [start, end) of one phase."""

    start: int
    end: int
    phase_start: int  # where the phase began: tells a new phase from a continued one
    first: float  # the phase's first prediction; of withheld values, what was published
    measured: bool  # False: the values were withheld
    trace: JournalTrace
    times: IntArray = field(default_factory=lambda: NO_SUMS)  # of the values, if they have any
