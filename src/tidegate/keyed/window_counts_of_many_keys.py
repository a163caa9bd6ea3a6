"""Window counts of many keys, for later choices of θ: how many values exceed each candidate."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tidegate.keyed.raw_values_of_many_keys import with_room_for_keys
from tidegate.lattice import IntArray, Lattice
from tidegate.run.two_sided_caps import SHAPES, scale_part
from tidegate.state_as_bytes import State
from tidegate.threshold.choices_of_many_streams import added_up
from tidegate.threshold.tail_quantile import (
    PARTS,
    all_tail_grids,
    last_exceeded_in_tail,
    outcome_of_tail_quantile,
)

_ONE = np.int32(1)  # of the type of what it is added to: numpy takes 40 times as long otherwise


class WindowCounts:
    """`SelectionCounts` for many keys, of values from 0 on: the counts of open windows.

    A value counts in full at all candidates before the last one that it exceeds, and in part there:
    two numbers are added for each value, whatever the candidates.

    Attributes:
        size, taken: by key: values that the window has when it ends (0: none is open), and so far.
    """

    def __init__(self, lattice: Lattice) -> None:
        self._grids = all_tail_grids(lattice)
        self.size: IntArray = np.zeros(0, dtype=np.int64)
        self.taken: IntArray = np.zeros(0, dtype=np.int64)
        self._grid: IntArray = np.zeros(0, dtype=np.int64)
        most = max(map(len, self._grids))
        self._whole: NDArray[np.int32] = np.zeros((0, most), dtype=np.int32)
        self._parts: IntArray = np.zeros((0, most), dtype=np.int64)

    def grow(self, room: int) -> None:
        """Make room for more keys, without windows."""
        for name in ("size", "taken", "_grid", "_whole", "_parts"):
            setattr(self, name, with_room_for_keys(getattr(self, name), room))

    def begin(self, code: int, size: int, candidates: IntArray, known: State) -> None:
        """Begin a window of a key, or resume it from `SelectionCounts`."""
        self.begin_empty(np.array([code]), size, candidates)
        self.taken[code] = known["taken"]
        self._parts[code, : candidates.size] = known["counts"]  # counts add up

    def begin_empty(self, codes: IntArray, size: int, candidates: IntArray) -> None:
        """Begin windows of keys, all with the same candidates."""
        self.wipe(codes)
        self.size[codes] = size
        self._grid[codes] = next(
            at for at, grid in enumerate(self._grids) if np.array_equal(grid, candidates)
        )

    def add(self, codes: IntArray, counts: IntArray, units: IntArray) -> None:
        """Count values of distinct keys with a window, key by key: this many of each."""
        self.taken[codes] += counts
        grids = self._grid[codes]
        if codes.size == units.size:
            owners, rows = codes, grids
        else:
            owners, rows = np.repeat(codes, counts), np.repeat(grids, counts)
        for number in np.unique(grids).tolist():
            mine = rows == number
            last, parts = last_exceeded_in_tail(units[mine], self._grids[number])
            some = last >= 0  # none exceeds a candidate: 0
            at = owners[mine][some] * self._parts.shape[1] + last[some]
            np.add.at(self._parts.reshape(-1), at, parts[some])
            np.add.at(self._whole.reshape(-1), at, _ONE)

    def counts(self, code: int) -> IntArray:
        """`TailQuantile.above` of the values so far."""
        return self._all_counts(np.array([code]))

    def rows(self, codes: IntArray, candidates: int) -> IntArray:
        """`counts` for keys with this many candidates: one row for each."""
        return added_up(self._whole[codes, :candidates], self._parts[codes, :candidates])

    def wipe(self, codes: int | IntArray) -> None:
        """Erase the counts of keys: they are kept no longer than needed."""
        self._whole[codes] = 0
        self._parts[codes] = 0
        self.taken[codes] = self.size[codes] = 0

    # -- state -----------------------------------------------------------------------------------

    def state(self, start: int, end: int) -> dict[str, NDArray[np.generic]]:
        """The state to resume the windows of these keys from.

        Counts take as many bits as the longest window can need, whatever was counted.
        """
        size = self.size[start:end]
        opened = np.flatnonzero(size) + start
        small = int(size.max(initial=0)) * PARTS <= np.iinfo(np.int32).max
        return {
            "window": size,
            "taken": self.taken[start:end],
            "grid": self._grid[start:end].astype(np.int8),
            "counts": self._all_counts(opened).astype(np.int32 if small else np.int64),
        }

    def _all_counts(self, codes: IntArray) -> IntArray:
        """`counts` of many keys, one after another."""
        return added_up(self._whole[codes], self._parts[codes])[self._of_grid(codes)]

    def _of_grid(self, codes: IntArray) -> NDArray[np.bool_]:
        """A mask of the entries that belong to candidates, in the rows of these keys."""
        sizes = np.array([len(grid) for grid in self._grids])[self._grid[codes]]
        found: NDArray[np.bool_] = np.arange(self._parts.shape[1]) < sizes[:, np.newaxis]
        return found

    def restore(self, codes: IntArray, state: State) -> None:
        """Restore the windows of a `state`."""
        self.size[codes], self.taken[codes] = state["window"], state["taken"]
        self._grid[codes] = state["grid"]
        opened = codes[self.size[codes] > 0]
        rows = np.zeros((opened.size, self._parts.shape[1]), dtype=np.int64)
        rows[self._of_grid(opened)] = state["counts"]
        self._parts[opened] = rows  # counts add up


_WHOLE = 8  # eighths


# Which end a shape narrows, as a sign, and to how many eighths; (8, 8) narrows none.
_NARROWED = [
    (at, 1 if above < _WHOLE else -1, min(above, below))
    for at, (above, below) in enumerate(SHAPES)
    if min(above, below) < _WHOLE
]


class TwoSidedWindowCounts(WindowCounts):
    """`SelectionCounts` for many keys where values below 0 count.

    Candidates are compared with sizes of values. Besides, each shape of each scale that a candidate
    leads to counts what it would cut (`two_sided_caps.outside_caps`): a value is cut by all scales
    up to one, where 1 is added.
    """

    def __init__(self, lattice: Lattice) -> None:
        super().__init__(lattice.scale)
        self._scale = lattice.scale
        self._cut: NDArray[np.int32] = np.zeros((0, len(SHAPES), self._parts.shape[1]), np.int32)
        self._factor: IntArray = np.zeros(0, dtype=np.int64)  # in `_factors`
        self._factors: list[Fraction] = []
        self._known_parts: dict[tuple[int, int, int], IntArray] = {}

    def grow(self, room: int) -> None:
        """Make room for more keys, without windows."""
        super().grow(room)
        self._factor = with_room_for_keys(self._factor, room)
        rest = np.zeros((room - len(self._cut), *self._cut.shape[1:]), dtype=np.int32)
        self._cut = np.concatenate((self._cut, rest))

    def begin_two_sided(
        self, code: int, size: int, candidates: IntArray, known: State, factor: Fraction
    ) -> None:
        """`begin`, for a window whose scales are this factor larger than its candidates."""
        self.begin(code, size, candidates, known)
        self._begin_factor(code, factor)
        cut = known["outside"].reshape(candidates.size, len(SHAPES)).T
        self._cut[code, :, : candidates.size] = cut - np.append(
            cut[:, 1:], np.zeros((len(SHAPES), 1), dtype=np.int64), axis=1
        )

    def _begin_factor(self, code: int, factor: Fraction) -> None:
        if factor not in self._factors:
            self._factors.append(factor)
        self._factor[code] = self._factors.index(factor)

    def add(self, codes: IntArray, counts: IntArray, units: IntArray) -> None:
        """Count values of distinct keys with a window, key by key: this many of each."""
        super().add(codes, counts, np.abs(units))
        kinds = self._grid[codes] * len(self._factors) + self._factor[codes]
        owners, rows = np.repeat(codes, counts), np.repeat(kinds, counts)
        row_size = self._cut.shape[2]
        for kind in np.unique(kinds).tolist():
            mine = rows == kind
            values, owned = units[mine], owners[mine] * len(SHAPES)
            for shape, sign, eighths in _NARROWED:
                grid, factor = divmod(kind, len(self._factors))
                parts = self._scale_parts(grid, factor, eighths)
                last = np.searchsorted(parts, sign * values) - 1  # the last that is smaller
                some = last >= 0
                at = (owned[some] + shape) * row_size + last[some]
                np.add.at(self._cut.reshape(-1), at, np.int32(1))

    def _scale_parts(self, grid: int, factor: int, eighths: int) -> IntArray:
        """A number of eighths of the scale of each candidate."""
        found = self._known_parts.get((grid, factor, eighths))
        if found is None:
            times = self._factors[factor]
            steps = self._grids[grid].tolist()
            scales = [outcome_of_tail_quantile(step, times, self._scale) for step in steps]
            found = np.array([scale_part(scale, eighths) for scale in scales], dtype=np.int64)
            self._known_parts[grid, factor, eighths] = found
        return found

    def outside(self, code: int) -> IntArray:
        """How many values each shape of each scale would cut, scale by scale."""
        size = len(self._grids[int(self._grid[code])])
        cut = self._cut[code, :, :size].astype(np.int64)
        found: IntArray = cut[:, ::-1].cumsum(axis=1)[:, ::-1].T.reshape(-1)
        return found

    def wipe(self, codes: int | IntArray) -> None:
        """Erase the counts of keys: they are kept no longer than needed."""
        super().wipe(codes)
        self._cut[codes] = 0

    def state(self, start: int, end: int) -> dict[str, NDArray[np.generic]]:
        """The state to resume the windows of these keys from."""
        opened = np.flatnonzero(self.size[start:end]) + start
        factors = [self._factors[at] for at in self._factor[opened].tolist()]
        pairs = [(one.numerator, one.denominator) for one in factors]
        return {
            **super().state(start, end),
            "cut": self._cut[opened].reshape(-1),
            "factors": np.array(pairs, dtype=np.int64).reshape(-1),
        }

    def restore(self, codes: IntArray, state: State) -> None:
        """Restore the windows of a `state`."""
        super().restore(codes, state)
        opened = codes[self.size[codes] > 0]
        self._cut[opened] = state["cut"].reshape(opened.size, *self._cut.shape[1:])
        pairs = state["factors"].reshape(-1, 2).tolist()
        for code, (above, under) in zip(opened.tolist(), pairs, strict=True):
            self._begin_factor(code, Fraction(above, under))
