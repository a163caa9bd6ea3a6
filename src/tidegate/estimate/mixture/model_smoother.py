"""`ModelSmoother`: fixed-interval smoother of one model, given all released sums.

A posterior mean and its covariance, by the modified Bryson-Frazier smoother, which inverts nothing
(`forward_backward_passes`). Post-processing of released sums: it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidegate.estimate.mixture.block_batches import Measured
from tidegate.estimate.mixture.closed_loop_transitions import CellUpdates, closed_loop
from tidegate.estimate.mixture.forward_backward_passes import Solved, Task, pieces, solved
from tidegate.estimate.mixture.models import SCATTER
from tidegate.lattice import FloatArray, IntArray

_NONE: FloatArray = np.zeros(0)


class ModelSmoother:
    """Prefix sums at every cell's end given everything, in units of θ.

    `edges[k]` is a position, `sums[k]` the posterior mean of the sum before it, `levels[k]` the
    expected level there.

    Attributes:
        model, horizon, scatter: which model, and of which horizon.
    """

    def __init__(
        self, blocks: Sequence[Measured], horizon: int, model: int, scatter: float = SCATTER
    ) -> None:
        task = Task(blocks, horizon, model, scatter)
        self._keep(task, solved([task]), 0)

    @classmethod
    def of_each(cls, tasks: Sequence[Task]) -> list[ModelSmoother]:
        """The smoothers of many streams or models at once, with the bits that each has alone."""
        smoothers = []
        for piece in pieces(tasks):
            together = solved(piece)
            for number, task in enumerate(piece):
                smoother = cls.__new__(cls)
                smoother._keep(task, together, number)
                smoothers.append(smoother)
        return smoothers

    def _keep(self, task: Task, together: Solved, number: int) -> None:
        self.model, self.horizon, self.scatter = task.model, task.horizon, task.scatter
        firsts = together.firsts
        first = int(firsts[number])
        last = number + 1 == firsts.size
        end = together.edges.size if last else int(firsts[number + 1])
        self.edges, self.sums = together.edges[first:end], together.sums[first:end]
        self.levels = together.levels[first:end]
        self._together, self._number, self._first = together, number, first
        self._cells = slice(first - number, end - number - 1)

    @property
    def rows(self) -> FloatArray:
        """The row of P of the sum, at each cell."""
        return self._together.cells.rows[:, self._cells].T

    @property
    def entries(self) -> FloatArray:
        """What F of each cell consists of, a column each."""
        return self._together.cells.entries[:, self._cells]

    @property
    def updates(self) -> CellUpdates:
        """What was measured at the end of each cell."""
        return self._together.cells.updates.of(self._cells)

    @property
    def closed_loop(self) -> FloatArray:
        """C of each cell but the last."""
        return closed_loop(self.updates, self.entries).transpose(2, 0, 1)

    def variances(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """Posterior variance of sums between edges `starts` and `ends` (indices), in θ²."""
        return self.variances_of_each([(self, starts, ends)])[0]

    @staticmethod
    def variances_of_each(asked: Sequence[Asked]) -> list[FloatArray]:
        """`variances` of many at once; those that were smoothed together take one call.

        One by one, most time would go into calls on small arrays.
        """
        together: dict[int, list[int]] = {}
        for at, (smoother, _, _) in enumerate(asked):
            together.setdefault(id(smoother._together), []).append(at)
        found: list[FloatArray] = [_NONE] * len(asked)
        for same in together.values():
            smoothers = [asked[at][0] for at in same]
            sizes = [asked[at][1].size for at in same]
            tasks = np.repeat([one._number for one in smoothers], sizes)
            firsts = np.repeat([one._first for one in smoothers], sizes)
            starts = np.concatenate([asked[at][1] for at in same]) + firsts
            ends = np.concatenate([asked[at][2] for at in same]) + firsts
            every = _variances(smoothers[0]._together, tasks, starts, ends)
            for at, part in zip(same, np.split(every, np.cumsum(sizes)[:-1]), strict=True):
                found[at] = part
        return found

    def misfit(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """The factor in these variances by which innovations were larger than expected."""
        of, tasks = self._together, np.full(starts.size, self._number)
        ended = (of.ended[edges + self._first] for edges in (starts, ends))
        return of.misfits.between(tasks, *ended)


Asked = tuple[ModelSmoother, IntArray, IntArray]  # and edges: where ranges start and end


def _variances(of: Solved, tasks: IntArray, starts: IntArray, ends: IntArray) -> FloatArray:
    """Posterior variance of sums between edges, of these tasks, counted over all tasks."""
    own, before = of.own, tasks + 1
    # The sum before the first edge of a task is 0, and known.
    (inside,) = (starts > of.firsts[tasks]).nonzero()
    shared = np.zeros(starts.size)
    pairs = (edges[inside] - before[inside] for edges in (starts, ends))
    shared[inside] = of.covariances.between(*pairs)
    found: FloatArray = np.maximum(own[starts] + own[ends] - 2 * shared, 0.0)
    found[starts == ends] = 0.0
    found *= of.misfits.between(tasks, of.ended[starts], of.ended[ends])
    return found
