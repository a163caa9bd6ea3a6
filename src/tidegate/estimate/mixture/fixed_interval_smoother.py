"""Fixed-interval smoother of one model: the posterior of the past, given all released sums.

A posterior mean and its covariance, by the modified Bryson-Frazier smoother, which inverts nothing
(`smoother_pass`). Post-processing of released sums: it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidegate.estimate.mixture.block_batches import Measured
from tidegate.estimate.mixture.closed_loop import CellUpdates, closed_loop
from tidegate.estimate.mixture.covariances import Misfit
from tidegate.estimate.mixture.models import SCATTER
from tidegate.estimate.mixture.smoother_pass import Solved, SolvedTogether, Task, pieces, solved
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
        together = solved([task])
        self._keep(task, together.each[0], together)

    @classmethod
    def of_each(cls, tasks: Sequence[Task]) -> list[ModelSmoother]:
        """The smoothers of many streams or models at once, with the bits that each has alone."""
        smoothers = []
        for piece in pieces(tasks):
            together = solved(piece)
            for task, found in zip(piece, together.each, strict=True):
                smoother = cls.__new__(cls)
                smoother._keep(task, found, together)
                smoothers.append(smoother)
        return smoothers

    def _keep(self, task: Task, found: Solved, together: SolvedTogether) -> None:
        self.model, self.horizon, self.scatter = task.model, task.horizon, task.scatter
        self.edges, self.sums, self.levels = found.edges, found.sums, found.levels
        # Posterior variance of the sum before each edge, in θ².
        self._own, self._cells, self._together = found.own, found.cells, together
        self._misfit = Misfit(found.distances, found.leaves)

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
        return variances_of_each([(self, starts, ends)])[0]

    def _variances(self, starts: IntArray, ends: IntArray, shared: FloatArray) -> FloatArray:
        """`shared`: the covariances of the sums before the edges."""
        own = self._own
        found: FloatArray = np.maximum(own[starts] + own[ends] - 2 * shared, 0.0)
        found[starts == ends] = 0.0
        found *= self._misfit.between(starts, ends)
        return found


Asked = tuple[ModelSmoother, IntArray, IntArray]  # and edges: where ranges start and end


def variances_of_each(asked: Sequence[Asked]) -> list[FloatArray]:
    """`ModelSmoother.variances` of many at once; those that were smoothed together take one call.

    One by one, most time would go into calls on small arrays.
    """
    together: dict[int, list[int]] = {}
    for at, (smoother, _, _) in enumerate(asked):
        together.setdefault(id(smoother._together), []).append(at)
    found: list[FloatArray] = [_NONE] * len(asked)
    for same in together.values():
        covariances = asked[same[0]][0]._together.covariances
        cells = [_pairs(*asked[at]) for at in same]
        first, last = (np.concatenate(part) for part in zip(*cells, strict=True))
        every = covariances.between(first, last)
        ends = np.cumsum([one.size for one, _ in cells])[:-1]
        for at, inside in zip(same, np.split(every, ends), strict=True):
            smoother, starts, stops = asked[at]
            shared = np.zeros(starts.size)  # the sum before the first edge is 0, and known
            shared[starts > 0] = inside
            found[at] = smoother._variances(starts, stops, shared)
    return found


def _pairs(smoother: ModelSmoother, starts: IntArray, ends: IntArray) -> tuple[IntArray, IntArray]:
    """The cells that end at these edges, among those of all that were smoothed together."""
    inside, before = starts > 0, smoother._cells.start - 1
    return starts[inside] + before, ends[inside] + before
