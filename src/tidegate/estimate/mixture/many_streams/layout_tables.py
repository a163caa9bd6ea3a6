"""The cells of all layouts that are in use, as tables: many streams look up theirs at once."""

from __future__ import annotations

import math
from functools import lru_cache
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.kalman_filter.block_cells import BlockCells, cells_of
from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import Layout, Perturber

NO_LEAF = -1  # no leaf ends with this cell


class LayoutTables:
    """One row for each layout, one column for each cell.

    Attributes:
        widths: values in a cell; 0 beyond the last one.
        leaf: which leaf ends with a cell, or `NO_LEAF`.
        share, contrast: of that leaf: how much of the inner noise it gets, and what comes on top.
        cells_alike: of a cell with which a leaf ends: the same number for leaves whose cells have
            the same widths (`leaf_widths`); else the width of the cell, negative.
        opens: whether noise of the tree begins with a cell.
        length, cap, count: values of a block, where they are truncated, its cells.
        doubt: standard error of the mean of a block.
    """

    def __init__(self, threshold: int) -> None:
        self._threshold, self._lock = threshold, Lock()
        self._rows: dict[Layout, int] = {}
        self.cells: list[BlockCells] = []
        self.widths: IntArray = np.zeros((0, 0), dtype=np.int64)
        self.leaf: IntArray = np.zeros((0, 0), dtype=np.int64)
        self.cells_alike: IntArray = np.zeros((0, 0), dtype=np.int64)
        self.leaf_widths: list[tuple[int, ...]] = []
        self.share: FloatArray = np.zeros((0, 0))
        self.contrast: FloatArray = np.zeros((0, 0))
        self.opens: NDArray[np.bool_] = np.zeros((0, 0), dtype=np.bool_)
        self.length: IntArray = np.zeros(0, dtype=np.int64)
        self.cap: IntArray = np.zeros(0, dtype=np.int64)
        self.count: IntArray = np.zeros(0, dtype=np.int64)
        self.doubt: FloatArray = np.zeros(0)

    def row(self, layout: Layout) -> int:
        """The row of a layout; it gets one when it is first asked for."""
        found = self._rows.get(layout)
        if found is None:
            with self._lock:
                if layout not in self._rows:
                    self._build([*self.cells, cells_of(layout, self._threshold)])
                    self._rows[layout] = len(self.cells) - 1
                found = self._rows[layout]
        return found

    def _build(self, all_cells: list[BlockCells]) -> None:
        """All tables again, larger by a row: layouts are few, and new ones rare.

        Others may look up the rows that there are meanwhile: no table is seen half-filled.
        """
        shape = len(all_cells), max(one.count for one in all_cells)
        widths, leaf_of = np.zeros(shape, dtype=np.int64), np.full(shape, NO_LEAF)
        share, contrast = np.zeros(shape), np.zeros(shape)
        opens, cells_alike = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.int64)
        known = {one: at for at, one in enumerate(self.leaf_widths)}
        for row, cells in enumerate(all_cells):
            widths[row, : cells.count] = cells.widths
            cells_alike[row] = -widths[row]
            ends = np.arange(cells.tree.leaves) * cells.per_leaf + cells.per_leaf - 1
            leaf_of[row, ends] = np.arange(cells.tree.leaves)
            each = [tuple(cells.widths[end - cells.per_leaf + 1 : end + 1]) for end in ends]
            cells_alike[row, ends] = [known.setdefault(one, len(known)) for one in each]
            share[row, ends] = [leaf.share for leaf in cells.path]
            contrast[row, ends] = [leaf.variance for leaf in cells.path]
            begins = ends - cells.per_leaf + 1
            opens[row, begins] = [leaf.inner is not None for leaf in cells.path]
        self.leaf_widths = list(known)
        self.widths, self.leaf, self.share, self.contrast = widths, leaf_of, share, contrast
        self.opens, self.cells_alike = opens, cells_alike
        trees = [cells.tree for cells in all_cells]
        self.length = np.array([tree.length for tree in trees])
        self.cap = np.array([tree.cap for tree in trees])
        self.count = np.array([cells.count for cells in all_cells])
        self.doubt = np.array(
            [math.sqrt(tree.nodes[0] * tree.variances[0]) / tree.length for tree in trees]
        )
        self.cells = all_cells

    def place(self, row: int, values: IntArray) -> tuple[IntArray, IntArray]:
        """How many cells are complete after `values` values of a block, and the values since."""
        edges = np.array(self.cells[row].edges)
        cell: IntArray = np.searchsorted(edges, values, side="right") - 1
        return cell, values - edges[cell]


@lru_cache(maxsize=8)
def shared_tables(threshold: int, perturber: Perturber, ceiling: int) -> LayoutTables:
    """The tables of all runs with these settings: public, and the same for all of them.

    A shard of Spark is resumed for every batch: it would build them again each time.
    """
    del perturber, ceiling  # they say which layouts there will be
    return LayoutTables(threshold)
