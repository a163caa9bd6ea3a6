"""The cells of all layouts in use, as tables: many streams look up theirs at once."""

from __future__ import annotations

import math
from functools import lru_cache
from threading import Lock
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.kalman_filter.block_cells import BlockCells, cells_of
from tidegate.estimate.mixture.kalman_filter.leaf_noise import NoisyLeaf, NoisyLeaves
from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import Layout, Perturber

NO_LEAF = -1  # no leaf ends with this cell
# What begins with a cell: nothing, an inner node of its own, one that gets a part of the open outer
# node, or an outer node and its first inner one (`leaf_noise.NoisyLeaf`).
NOTHING, OWN_INNER, HANDED_INNER, OUTER_AND_INNER = range(4)


class LayoutTables:
    """Tables of layouts: a row for each layout and θ, a column for each cell.

    A row is filled before anybody learns its number, and tables that grow are replaced: others may
    look up the rows that there are meanwhile.

    Attributes:
        widths: values in a cell; 0 beyond the last one.
        leaf: which leaf ends with a cell, or `NO_LEAF`.
        share, contrast: of that leaf: how much of the inner noise it gets, and what comes on top.
        cells_alike: of a cell with which a leaf ends: the same number for leaves whose cells have
            the same widths (`leaf_widths`); else the width of the cell, negative.
        opens: which nodes of the tree begin with a cell.
        outer, inner, inner_share: of these, as in `NoisyLeaf`; 0 where there is none.
        length, cap, count, leaves: values of a block, where they are truncated, its cells, leaves.
        calm: whether it is a coarse tree (`BlockCells.calm`).
        doubt: standard error of the mean of a block.
        deviation: of the noise of a leaf, before leaves are made consistent.
    """

    _BY_CELL: ClassVar[dict[str, Any]] = {
        "widths": np.int64, "leaf": np.int64, "cells_alike": np.int64, "opens": np.int8,
        "share": np.float64, "contrast": np.float64,
        "outer": np.float64, "inner": np.float64, "inner_share": np.float64,
    }  # fmt: skip
    _BY_ROW: ClassVar[dict[str, Any]] = {
        "length": np.int64, "cap": np.int64, "count": np.int64, "leaves": np.int64,
        "calm": np.bool_, "doubt": np.float64, "deviation": np.float64,
    }  # fmt: skip

    widths: IntArray
    leaf: IntArray
    cells_alike: IntArray
    opens: NDArray[np.int8]
    share: FloatArray
    contrast: FloatArray
    outer: FloatArray
    inner: FloatArray
    inner_share: FloatArray
    length: IntArray
    cap: IntArray
    count: IntArray
    leaves: IntArray
    calm: NDArray[np.bool_]
    doubt: FloatArray
    deviation: FloatArray

    def __init__(self) -> None:
        self._lock = Lock()
        self._rows: dict[tuple[Layout, int], int] = {}
        self._known_widths: dict[tuple[int, ...], int] = {}
        self.cells: list[BlockCells] = []
        self.leaf_widths: list[tuple[int, ...]] = []
        for name, kind in self._BY_CELL.items():
            setattr(self, name, np.zeros((0, 0), dtype=kind))
        for name, kind in self._BY_ROW.items():
            setattr(self, name, np.zeros(0, dtype=kind))

    def __len__(self) -> int:
        return len(self.cells)

    def row(self, layout: Layout, threshold: int) -> int:
        """The row of a layout; added when it is first needed."""
        found = self._rows.get((layout, threshold))
        if found is None:
            with self._lock:
                if (layout, threshold) not in self._rows:
                    self._add(cells_of(layout, threshold))
                    self._rows[layout, threshold] = len(self.cells) - 1
                found = self._rows[layout, threshold]
        return found

    def _add(self, cells: BlockCells) -> None:
        row, count, tree = len(self.cells), cells.count, cells.tree
        self._grow(row + 1, count)
        ends = np.arange(tree.leaves) * cells.per_leaf + cells.per_leaf - 1
        begins = ends - cells.per_leaf + 1
        self.widths[row, :count] = cells.widths
        self.leaf[row] = NO_LEAF
        self.leaf[row, ends] = np.arange(tree.leaves)
        self.cells_alike[row] = -self.widths[row]
        each = [tuple(cells.widths[end - cells.per_leaf + 1 : end + 1]) for end in ends]
        self.cells_alike[row, ends] = [self._number(one) for one in each]
        self.share[row, ends] = [leaf.share for leaf in cells.path]
        self.contrast[row, ends] = [leaf.variance for leaf in cells.path]
        self.opens[row, begins] = [_opened_layouts(leaf) for leaf in cells.path]
        self.outer[row, begins] = [leaf.outer or 0.0 for leaf in cells.path]
        self.inner[row, begins] = [leaf.inner or 0.0 for leaf in cells.path]
        self.inner_share[row, begins] = [leaf.inner_share for leaf in cells.path]
        self.length[row], self.cap[row] = tree.length, tree.cap
        self.count[row], self.leaves[row], self.calm[row] = count, tree.leaves, cells.calm
        self.doubt[row] = math.sqrt(tree.nodes[0] * tree.variances[0]) / tree.length
        self.deviation[row] = math.sqrt(tree.variances[-1])
        self.cells.append(cells)

    def _number(self, widths: tuple[int, ...]) -> int:
        found = self._known_widths.get(widths)
        if found is None:
            found = self._known_widths[widths] = len(self.leaf_widths)
            self.leaf_widths.append(widths)
        return found

    def _grow(self, rows: int, cells: int) -> None:
        had = self.widths.shape
        if rows <= had[0] and cells <= had[1]:
            return
        room = max(rows, had[0] + had[0] // 2) if rows > had[0] else had[0]
        for names, shape in ((self._BY_CELL, (room, max(cells, had[1]))), (self._BY_ROW, (room,))):
            for name, kind in names.items():
                old, larger = getattr(self, name), np.zeros(shape, dtype=kind)
                larger[tuple(map(slice, old.shape))] = old
                setattr(self, name, larger)
        self.leaf[:, had[1] :] = NO_LEAF

    def leaf_widths_of(self, rows: IntArray, leaves: IntArray) -> IntArray:
        """How many values these leaves have, one leaf of each row."""
        length, count = self.length[rows], self.leaves[rows]
        widths: IntArray = (leaves + 1) * length // count - leaves * length // count
        return widths

    def opened_nodes(self, kind: int, at: tuple[IntArray, IntArray]) -> NoisyLeaves:
        """The nodes of this kind that begin with cells, by row and place."""
        handed: float | FloatArray = 0.0 if kind == OWN_INNER else self.inner_share[at]
        outer = self.outer[at] if kind == OUTER_AND_INNER else None
        facts = self.share[at], self.contrast[at]  # of no use here
        return NoisyLeaves(outer, self.inner[at], handed, *facts)

    def place(self, row: int, values: IntArray) -> tuple[IntArray, IntArray]:
        """How many cells are complete after `values` values of a block, and the values since."""
        edges = np.array(self.cells[row].edges)
        cell: IntArray = np.searchsorted(edges, values, side="right") - 1
        return cell, values - edges[cell]

    def only(self, rows: IntArray) -> IntArray:
        """Keep these rows only; return their new numbers. For tables with one user."""
        kept = [self.cells[row] for row in rows.tolist()]
        self.__init__()  # type: ignore[misc]
        return np.array([self.row(cells.tree, cells.unit) for cells in kept], dtype=np.int64)


def _opened_layouts(leaf: NoisyLeaf) -> int:
    if leaf.inner is None:
        return NOTHING
    if leaf.outer is not None:
        return OUTER_AND_INNER
    return HANDED_INNER if leaf.inner_share else OWN_INNER


@lru_cache(maxsize=8)
def shared_layout_tables(threshold: int, perturber: Perturber, ceiling: int) -> LayoutTables:
    """The tables of all runs with these settings, which are public: shared by all of them.

    A shard of Spark is resumed for every batch: it would build them again each time.
    """
    del threshold, perturber, ceiling  # they say which layouts there will be
    return LayoutTables()
