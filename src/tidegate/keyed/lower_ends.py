"""Keys whose values below 0 count: their lower ends, and counts for choices of both ends.

Beside what `refined_state` has of every key; the names are those of `RefinementState`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tidegate.keyed.raw_values_of_many_keys import WindowCounts, with_room
from tidegate.lattice import IntArray, Lattice
from tidegate.run.two_sided_caps import SHAPES, scale_part
from tidegate.state_as_bytes import State
from tidegate.threshold.tail_quantile import outcome_of

_WHOLE = 8  # eighths
# Which end a shape narrows, as a sign, and to how many eighths; (8, 8) narrows none.
_NARROWED = [
    (at, 1 if above < _WHOLE else -1, min(above, below))
    for at, (above, below) in enumerate(SHAPES)
    if min(above, below) < _WHOLE
]


class LowerEnds:
    """`FloorWatch` of every key, the least lower end, and whether values fell below the last."""

    _COUNTS: ClassVar[tuple[str, ...]] = ("least_below", "fell", "cap", "length")
    _LEVELS: ClassVar[tuple[str, ...]] = ("home", "excess", "variance", "mean", "old", "fair")
    _OWN: ClassVar[tuple[str, ...]] = ("least_below", "fell")

    def __init__(self) -> None:
        self.columns: dict[str, NDArray[Any]] = {
            **{name: np.zeros(0, dtype=np.int64) for name in self._COUNTS},
            **{name: np.zeros(0) for name in self._LEVELS},
        }

    def grow(self, room: int) -> None:
        """Room for more keys."""
        for name, column in self.columns.items():
            self.columns[name] = with_room(column, room, int(name == "least_below"))

    def of(self, code: int, below: int) -> dict[str, Any]:
        """What `RefinementState.progress` says of the lower end of a key."""
        found = {name: column[code].item() for name, column in self.columns.items()}
        own = {name: found.pop(name) for name in self._OWN}
        return {**own, "watch": {**found, "threshold": below}}

    def put(self, code: int, state: State) -> None:
        """Put back what `of` gave."""
        known = {**state["watch"], **{name: state[name] for name in self._OWN}}
        for name, column in self.columns.items():
            column[code] = known[name]

    def drop(self, code: int) -> None:
        """Forget a key."""
        for name, column in self.columns.items():
            column[code] = int(name == "least_below")

    def state(self, start: int, end: int) -> dict[str, NDArray[Any]]:
        """All that is needed to continue these keys."""
        return {f"lower {name}": column[start:end] for name, column in self.columns.items()}

    def restore(self, codes: IntArray, state: State) -> None:
        """Continue keys of a `state`."""
        for name, column in self.columns.items():
            column[codes] = state[f"lower {name}"]


class TwoSidedWindowCounts(WindowCounts):
    """`SelectionCounts` of many keys where values below 0 count.

    Candidates are compared with sizes of values. Besides, each shape of each scale that a candidate
    leads to counts what it would cut (`two_sided_caps.outside`): a value is cut by all scales up to
    one, where 1 is added.
    """

    def __init__(self, lattice: Lattice) -> None:
        super().__init__(lattice.scale)
        self._scale = lattice.scale
        self._cut: NDArray[np.int32] = np.zeros((0, len(SHAPES), self._parts.shape[1]), np.int32)
        self._factor: IntArray = np.zeros(0, dtype=np.int64)  # in `_factors`
        self._factors: list[Fraction] = []
        self._known_parts: dict[tuple[int, int, int], IntArray] = {}

    def grow(self, room: int) -> None:
        """Room for more keys, without a window."""
        super().grow(room)
        self._factor = with_room(self._factor, room)
        rest = np.zeros((room - len(self._cut), *self._cut.shape[1:]), dtype=np.int32)
        self._cut = np.concatenate((self._cut, rest))

    def begin_two_sided(
        self, code: int, size: int, candidates: IntArray, known: State, factor: Fraction
    ) -> None:
        """`begin` of a window whose candidates lead to scales that are larger by this factor."""
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
        """Values of keys with a window (none twice), key by key: so many of each."""
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
        """So many eighths of the scale that each candidate leads to."""
        found = self._known_parts.get((grid, factor, eighths))
        if found is None:
            times = self._factors[factor]
            steps = self._grids[grid].tolist()
            scales = [outcome_of(step, times, self._scale) for step in steps]
            found = np.array([scale_part(scale, eighths) for scale in scales], dtype=np.int64)
            self._known_parts[grid, factor, eighths] = found
        return found

    def outside(self, code: int) -> IntArray:
        """What each shape of each scale would cut, scale by scale."""
        size = len(self._grids[int(self._grid[code])])
        cut = self._cut[code, :, :size].astype(np.int64)
        found: IntArray = cut[:, ::-1].cumsum(axis=1)[:, ::-1].T.reshape(-1)
        return found

    def wipe(self, codes: int | IntArray) -> None:
        """Forget the counts of keys: they are not kept longer than needed."""
        super().wipe(codes)
        self._cut[codes] = 0

    def state(self, start: int, end: int) -> dict[str, NDArray[np.generic]]:
        """All that is needed to continue the windows of these keys."""
        opened = np.flatnonzero(self.size[start:end]) + start
        factors = [self._factors[at] for at in self._factor[opened].tolist()]
        pairs = [(one.numerator, one.denominator) for one in factors]
        return {
            **super().state(start, end),
            "cut": self._cut[opened].reshape(-1),
            "factors": np.array(pairs, dtype=np.int64).reshape(-1),
        }

    def restore(self, codes: IntArray, state: State) -> None:
        """Continue the windows of a `state`."""
        super().restore(codes, state)
        opened = codes[self.size[codes] > 0]
        self._cut[opened] = state["cut"].reshape(opened.size, *self._cut.shape[1:])
        pairs = state["factors"].reshape(-1, 2).tolist()
        for code, (above, under) in zip(opened.tolist(), pairs, strict=True):
            self._begin_factor(code, Fraction(above, under))
