"""Answers about sums of events: the posterior in the unit of the models, and what was cut off."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidegate.estimate.mixture.posterior import MixturePosterior
from tidegate.estimate.mixture.truncated_tail import Levels, Tail
from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import Aim, Block, Excess, Recorded

# The expected excess over the caps in what is added to every published tick for it. (As in
# `truncated_tail`, where it is 8·F.)
_TIMES = 4.0
# And how many times as much it may be, at the end of a 95 % interval.
_UPPER = 15.5
# The mean square of an excess over the square of its mean, and the mean in θ.
_SQUARE, _EACH = 4.0, 0.5
# The level may change within a cell by this part of itself and more: what a part of a cell has of
# its sum is less certain by that.
_WITHIN = 0.25
_LEAST_LEVEL = 1e-6
# A choice of θ is made for so many times the ticks before it (`tidegate.run.refinement.STRETCH`).
STRETCH = 16


class EventPosterior(MixturePosterior):
    """`MixturePosterior` for ticks: their sums have no upper end, and scatter by their number."""

    def __init__(
        self,
        recorded: Recorded,
        until: int,
        truncated: float,
        step: int,
        scatter: float,
        spread: float,
        periods: tuple[int, ...] = (),
    ) -> None:
        self._cap = 1.0 / (1 << step)  # θ, in the unit of the models
        self._spread_of_events = spread
        self._scatter = scatter
        super().__init__(recorded, until, truncated, recorded.threshold << step, scatter, periods)

    def _truncated_tail(
        self,
        recorded: Recorded,
        begun: Sequence[Block],  # the cap never moves
        truncated: float,
        aim: Aim,  # nothing tells the size of events from their number
    ) -> Tail | None:
        if recorded.threshold >= recorded.ceiling:
            return _Untruncated()  # all that lies within the public bound counts as it is
        if not truncated:
            return None
        room = recorded.ceiling / recorded.threshold - 1.0
        # θ was chosen for a stretch of the stream: an early one leaves more of it above.
        horizon, first = recorded.perturber.horizon, recorded.blocks[0].layout.length
        stretch = min(horizon, STRETCH * max(recorded.origin, first))
        return EventTail(self._known, self._cap, truncated * horizon / stretch, room)

    def _spread(self, cell: IntArray, width: IntArray, share: FloatArray) -> FloatArray:
        """Variance, in units², of a part of a cell whose sum is known.

        Events that come by chance, twice as scattered as independent ones; and a level that moves
        within the cell.
        """
        levels = self._known.levels
        level = np.maximum(levels[np.minimum(cell + 1, levels.size - 1)], _LEAST_LEVEL)
        chance = 2.0 * np.maximum(self._spread_of_events * self._cap * level, self._scatter)
        within = share * (1 - share)
        found: FloatArray = chance * width * within
        found += np.square(_WITHIN * level * width * within) * (width > 1)
        return found


class _Untruncated:
    """Nothing was cut off."""

    def between(self, starts: IntArray, ends: IntArray, unit: float) -> Excess:
        """Nothing."""
        return Excess.nothing(starts.size)


class EventTail:
    """What truncation took from ticks: as much as the rule for θ leaves, in proportion to the sum.

    The rule leaves a number of events of a horizon above θ. More events mean more of them, not
    larger ones, so the excess goes with the level. At most level/θ events of a tick lie above θ.
    """

    def __init__(self, known: Levels, cap: float, truncated: float, room: float) -> None:
        edges = known.edges
        widths: FloatArray = np.diff(edges).astype(np.float64)
        sums = np.maximum(np.diff(known.sums), 0.0) + _LEAST_LEVEL * widths
        if not widths.size:
            edges, widths, sums = np.array([0, 1]), np.ones(1), np.full(1, _LEAST_LEVEL)
        expected = _TIMES * truncated * cap * sums * (widths.sum() / sums.sum())
        self._edges = edges
        self._sums = _before(expected)
        self._squares = _before(_SQUARE * _EACH * cap * expected)
        self._room = _before(np.maximum(room * sums, expected))

    def between(self, starts: IntArray, ends: IntArray, unit: float) -> Excess:
        """The excess of the ticks of [start, end); `unit`: that of the models, in the data's."""
        sums, squares, room = (
            np.interp(ends, self._edges, before) - np.interp(starts, self._edges, before)
            for before in (self._sums, self._squares, self._room)
        )
        nothing = np.zeros(starts.size)
        upper = np.minimum(_UPPER * sums, np.maximum(room, sums))
        parts = (sums, nothing, squares * unit, room, upper, nothing)
        return Excess(*(part * unit for part in parts))


def _before(each: FloatArray) -> FloatArray:
    return np.concatenate(([0.0], np.cumsum(each)))
