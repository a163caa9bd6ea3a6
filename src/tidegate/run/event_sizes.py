"""The numbers of events in bands of sizes, piece by piece: counted, and released with noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tidegate.estimate.mixture.pooled_size_counts import (
    PooledCounts,
    counted_sizes,
    lost_by_counted_sizes,
    noise_of_counts,
)
from tidegate.lattice import IntArray
from tidegate.noise import discrete_laplace
from tidegate.randomness import Keystream
from tidegate.stages.size_bands import QUARTERS, SizeBands

# A piece is at least so many ticks, unless its block is shorter.
_SHORTEST = 16
_POOLED = 4  # numbers of about this part of a horizon decide together
# A block has a piece; two or four where it is thought to have this many events, in 1/ε.
_SEVERAL = ((2000, 4), (500, 2))

# θ seems too high where the bands from θ/4 to 4θ may be empty (within two standard errors of their
# noise), of so many times as many in all; seen for this part of a horizon, and the next time after
# this part.
_NEAR, _COUNTED, _MANY, _SEEN, _AGAIN = 2, 4, 10, 16, 3
_LOWEST = 16  # lattice units: a lower θ has no bands to speak of


class EventSizes:
    """Counts the events of the open piece, in bands around the θ of the phase.

    Privacy: ε′ for one event that is added or removed, sum and number together; ε′ is what the
    noise of its tick's sum is made for (all of ε, or what windows leave of it). An event is in one
    piece and at most one band. There it moves one number by 1, which costs w·ε′ at scale 1/(w·ε′),
    and gives at most (1 − w)·θ to its tick (`SizeBands.kept`): (1 − w)·ε′ of a tree whose scales
    spend ε′ on θ, since an event moves one node a level, and each by what it gives. An event that
    is not counted gives at most θ. So the cost is ε′ at most, in exact arithmetic, whatever the
    band. Bands follow from θ and the bound. Pieces end where blocks do and at fixed positions
    within, or where the operator says that the log is over: an event decides about none of that.

    Attributes:
        start: where the open piece begins.
        pool: the released numbers of this phase, those of about the last horizon.
        asked: the θ that surely counted events ask for; 0: the present one is high enough.
        tried: the θ for which a window was opened last as it seemed too high.
        events, ticks: the released number of events, and of how many ticks.
    """

    def __init__(
        self, bands: SizeBands, epsilon: Fraction, start: int, before: EventSizes | None = None
    ) -> None:
        self.bands, self._epsilon, self.start = bands, epsilon, start
        self.tried: int = 0 if before is None else before.tried
        self.events: int = 0 if before is None else before.events
        self.ticks: int = 0 if before is None else before.ticks
        self.asked = 0
        self._counts: IntArray = np.zeros(bands.number, dtype=np.int64)  # as secret as the values
        self.pool, self._pooled_from = PooledCounts(bands, epsilon), start

    def __repr__(self) -> str:
        return "<EventSizes>"

    def left(self, position: int, begun: int, length: int) -> int:
        """How many ticks the open piece has from here on, in a block that began at `begun`.

        >>> sizes = EventSizes(SizeBands(8, 64, signed=False), Fraction(1), start=0)
        >>> sizes.left(0, 0, 100), sizes.left(10, 0, 100)
        (100, 90)
        """
        start = max(self.start, begun)
        rest = begun + length - start
        known = self._epsilon * self.events * length
        parts = next((parts for least, parts in _SEVERAL if known >= least * self.ticks), 1)
        piece = max(_SHORTEST, -(-length // parts)) if self.ticks else length
        count = max(1, rest // piece)
        return start - -rest // count - position

    def add(self, units: IntArray) -> None:
        """Count the events of some ticks."""
        self._counts = self._counts + self.bands.counted(units)

    def release(self, end: int, share: Fraction, keystream: Keystream, horizon: int) -> IntArray:
        """End the open piece: start, end, part of ε in quarters, and the noisy numbers.

        `share` of ε is what its events had for their sums. The keystream is for this piece alone.
        """
        part = int(share * QUARTERS)
        scales = noise_of_counts(self.bands, self._epsilon, part)
        noise = np.zeros(len(scales), dtype=np.int64)
        for level, scale in enumerate(sorted(set(scales))):
            same = np.array([scale == each for each in scales])
            words = keystream.at(level=level)
            noise[same] = discrete_laplace(words, int(same.sum()), scale)
        row: IntArray = np.concatenate(([self.start, end, part], self._counts + noise))
        if end - self._pooled_from > max(1, horizon // _POOLED):
            self.pool, self._pooled_from = PooledCounts(self.bands, self._epsilon), self.start
        self.pool.add(counted_sizes(row))
        self.events, self.ticks = self.events + int(row[3:].sum()), self.ticks + end - self.start
        if self.ticks > max(1, horizon // _POOLED):
            self.events, self.ticks = self.events // 2, self.ticks // 2
        self._counts.fill(0)
        self._counts, self.start = np.zeros_like(self._counts), end
        newest = PooledCounts(self.bands, self._epsilon)
        newest.add(counted_sizes(row))
        self.asked = max(self.asked, newest.threshold_above(), self.pool.threshold_above())
        return row

    def lost(self, row: IntArray) -> float:
        """What the events of the newest piece have surely lost, in lattice units."""
        newest, total = PooledCounts(self.bands, self._epsilon), 0.0
        newest.add(counted_sizes(row))
        for side in range(1 + self.bands.signed):
            numbers = newest.sure(side)
            found, _ = lost_by_counted_sizes(self.bands, numbers, [0.0] * len(numbers))
            total += -found if side else found
        return total

    def seems_low(self, position: int, horizon: int) -> bool:
        """Whether hardly any event is large enough for the present θ, by what was released.

        Events between 5θ/6 and θ are not counted, so this is only a reason to let events pay for
        another choice: at most every third of a horizon.
        """
        seen, pool = position - self._pooled_from, self.pool
        if self.bands.theta < _LOWEST or position - self.tried < horizon // _AGAIN:
            return False
        if seen < min(horizon // _SEEN, position // 2):
            return False
        near = [at for at in range(self.bands.number) if at >= _NEAR]
        squares = pool.noise()[0]
        error = math.sqrt(2.0 * sum(squares[at] for at in near[:_COUNTED]))
        large = sum(pool.counts[at] for at in near[:_COUNTED])
        return large <= 2.0 * error and sum(pool.counts) > _MANY * error

    def state(self) -> dict[str, Any]:
        """The state: what is needed to continue. The counts of the open piece are secret."""
        return {
            "start": self.start,
            "asked": self.asked,
            "tried": self.tried,
            "events": self.events,
            "ticks": self.ticks,
            "pooled_from": self._pooled_from,
            "counts": self._counts.copy(),
            "pooled": np.array(self.pool.counts, dtype=np.int64),
            "pieces": np.array(self.pool.pieces, dtype=np.int64),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        if state["counts"].shape != self._counts.shape:
            raise ValueError("there is a number for each band")
        for name in ("start", "asked", "tried", "events", "ticks"):
            setattr(self, name, state[name])
        self._pooled_from = state["pooled_from"]
        self._counts = state["counts"].astype(np.int64)
        self.pool.counts, self.pool.pieces = state["pooled"].tolist(), state["pieces"].tolist()
