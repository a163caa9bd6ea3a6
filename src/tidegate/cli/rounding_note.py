"""Tell the operator of `tidegate release` when rounding to the resolution moves the sum.

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

_MUCH = 0.005  # of the sum
_SAMPLE = 1 << 16  # values that a better resolution is found from


class _RoundedColumn:
    """What rounding did to the values of a column so far, above and below 0 apart."""

    def __init__(self, lattice: Lattice) -> None:
        self._lattice = lattice
        self._ends = -lattice.bottom * lattice.step, lattice.top * lattice.step
        self._size = self._above = self._below = 0.0
        self._sample: list[FloatArray] = []
        self._sampled = 0

    def push(self, values: Any) -> None:
        """Add the next values; whole numbers, which a resolution up to 1 keeps, are left out."""
        if values.dtype.kind != "f":
            return
        kept = np.clip(np.nan_to_num(values, nan=0.0), *self._ends)
        moved = np.rint(kept / self._lattice.step) * self._lattice.step - kept
        above, everything = float(moved[kept >= 0].sum()), float(moved.sum())
        self._above += above
        self._below += everything - above
        self._size += float(np.abs(kept).sum())
        if self._sampled < _SAMPLE:
            self._sample.append(kept[: _SAMPLE - self._sampled].copy())
            self._sampled += self._sample[-1].size

    def words(self) -> str:
        """A warning, or nothing."""
        moved = abs(self._above) + abs(self._below)
        if moved <= _MUCH * self._size:
            return ""
        from tidegate.plan.data_profile import DataProfile  # on demand: it is seldom needed

        profile, lattice = DataProfile(), self._lattice
        profile.push(np.concatenate(self._sample))
        fine = profile.fine_resolution(lattice.resolution, lattice.bound, lattice.lower)
        return (
            f"rounding to --resolution {float(lattice.resolution):.15g} moves the sum of what was "
            f"read by {moved / self._size:.1%}. Use --resolution {float(fine):.15g}. This number "
            "is for you: it is not private, and is not in the output"
        )


class RoundingNote:
    """A source that is read through: the same batches, and how far rounding moves their sums."""

    def __init__(self, source: Any, lattices: Sequence[Lattice], names: Sequence[str] = ()) -> None:
        self._source, self._names = source, names or [""] * len(lattices)
        self._columns = [_RoundedColumn(lattice) for lattice in lattices]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def batches(self) -> Iterator[Batch]:
        """The batches of the source, whose rounding is watched."""
        for batch in self._source.batches():
            for column, values in zip(self._columns, (batch.values, *batch.others), strict=False):
                column.push(values)
            yield batch

    def tell(self) -> None:
        """Say on stderr what rounding did, if that is much."""
        for name, column in zip(self._names, self._columns, strict=True):
            if words := column.words():
                complain(f"{name}{': ' if name else ''}warning: {words}")
