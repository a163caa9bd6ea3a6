"""Rows of many keys, cut into the pieces of blocks that they fill."""

from __future__ import annotations

import numpy as np

from tidegate.keyed.groups import Groups
from tidegate.lattice import IntArray


class Segments:
    """Pieces in the order of `groups.order`: of one key and one block each.

    Attributes:
        keys, counts: the codes that there are, and how many rows each has.
        positions: of each row within its key.
        starts, sizes: of each piece, in rows.
        codes, leaves: of each piece: its key, and its block, counted over all horizons.
        closes: whether a piece fills its block.
        first, last: of each key, the first and the last piece.
    """

    def __init__(self, groups: Groups, position: IntArray, block: int) -> None:
        self.keys = groups.present
        self.counts = np.diff(groups.starts, append=groups.codes.size)
        shift = position[self.keys] - groups.starts
        self.positions: IntArray = np.arange(groups.codes.size) + np.repeat(shift, self.counts)
        blocks = self.positions // block
        begins = np.ones(blocks.size, dtype=np.bool_)
        begins[1:] = blocks[1:] != blocks[:-1]
        begins[groups.starts] = True
        self.starts: IntArray = np.flatnonzero(begins)
        self.sizes = np.diff(self.starts, append=blocks.size)
        self.codes = groups.codes[groups.order[self.starts]]
        self.leaves = blocks[self.starts]
        ends = self.positions[self.starts + self.sizes - 1]
        self.closes = (ends + 1) % block == 0
        self.first: IntArray = np.searchsorted(self.starts, groups.starts)
        self.last: IntArray = np.append(self.first[1:], self.starts.size) - 1
