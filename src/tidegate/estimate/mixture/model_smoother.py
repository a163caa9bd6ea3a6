"""`ModelSmoother`: fixed-interval smoother of one model, given all released sums.

A posterior mean and its covariance, by the modified Bryson-Frazier smoother, which inverts nothing
(`forward_backward_passes`). Post-processing of released sums: it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidegate.estimate.mixture.block_batches import Measured
from tidegate.estimate.mixture.cell_covariances import CellCovariances, Misfit, cell_covariances
from tidegate.estimate.mixture.forward_backward_passes import Solved, Task, pieces, solved
from tidegate.estimate.mixture.models import SCATTER
from tidegate.lattice import FloatArray, IntArray


class ModelSmoother:
    """Prefix sums at every cell's end given everything, in units of θ.

    `edges[k]` is a position, `sums[k]` the posterior mean of the sum before it, `levels[k]` the
    expected level there.

    Attributes:
        model, horizon: which model, and of which horizon.
        closed_loop: C_k, one less than cells.
        entries: what F of each cell consists of.
        rows: the row of P_k of the sum.
        updates: what was measured at the end of each cell.
    """

    def __init__(
        self, blocks: Sequence[Measured], horizon: int, model: int, scatter: float = SCATTER
    ) -> None:
        task = Task(blocks, horizon, model, scatter)
        ((found, covariances),) = _solved([task])
        self._keep(task, found, covariances)

    @classmethod
    def of_each(cls, tasks: Sequence[Task]) -> list[ModelSmoother]:
        """The smoothers of many streams or models at once, with the bits that each has alone."""
        smoothers = []
        for piece in pieces(tasks):
            for task, (found, covariances) in zip(piece, _solved(piece), strict=True):
                smoother = cls.__new__(cls)
                smoother._keep(task, found, covariances)
                smoothers.append(smoother)
        return smoothers

    def _keep(self, task: Task, found: Solved, covariances: CellCovariances) -> None:
        self.model, self.horizon, self.scatter = task.model, task.horizon, task.scatter
        self.edges, self.sums, self.levels = found.edges, found.sums, found.levels
        self.closed_loop, self.entries = found.closed_loop.transpose(2, 0, 1), found.entries
        self.rows, self.updates = found.rows, found.updates
        # Posterior variance of the sum before each edge, in θ².
        self._own = np.concatenate(([0.0], (found.rows * found.ends).sum(axis=1)))
        self._covariances = covariances
        self._misfit = Misfit(found.distances, found.leaves)

    def variances(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """Posterior variance of sums between edges `starts` and `ends` (indices), in θ²."""
        own = self._own
        shared = np.zeros(starts.size)  # the sum before the first edge is 0, and known
        inside = starts > 0
        shared[inside] = self._covariances.between(starts[inside] - 1, ends[inside] - 1)
        found: FloatArray = np.maximum(own[starts] + own[ends] - 2 * shared, 0.0)
        found *= self._misfit.between(starts, ends)
        return found


def _solved(tasks: Sequence[Task]) -> list[tuple[Solved, CellCovariances]]:
    found = solved(tasks)
    chains = [(one.closed_loop, one.rows, one.ends) for one in found]
    return list(zip(found, cell_covariances(chains), strict=True))
