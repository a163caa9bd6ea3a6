"""The part of `tidegate check` that rehearses releases: are totals right, do intervals hold?

Formulas assume that a good cap is found. A rehearsal does not: it runs the release on the values,
asks for the total and compares it with the true one. Noise is fresh and thrown away, and nothing is
kept; what is shown is for the owner alone, as all of `check`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tidegate.lattice import FloatArray, IntArray

if TYPE_CHECKING:
    from tidegate.io import Batch
    from tidegate.run.pipeline import Pipeline

_RUNS, _FEW_RUNS = 5, 3
_MANY_ROWS, _MOST_ROWS = 1 << 17, 1 << 21  # fewer runs; none: it would take too long


@dataclass(frozen=True)
class Rehearsal:
    """The results of several runs with the same settings."""

    runs: int
    held: int  # how often the 95 % interval held the true total
    error: float  # of the total: the median of the runs, relative to the sum of absolute values
    below: float  # how far the interval reaches below the total, in the same unit
    above: float  # how far above

    @property
    def misses(self) -> bool:
        """Whether most intervals missed the true total; 19 of 20 should contain it."""
        return 2 * self.held < self.runs

    def cells(self) -> tuple[str, str, str]:
        """The error, the interval and how often it contained the total, as cells of a table."""
        below, above = _share_of_rehearsals(self.below), _share_of_rehearsals(self.above)
        ends = f"± {above}" if above == below else f"− {below}, + {above}"
        return _share_of_rehearsals(self.error), ends, f"{self.held} of {self.runs}"


def _share_of_rehearsals(part: float) -> str:
    return f"{part:.1%}" if part < 10 else f"{part:.2g} times"


@dataclass(repr=False)  # raw values
class RehearsalValues:
    """The values to rehearse with: of the whole file, or of a key of middle size. Not private."""

    by_key: bool
    _batches: list[FloatArray] = field(default_factory=list)
    _codes: list[IntArray] = field(default_factory=list)  # codes of the keys of these rows
    _code_of_key: dict[str, int] = field(default_factory=dict)
    _rows: int = 0

    def push(self, batch: Batch) -> None:
        """Keep the values of some rows, unless there are too many."""
        values = np.asarray(batch.values, dtype=np.float64)
        self._rows += values.size
        if self._rows > _MOST_ROWS:
            self._batches, self._codes = [], []
            return
        self._batches.append(values)
        if self.by_key and batch.users is not None:
            known = self._code_of_key
            codes = [known.setdefault(str(key), len(known)) for key in batch.users.tolist()]
            self._codes.append(np.array(codes, dtype=np.int64))

    def values(self) -> FloatArray:
        """The values to rehearse with. Empty: there are none, or too many."""
        values = np.concatenate([np.empty(0), *self._batches])
        if not self.by_key:
            return values
        codes = np.concatenate([np.empty(0, dtype=np.int64), *self._codes])
        if codes.size != values.size or not values.size:
            return np.empty(0)
        counts = np.bincount(codes)
        middle = np.argsort(counts, kind="stable")[counts.size // 2]
        chosen: FloatArray = values[codes == middle]
        return chosen


def check_by_rehearsal(pipeline: Pipeline, values: FloatArray) -> Rehearsal | None:
    """Release the values several times and compare the totals. None: there is nothing to release.

    The true total is that of the values as they are: what the bounds cut is missing in a release.
    """
    if not values.size or pipeline.ticks is not None:
        return None
    lattice = pipeline.lattice
    floor, bound = -lattice.bottom * lattice.step, lattice.top * lattice.step
    counted = np.nan_to_num(values, nan=0.0, posinf=bound, neginf=floor)
    truth, size = float(counted.sum()), max(float(np.abs(counted).sum()), 1e-300)
    runs = _RUNS if values.size <= _MANY_ROWS else _FEW_RUNS
    answers = []
    for _ in range(runs):
        release = pipeline.start()
        release.push(values)
        release.finish()
        answers.append(release.query(0, values.size))
    return Rehearsal(
        runs,
        sum(one.low <= truth <= one.high for one in answers),
        float(np.median([abs(one.estimate - truth) for one in answers])) / size,
        float(np.median([one.estimate - one.low for one in answers])) / size,
        float(np.median([one.high - one.estimate for one in answers])) / size,
    )
