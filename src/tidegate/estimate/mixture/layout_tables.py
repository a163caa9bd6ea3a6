"""The cells of all layouts that are in use, as tables: many streams look up theirs at once."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.cells import Cells, cells_of
from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import Layout

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
        self._threshold = threshold
        self._rows: dict[Layout, int] = {}
        self.cells: list[Cells] = []
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
            self._rows[layout] = found = len(self.cells)
            self.cells.append(cells_of(layout, self._threshold))
            self._build()
        return found

    def _build(self) -> None:
        """All tables again: layouts are few, and new ones rare."""
        most = max(one.count for one in self.cells)
        shape = len(self.cells), most
        self.widths, self.leaf = np.zeros(shape, dtype=np.int64), np.full(shape, NO_LEAF)
        self.share, self.contrast = np.zeros(shape), np.zeros(shape)
        self.opens = np.zeros(shape, dtype=np.bool_)
        self.cells_alike = np.zeros(shape, dtype=np.int64)
        known = {widths: at for at, widths in enumerate(self.leaf_widths)}
        for row, cells in enumerate(self.cells):
            self.widths[row, : cells.count] = cells.widths
            self.cells_alike[row] = -self.widths[row]
            ends = np.arange(cells.tree.leaves) * cells.per_leaf + cells.per_leaf - 1
            self.leaf[row, ends] = np.arange(cells.tree.leaves)
            each = [tuple(cells.widths[end - cells.per_leaf + 1 : end + 1]) for end in ends]
            self.cells_alike[row, ends] = [known.setdefault(one, len(known)) for one in each]
            self.share[row, ends] = [leaf.share for leaf in cells.path]
            self.contrast[row, ends] = [leaf.variance for leaf in cells.path]
            begins = ends - cells.per_leaf + 1
            self.opens[row, begins] = [leaf.inner is not None for leaf in cells.path]
        self.leaf_widths = list(known)
        trees = [cells.tree for cells in self.cells]
        self.length = np.array([tree.length for tree in trees])
        self.cap = np.array([tree.cap for tree in trees])
        self.count = np.array([cells.count for cells in self.cells])
        self.doubt = np.array(
            [math.sqrt(tree.nodes[0] * tree.variances[0]) / tree.length for tree in trees]
        )

    def place(self, row: int, values: IntArray) -> tuple[IntArray, IntArray]:
        """How many cells are complete after `values` values of a block, and the values since."""
        edges = np.array(self.cells[row].edges)
        cell: IntArray = np.searchsorted(edges, values, side="right") - 1
        return cell, values - edges[cell]
