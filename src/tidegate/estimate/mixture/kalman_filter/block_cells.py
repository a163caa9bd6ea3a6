"""How a block is divided into cells, each with one forecast; and steps through many blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.kalman_filter.leaf_noise import (
    Leaf,
    Leaves,
    leaves_side_by_side,
    noise_path,
)
from tidegate.estimate.mixture.kalman_filter.state_space_models import CELLS, Models
from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import Layout, Perturber


@dataclass(frozen=True)
class BlockCells:
    """The cells of a block that is measured by `tree`; variances are in `unit`² (θ²)."""

    tree: Layout
    unit: int

    @cached_property
    def per_leaf(self) -> int:
        """Cells per leaf, so that a block of at least 16 values has at least 16 cells."""
        return max(1, min(CELLS, self.tree.length) // self.tree.leaves)

    @cached_property
    def count(self) -> int:
        """Cells of the block."""
        return self.per_leaf * self.tree.leaves

    @cached_property
    def path(self) -> tuple[Leaf, ...]:
        """The noise of the leaves, one after the other."""
        variances = [variance / self.unit**2 for variance in self.tree.variances]
        return noise_path(self.tree.nodes, variances)

    @cached_property
    def opens(self) -> list[Leaf | None]:
        """For every cell the leaf that begins with it, if one does."""
        rest: list[Leaf | None] = [None] * (self.per_leaf - 1)
        return [found for leaf in self.path for found in (leaf, *rest)]

    @cached_property
    def closes(self) -> list[Leaf | None]:
        """For every cell the leaf that ends with it, if one does."""
        rest: list[Leaf | None] = [None] * (self.per_leaf - 1)
        return [found for leaf in self.path for found in (*rest, leaf)]

    @cached_property
    def edges(self) -> list[int]:
        """Where the cells begin, counted from the beginning of the block; and its end."""
        found = []
        for leaf in range(self.tree.leaves):
            start, end = self.tree.edge(leaf), self.tree.edge(leaf + 1)
            found += [
                start + inside * (end - start) // self.per_leaf for inside in range(self.per_leaf)
            ]
        return [*found, self.tree.length]

    @cached_property
    def widths(self) -> list[int]:
        """Values in each cell."""
        return [end - start for start, end in pairwise(self.edges)]


@lru_cache(maxsize=64)
def cells_of(tree: Layout, unit: int) -> BlockCells:
    """The cells of a tree; cached, since most blocks repeat an earlier tree."""
    return BlockCells(tree, unit)


class CellProfile(NamedTuple):
    """What decides about the filter's covariances."""

    one: Models
    cells: BlockCells
    noise_factor: float
    length: int  # values that have come


class CellStep(NamedTuple):
    """One cell: the leaf that opens with it, its values, the leaf that is measured at its end.

    One entry per block everywhere; None: no leaf opens, none is measured.
    """

    opened: Leaves | None
    widths: IntArray
    measured: Leaves | None

    def of(self, columns: IntArray) -> CellStep:
        """That of these blocks, in this order."""
        opened, widths, measured = self
        return CellStep(
            opened and opened.of(columns), widths[columns], measured and measured.of(columns)
        )


def cell_steps_of(profiles: Sequence[CellProfile], measured_leaves: int) -> list[CellStep]:
    """The cells that have begun, of blocks of one kind that have this many measured leaves.

    The last one may be incomplete. One entry per profile everywhere.
    """
    cells, steps = profiles[0].cells, []
    lengths = np.array([one.length for one in profiles], dtype=np.int64)
    for cell in range(cells.count):
        widths = np.minimum(cells.edges[cell + 1], lengths) - cells.edges[cell]
        if widths.item(0) <= 0:
            break
        opened = measured = None
        if cells.opens[cell] is not None:
            leaves = [one.cells.opens[cell] for one in profiles]
            opened = leaves_side_by_side(
                [
                    leaf if one.noise_factor == 1.0 else leaf.reweighted(one.noise_factor)
                    for leaf, one in zip(leaves, profiles, strict=True)
                    if leaf is not None
                ]
            )
        if cell // cells.per_leaf < measured_leaves and cells.closes[cell] is not None:
            closed = [one.cells.closes[cell] for one in profiles]
            measured = leaves_side_by_side([leaf for leaf in closed if leaf is not None])
        steps.append(CellStep(opened, widths, measured))
    return steps


NO_LEAF = -1  # no leaf ends with this cell


class CellTables:
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
def shared_cell_tables(threshold: int, perturber: Perturber, ceiling: int) -> CellTables:
    """The tables of all runs with these settings: public, and the same for all of them.

    A shard of Spark is resumed for every batch: it would build them again each time.
    """
    del perturber, ceiling  # they say which layouts there will be
    return CellTables(threshold)
