"""The steps of a filter through blocks of one kind, cell by cell, for many blocks side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture.cells import Cells
from tidegate.estimate.mixture.leaf_noise import Leaves, leaves_side_by_side
from tidegate.estimate.mixture.models import Models
from tidegate.lattice import IntArray


class Profile(NamedTuple):
    """What decides about the filter's covariances."""

    one: Models
    cells: Cells
    noise_factor: float
    length: int  # values that have come


class Step(NamedTuple):
    """One cell: the leaf that opens with it, its values, the leaf that is measured at its end.

    One entry per block everywhere; None: no leaf opens, none is measured.
    """

    opened: Leaves | None
    widths: IntArray
    measured: Leaves | None

    def of(self, columns: IntArray) -> Step:
        """That of these blocks, in this order."""
        opened, widths, measured = self
        return Step(
            opened and opened.of(columns), widths[columns], measured and measured.of(columns)
        )


def steps_of(profiles: Sequence[Profile], measured_leaves: int) -> list[Step]:
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
        steps.append(Step(opened, widths, measured))
    return steps
