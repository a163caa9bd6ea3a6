"""Rows by key: which rows each key has, in their order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidegate.lattice import IntArray

_SMALL = 1 << 15


class Groups:
    """Rows of codes ≥ 0, grouped.

    Attributes:
        codes: of all rows.
        order: the rows, key by key; rows of a key in their order.
        present: the codes that there are, ascending.
        starts: where each of them begins in `order`; and the end.
    """

    def __init__(self, codes: IntArray) -> None:
        self.codes = codes
        # Numbers of 16 bits are sorted by digits: several times as fast.
        small = not codes.size or codes.max() < _SMALL
        keys = codes.astype(np.int16) if small else codes
        self.order: IntArray = np.argsort(keys, kind="stable")
        ordered = codes[self.order]
        bounds = np.flatnonzero(np.diff(ordered, prepend=-1))
        self.present = ordered[bounds]
        self.starts = np.append(bounds, codes.size)

    def parts(self) -> Iterator[tuple[int, IntArray]]:
        """Each code with its rows."""
        starts = self.starts.tolist()
        for at, code in enumerate(self.present.tolist()):
            yield code, self.order[starts[at] : starts[at + 1]]
