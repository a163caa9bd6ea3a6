"""Rows by key: which rows each key has, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from tidegate.lattice import IntArray

_SMALL = 1 << 15


class Groups:
    """Rows of codes ≥ 0, grouped when someone asks for it.

    Attributes:
        codes: of all rows.
    """

    def __init__(self, codes: IntArray) -> None:
        self.codes = codes

    @cached_property
    def once(self) -> bool:
        """Whether no key has two rows."""
        codes = self.codes
        if codes.size < 2 or bool((codes[1:] > codes[:-1]).all()):
            return True
        mark = np.zeros(int(codes.max()) + 1, dtype=np.int32)
        places = np.arange(codes.size, dtype=np.int32)
        mark[codes] = places
        return bool((mark[codes] == places).all())

    @cached_property
    def order(self) -> IntArray:
        """The rows, key by key; rows of a key in their order."""
        # Numbers of 16 bits are sorted by digits: several times as fast.
        small = not self.codes.size or self.codes.max() < _SMALL
        keys = self.codes.astype(np.int16) if small else self.codes
        return np.argsort(keys, kind="stable")

    @cached_property
    def starts(self) -> IntArray:
        """Where each key begins in `order`."""
        return np.flatnonzero(np.diff(self.codes[self.order], prepend=-1))

    @property
    def present(self) -> IntArray:
        """The codes that there are, ascending."""
        return self.codes[self.order[self.starts]]

    def parts(self) -> Iterator[tuple[int, IntArray]]:
        """Each code with its rows."""
        starts = [*self.starts.tolist(), self.codes.size]
        for at, code in enumerate(self.present.tolist()):
            yield code, self.order[starts[at] : starts[at + 1]]
