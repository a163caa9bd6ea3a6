"""Tell the operator of `tidegate release` how many values were rounded, cut or missing.

Rounding to the resolution may move the sum, the bounds cut what lies beyond them, and a missing
value counts as 0. No estimate and no interval has what is lost there.

**Not private**: it is computed from raw values without noise. It is printed on stderr, for whoever
runs the command and holds the data, and goes into no output, metadata, state, ledger or log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate.cli.exit_codes_and_signals import complain

if TYPE_CHECKING:
    from tidegate.io import Batch
    from tidegate.lattice import FloatArray, Lattice

_MUCH = 0.005  # of the sum, or of the values
_FOR_YOU = "This number is for you: it is not private, and is not in the output"
_SAMPLE = 1 << 16  # values from which a better resolution is found


class _RoundedColumn:
    """Counts of rounded, cut and missing values of a column; rounding above and below 0 apart."""

    def __init__(self, lattice: Lattice) -> None:
        self._lattice = lattice
        self._ends = -lattice.bottom * lattice.step, lattice.top * lattice.step
        self._size = self._above = self._below = self._cut = 0.0
        self._read = self._missing = 0
        self._sample: list[FloatArray] = []
        self._sampled = 0

    def push(self, values: Any) -> None:
        """Add the next values; whole numbers are not rounded, as a resolution is at most 1."""
        known = np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf)
        kept = np.clip(known, *self._ends)
        with np.errstate(over="ignore"):
            self._cut += float(np.abs(known - kept)[np.isfinite(known)].sum())
        self._size += float(np.abs(kept).sum())
        self._read += values.size
        if values.dtype.kind != "f":
            return
        self._missing += int(np.isnan(values).sum())
        moved = np.rint(kept / self._lattice.step) * self._lattice.step - kept
        above, everything = float(moved[kept >= 0].sum()), float(moved.sum())
        self._above += above
        self._below += everything - above
        if self._sampled < _SAMPLE:
            self._sample.append(kept[: _SAMPLE - self._sampled].copy())
            self._sampled += self._sample[-1].size

    def words(self) -> list[str]:
        """Warnings about the column; may be none."""
        return [*filter(None, (self._of_missing(), self._of_cut(), self._of_rounding()))]

    def _of_missing(self) -> str:
        if self._missing <= _MUCH * self._read:
            return ""
        share = self._missing / self._read
        return f"{share:.1%} of the values were missing, and each counts as 0. {_FOR_YOU}"

    def _of_cut(self) -> str:
        if self._cut <= _MUCH * (self._size + self._cut):
            return ""
        low, high = float(self._lattice.lower), float(self._lattice.bound)
        return (
            f"{self._cut / (self._size + self._cut):.1%} of the size of all values lies beyond "
            f"{low:g} to {high:g} (--lower, --bound) and was cut: no estimate and no interval has "
            f"that part. {_FOR_YOU}"
        )

    def _of_rounding(self) -> str:
        moved = abs(self._above) + abs(self._below)
        if moved <= _MUCH * self._size:
            return ""
        from tidegate.plan.data_profile import DataProfile  # on demand: it is seldom needed

        profile, lattice = DataProfile(), self._lattice
        profile.push(np.concatenate(self._sample))
        fine = profile.fine_resolution(lattice.resolution, lattice.bound, lattice.lower)
        return (
            f"rounding to --resolution {float(lattice.resolution):.15g} moves the sum of what was "
            f"read by {moved / self._size:.1%}. Use --resolution {float(fine):.15g}. {_FOR_YOU}"
        )


class RoundingNote:
    """A source that passes its batches on unchanged and counts what their values lose."""

    def __init__(self, source: Any, lattices: Sequence[Lattice], names: Sequence[str] = ()) -> None:
        self._source, self._names = source, names or [""] * len(lattices)
        self._columns = [_RoundedColumn(lattice) for lattice in lattices]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of the source and count."""
        for batch in self._source.batches():
            for column, values in zip(self._columns, (batch.values, *batch.others), strict=False):
                column.push(values)
            yield batch

    def tell(self) -> None:
        """Print on stderr what was rounded, cut or missing, if that is much."""
        for name, column in zip(self._names, self._columns, strict=True):
            for words in column.words():
                complain(f"{name}{': ' if name else ''}warning: {words}")
