"""The released block sums of one epoch, kept for a while: what range sums are computed from."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import QueryError
from tidegate.inside import Shape, shapes
from tidegate.lattice import FloatArray, IntArray
from tidegate.rings import Rings
from tidegate.stages import NoiseLaw

_MOST_PENDING = 1024  # blocks that wait for someone to ask
_CACHED = 1 << 14  # ranges at a time, whose intermediate results stay in the cache


@dataclass(frozen=True)
class Parts:
    """What a segment contributes to range sums, in the unit of the data.

    `largest_variance` is that of the noisiest single draw; `allowance` is the part of the estimate
    that stands for what truncation took away.
    """

    estimate: FloatArray
    noise_variance: FloatArray
    prediction_variance: FloatArray
    largest_variance: float
    allowance: FloatArray | float = 0.0


class _Ends(NamedTuple):
    """The part of a block before a position, in lattice units."""

    share: FloatArray  # of the block's noise
    noise: FloatArray  # variance of the noise of the whole block, where there is a share
    partial: FloatArray
    variance: FloatArray  # beyond that noise
    shape: Shape | None


class Segment:
    """The block sums of the last `history` values of one epoch, and the predictions inside blocks.

    Position p counts released values from 0; block t covers [origin + t·block, origin +
    (t+1)·block).
    """

    STATE: ClassVar[tuple[str, ...]] = ("closed", "filled", "table")
    RESIDUALS: ClassVar[int] = 16  # how many of the last blocks say how well blocks are predicted

    def __init__(
        self, *, law: NoiseLaw, block: int, threshold: int, step: float, history: int, origin: int,
        epoch: str, first: float,
    ) -> None:  # fmt: skip
        self._law = law
        self._block = block
        self.threshold = threshold  # in lattice units
        self._step = step
        self.origin = origin
        self.epoch = epoch
        self.filled = 0  # values released of the open block
        self._rings = Rings(block=block, most=max(2, -(-history // block) + 2), first=first)
        self._pending: list[tuple[int, float]] = []

    @property
    def closed(self) -> int:
        """Blocks completed since the origin."""
        self._flush()
        return self._rings.closed

    @closed.setter
    def closed(self, blocks: int) -> None:
        self._rings.closed = blocks

    @property
    def end(self) -> int:
        """The position after the last released value."""
        return self.origin + (self._rings.closed + len(self._pending)) * self._block + self.filled

    @property
    def start(self) -> int:
        """The first position that can still be asked about."""
        self._flush()
        return self.origin + self._rings.oldest * self._block

    @property
    def threshold_value(self) -> float:
        """The threshold in the unit of the data."""
        return self.threshold * self._step

    @property
    def caps(self) -> list[float]:
        """At which levels values were truncated."""
        return [self.threshold_value]

    # -- keeping ---------------------------------------------------------------------------------

    def extend(self, sums: IntArray, following: FloatArray, filled: int) -> None:
        """Completed blocks, the prediction for the block after each, and the open block's fill."""
        self._flush()
        self._rings.append(sums, following)
        self.filled = filled

    def append_one(self, noisy: int, following: float) -> None:
        """One completed block: kept aside until someone asks, which saves the cost of arrays."""
        self._pending.append((noisy, following))
        self.filled = 0
        if len(self._pending) >= _MOST_PENDING:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            sums, following = zip(*self._pending, strict=True)
            self._pending.clear()
            self._rings.append(np.array(sums, dtype=np.int64), np.array(following))

    @property
    def table(self) -> list[NDArray[Any]]:
        """The kept blocks, oldest first: running sums, predictions, running squares."""
        return self.last_blocks(self.closed + 1 - self._rings.oldest)

    @table.setter
    def table(self, columns: list[NDArray[Any]]) -> None:
        self._rings.restore(columns)

    def last_blocks(self, count: int) -> list[NDArray[Any]]:
        """The same for the last `count` blocks only: what is needed to go on."""
        self._flush()
        return self._rings.last(count)

    def joined(self, later: Segment) -> Segment:
        """This segment and a later state of it, as one that answers for both."""
        oldest, cut = self._rings.oldest, later._rings.oldest
        if self.epoch != later.epoch or not oldest <= cut <= self.closed + 1:
            raise QueryError("these are not two records of one release, without a gap between them")
        both = Segment(
            law=self._law,
            block=self._block,
            threshold=self.threshold,
            step=self._step,
            history=(later.closed - oldest) * self._block,
            origin=self.origin,
            epoch=self.epoch,
            first=0.0,
        )
        both.closed, both.filled = later.closed, later.filled
        both.table = [
            np.concatenate((early[: cut - oldest], late))
            for early, late in zip(self.table, later.table, strict=True)
        ]
        return both

    # -- answering -------------------------------------------------------------------------------

    @property
    def level(self) -> float:
        """What one more value is expected to be, in lattice units: the mean of the last blocks."""
        self._flush()
        closed = self._rings.closed
        since = max(closed - self.RESIDUALS, self._rings.oldest)
        if since == closed:
            return self.threshold / 2
        before, now = self._rings.sums(np.array([since, closed])).tolist()
        return float(now - before) / ((closed - since) * self._block)

    def parts(self, starts: IntArray, ends: IntArray, as_of: int | None = None) -> Parts:
        """The sums over [start, end), which must lie within [self.start, self.end].

        `as_of`: from what was released up to that position, which is not before any end.
        """
        self._flush()
        now = self.end if as_of is None else min(as_of, self.end)
        closed = (now - self.origin) // self._block
        first, first_offset = np.divmod(starts - self.origin, self._block)
        last, last_offset = np.divmod(ends - self.origin, self._block)
        whole: FloatArray = (self._rings.sums(last) - self._rings.sums(first)).astype(np.float64)
        if self._block == 1:
            noise = self._law.range_variance(first, last)
            return self._parts(whole, noise, np.zeros(starts.size))
        before = self._ends(first, first_offset, closed)
        after = self._ends(last, last_offset, closed)
        inside = self._inside(last, last_offset - first_offset, after, closed)
        apart = before.variance + after.variance
        noise = self._noise(first, last, before, after, closed)
        estimate = whole + after.partial - before.partial
        return self._parts(estimate, noise, np.where(first == last, inside, apart))

    def _parts(self, estimate: FloatArray, noise: FloatArray, prediction: FloatArray) -> Parts:
        squared = self._step**2
        return Parts(
            estimate * self._step,
            noise * squared,
            prediction * squared,
            self._law.largest_variance * squared,
        )

    def _noise(
        self, first: IntArray, last: IntArray, before: _Ends, after: _Ends, closed: int
    ) -> FloatArray:
        """As `contrast_variance` over these four places; the two single blocks are known."""
        starts = [(first, before.share - 1), (np.minimum(first + 1, closed), -before.share)]
        ends = [(last, 1 - after.share), (np.minimum(last + 1, closed), after.share)]
        total: FloatArray = before.share * (before.share - 1) * before.noise
        total -= after.share * (1 - after.share) * after.noise
        for at in range(0, first.size, _CACHED):
            piece = slice(at, at + _CACHED)
            for (one, left), (two, right) in product(starts, ends):
                low, high = np.minimum(one[piece], two[piece]), np.maximum(one[piece], two[piece])
                weight = left[piece] * right[piece]
                total[piece] -= weight * self._law.range_variance(low, high)
        return np.maximum(total, 0.0)

    def _ends(self, blocks: IntArray, offsets: IntArray, closed: int) -> _Ends:
        """What lies between the beginning of each block and a position in it."""
        done, share = (blocks < closed) & (offsets > 0), offsets / self._block
        partial = offsets * self._rings.predictions(blocks)
        if not done.any():
            variance = self._prediction_variance(blocks, offsets, closed)
            nothing = np.zeros(blocks.size)
            return _Ends(nothing, nothing, partial, variance, None)
        shape = shapes(
            np.where(done, blocks, self._rings.oldest),
            self._rings.sums,
            self._law,
            oldest=self._rings.oldest,
            closed=closed,
            unknown=(self._block * self.threshold / 2) ** 2,
        )
        bend = share * (1 - share)
        return _Ends(
            np.where(done, share, 0.0),
            shape.noise,
            np.where(done, share * shape.sums - shape.slopes * bend / 2, partial),
            np.where(
                done,
                shape.variance(offsets, self._block, self.threshold),
                self._prediction_variance(blocks, np.where(done, 0, offsets), closed),
            ),
            shape,
        )

    def _inside(self, blocks: IntArray, counts: IntArray, end: _Ends, closed: int) -> FloatArray:
        """Variance of what a range inside one block is put at, beyond the block's noise."""
        counts = np.maximum(counts, 0)  # of ranges over several blocks, which are not meant
        predicted = self._prediction_variance(blocks, counts, closed)
        if end.shape is None:
            return predicted
        known = end.shape.variance(counts, self._block, self.threshold)
        return np.where(blocks < closed, known, predicted)

    def _prediction_variance(self, blocks: IntArray, offsets: IntArray, closed: int) -> FloatArray:
        """Variance of (k·prediction − sum of the first k values of the open block), in units²."""
        to = np.minimum(blocks + 1, closed)
        since = np.maximum(to - self.RESIDUALS, self._rings.oldest)
        misses = self._rings.squares(to) - self._rings.squares(since)
        unknown = (self._block * self.threshold / 2) ** 2  # block 0 is predicted from nothing
        miss = np.where(blocks == 0, unknown, np.maximum(misses, 0.0) / np.maximum(to - since, 1))
        level = np.clip(self._rings.predictions(blocks), 0, self.threshold)
        share = offsets / self._block
        spread = np.maximum(level * (self.threshold - level), self.threshold**2 / 16)
        return np.where(offsets == 0, 0.0, share**2 * miss + offsets * (1 - share) * spread)
