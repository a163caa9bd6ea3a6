"""Range sums over what was released, with honest error bars. Sees released data only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidegate.answers import Answer, Answers
from tidegate.errors import QueryError, SettingError
from tidegate.lattice import FloatArray, IntArray
from tidegate.settings import exact
from tidegate.stages import NoiseLaw

# How many block residuals say how well blocks are predicted at present.
_RESIDUALS = 16
_FIRST_CAPACITY = 1024
_FARTHEST = (1 << 63) - 1


class Record:
    """The released block sums of the last `history` values, and the predictions inside blocks.

    Position p counts released values from 0; block t covers [origin + t·block, origin +
    (t+1)·block). The record keeps, for every block t it still knows, the running sum before t, the
    prediction inside t, and the running sum of squared residuals before t, in ring buffers that
    grow on demand.
    """

    STATE: ClassVar[tuple[str, ...]] = ("closed", "filled", "table")

    def __init__(
        self, *, law: NoiseLaw, block: int, threshold: int, step: float, history: int, origin: int,
        epoch: str, first: float,
    ) -> None:  # fmt: skip
        self._law = law
        self._block = block
        self._threshold = threshold
        self._step = step
        self._most = max(2, -(-history // block) + 2)
        self.origin = origin
        self.epoch = epoch
        self.guarantee = ""  # in words, when it was last looked at
        self._closed = 0  # blocks completed since the origin, without the pending ones
        self.filled = 0  # values released of the open block
        self._sums: NDArray[np.int64] = np.zeros(min(self._most, _FIRST_CAPACITY), dtype=np.int64)
        width = 0 if block == 1 else self._sums.size  # blocks of one need no predictions
        self._predictions = np.full(width, first)
        self._squares = np.zeros(width)
        self._oldest = 0  # the first block that is still known
        self._pending: list[tuple[int, float]] = []

    @property
    def closed(self) -> int:
        """Blocks completed since the origin."""
        self._flush()
        return self._closed

    @closed.setter
    def closed(self, blocks: int) -> None:
        self._closed = blocks

    @property
    def end(self) -> int:
        """The position after the last released value."""
        return self.origin + (self._closed + len(self._pending)) * self._block + self.filled

    @property
    def start(self) -> int:
        """The first position that can still be asked about."""
        self._flush()
        return self.origin + self._oldest * self._block

    # -- keeping ---------------------------------------------------------------------------------

    def extend(self, sums: IntArray, following: FloatArray, filled: int) -> None:
        """Completed blocks, the prediction for the block after each, and the open block's fill."""
        self._flush()
        self._append(sums, following)
        self.filled = filled

    def append_one(self, noisy: int, following: float) -> None:
        """One completed block: kept aside until someone asks, which saves the cost of arrays."""
        self._pending.append((noisy, following))
        self.filled = 0
        if len(self._pending) >= _FIRST_CAPACITY:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            sums, following = zip(*self._pending, strict=True)
            self._pending.clear()
            self._append(np.array(sums, dtype=np.int64), np.array(following))

    def _append(self, sums: IntArray, following: FloatArray) -> None:
        self._grow(sums.size)
        slots = self._slots(np.arange(self._closed, self._closed + sums.size + 1))
        now, new = slots[:1], slots[1:][-self._most :]  # of a large push only the end is kept
        running = np.cumsum(np.concatenate((self._sums[now], sums)))
        if self._block > 1:
            predictions = np.concatenate((self._predictions[now], following))
            misses = np.square(sums - self._block * predictions[:-1])
            squares = np.cumsum(np.concatenate((self._squares[now], misses)))
            self._squares[new] = squares[1:][-self._most :]
            self._predictions[new] = following[-self._most :]
        self._sums[new] = running[1:][-self._most :]
        self._closed += sums.size
        self._oldest = max(self._oldest, self._closed + 1 - self._sums.size)

    def _grow(self, more: int) -> None:
        size = self._sums.size
        needed = min(self._closed + 1 + more, self._most)
        if needed <= size:
            return
        size = min(self._most, max(needed, 2 * size))
        # Not full so far: slots are still in order and stay where they are. In place, since two
        # copies would be the peak of the memory that a release needs.
        for column in self._columns():
            column.resize(size, refcheck=False)

    def _slots(self, blocks: IntArray) -> IntArray:
        return blocks % self._sums.size

    @property
    def table(self) -> list[NDArray[Any]]:
        """The kept blocks, oldest first: running sums, predictions, running squares."""
        self._flush()
        slots = self._slots(np.arange(self._oldest, self._closed + 1))
        return [column[slots] for column in self._columns()]

    @table.setter
    def table(self, columns: list[NDArray[Any]]) -> None:
        self._oldest = self._closed + 1 - columns[0].size
        self._grow(0)
        slots = self._slots(np.arange(self._oldest, self._closed + 1))
        for column, values in zip(self._columns(), columns, strict=True):
            column[slots] = values

    def joined(self, later: Record) -> Record:
        """This record and a later one of the same release, as one that answers for both."""
        if self.epoch != later.epoch or not self._oldest <= later._oldest <= self.closed + 1:
            raise QueryError("these are not two records of one release, without a gap between them")
        both = Record(
            law=self._law,
            block=self._block,
            threshold=self._threshold,
            step=self._step,
            history=(later.closed - self._oldest) * self._block,
            origin=self.origin,
            epoch=self.epoch,
            first=0.0,
        )
        both.closed, both.filled = later.closed, later.filled
        both.guarantee = later.guarantee
        both.table = [
            np.concatenate((early[: later._oldest - self._oldest], late))
            for early, late in zip(self.table, later.table, strict=True)
        ]
        return both

    def _columns(self) -> Sequence[NDArray[Any]]:
        if self._block == 1:
            return (self._sums,)
        return (self._sums, self._predictions, self._squares)

    # -- answering -------------------------------------------------------------------------------

    def query(self, start: int, end: int, confidence: float = 0.95) -> Answer:
        """The sum over [start, end)."""
        return self.queries([start], [end], confidence)[0]

    def queries(self, starts: ArrayLike, ends: ArrayLike, confidence: float = 0.95) -> Answers:
        """The sums over many ranges [start, end) at once.

        The noise part is exact: the covariance of the published noise, for each range. Inside a
        block that a range cuts, the published values are predictions; their error after k of B
        values is put at (k/B)²·D² + k(1 − k/B)·p(θ − p): D² is the mean squared miss of the last
        16 block sums (which includes noise, on the safe side), and the second term the largest
        variance that independent values in [0, θ] with mean p can have. The quantile lies between
        the normal one (many nodes) and the Laplace one (a single node), by the share that one node
        can have of the variance.
        """
        if not 0 < exact("confidence", confidence) < 1:
            raise SettingError("confidence", f"must lie between 0 and 1, not {confidence}")
        confidence = float(confidence)
        self._flush()
        starts, ends = self._checked(starts, ends)
        first, first_offset = np.divmod(starts - self.origin, self._block)
        last, last_offset = np.divmod(ends - self.origin, self._block)
        variance = self._law.range_variance(first, last)
        sums = self._sums[self._slots(last)] - self._sums[self._slots(first)]
        estimates = sums.astype(np.float64)
        prediction_variance = np.zeros(starts.size)
        if self._block > 1:
            inside = first == last
            estimates += last_offset * self._predictions[self._slots(last)]
            estimates -= first_offset * self._predictions[self._slots(first)]
            prediction_variance = np.where(
                inside,
                self._prediction_variance(last, last_offset - first_offset),
                self._prediction_variance(first, first_offset)
                + self._prediction_variance(last, last_offset),
            )
        half = self._quantile(variance, confidence) * np.sqrt(variance + prediction_variance)
        return Answers(
            start=starts,
            end=ends,
            estimate=estimates * self._step,
            noise_error=np.sqrt(variance) * self._step,
            prediction_error=np.sqrt(prediction_variance) * self._step,
            low=(estimates - half) * self._step,
            high=(estimates + half) * self._step,
            confidence=confidence,
            threshold=self._threshold * self._step,
        )

    def _checked(self, starts: ArrayLike, ends: ArrayLike) -> tuple[IntArray, IntArray]:
        pair = []
        for name, positions in (("starts", starts), ("ends", ends)):
            array = np.asarray(positions)
            if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
                raise QueryError(f"{name} must be whole numbers, in one dimension")
            pair.append(np.minimum(array, _FARTHEST).astype(np.int64))
        begin, end = pair
        if begin.size != end.size:
            raise QueryError(f"{begin.size} starts but {end.size} ends")
        wrong = np.flatnonzero((begin > end) | (begin < self.start) | (end > self.end))
        if wrong.size:
            raise QueryError(self._complaint(int(begin[wrong[0]]), int(end[wrong[0]])))
        return begin, end

    def _complaint(self, start: int, end: int) -> str:
        if start > end:
            return f"range [{start}, {end}) ends before it starts"
        if end > self.end:
            return f"range [{start}, {end}) reaches beyond the {self.end} values released so far"
        if start < self.origin:
            return f"range [{start}, {end}) starts before this release began, at {self.origin}"
        return (
            f"range [{start}, {end}) is older than the record, which begins at {self.start}: ask a "
            "stored record, or keep more with `history`"
        )

    def _prediction_variance(self, blocks: IntArray, offsets: IntArray) -> FloatArray:
        """Variance of (k·prediction − sum of the first k values of the block), in units²."""
        to = np.minimum(blocks + 1, self._closed)
        since = np.maximum(to - _RESIDUALS, self._oldest)
        misses = self._squares[self._slots(to)] - self._squares[self._slots(since)]
        unknown = (self._block * self._threshold / 2) ** 2  # block 0 is predicted from nothing
        miss = np.where(blocks == 0, unknown, np.maximum(misses, 0.0) / np.maximum(to - since, 1))
        level = np.clip(self._predictions[self._slots(blocks)], 0, self._threshold)
        share = offsets / self._block
        spread = np.maximum(level * (self._threshold - level), self._threshold**2 / 16)
        return np.where(offsets == 0, 0.0, share**2 * miss + offsets * (1 - share) * spread)

    def _quantile(self, variance: FloatArray, confidence: float) -> FloatArray:
        from statistics import NormalDist  # on demand: importing it is slow

        normal = NormalDist().inv_cdf((1 + confidence) / 2)
        laplace = -math.log(1 - confidence) / math.sqrt(2)
        largest = self._law.largest_variance
        share = largest / np.maximum(variance, largest)
        return normal + (laplace - normal) * share
