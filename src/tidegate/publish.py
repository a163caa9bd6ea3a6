"""From noisy block sums and predictions to one published number per value: post-processing.

Inside a block every value is published as the prediction; the last value of the block is published
as the noisy sum minus what was already published, so that every completed block adds up to its
noisy sum. (The paper's Algorithm 1 forgets the division: it must read cur_node − u·(16^s −
1)/16^s.) A stream that stops inside a block leaves predictions only for that block.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tidegate.lattice import FloatArray
from tidegate.stages import Noisy, SmootherRun


class Publisher:
    """Spreads noisy block sums over the values of their blocks, in the unit of the data."""

    STATE: ClassVar[tuple[str, ...]] = ("prediction", "filled")

    def __init__(self, smoother: SmootherRun, block: int, step: float) -> None:
        self._smoother = smoother
        self._block = block
        self._step = step
        self.prediction = smoother.first  # for the open block, in lattice units
        self.filled = 0  # values already published of the open block

    def push(self, noisy: Noisy, out: FloatArray) -> FloatArray:
        """Fill `out`, one number per value; give the prediction that follows each block."""
        if self._block == 1:  # every value ends its block: nothing to predict
            np.multiply(noisy.sums, self._step, out=out)
            return np.zeros(noisy.sums.size)
        following = self._smoother.push(noisy)
        completed, head = noisy.sums.size, self._block - self.filled
        if not completed:
            out[:] = self.prediction * self._step
            self.filled += out.size
            return following
        predictions = np.concatenate(([self.prediction], following))
        values = predictions * self._step
        corrections = (noisy.sums - (self._block - 1) * predictions[:-1]) * self._step
        out[: head - 1] = values[0]
        out[head - 1] = corrections[0]
        body = out[head : head + (completed - 1) * self._block].reshape(-1, self._block)
        body[:] = values[1:-1, np.newaxis]
        body[:, -1] = corrections[1:]
        tail = out[head + (completed - 1) * self._block :]
        tail[:] = values[-1]
        self.filled = tail.size
        self.prediction = float(predictions[-1])
        return following

    def push_one(self, noisy: int | None) -> tuple[float, float]:
        """The same for one value: the published number, and the prediction that follows."""
        before = self.prediction
        if noisy is None:
            self.filled += 1
            return before * self._step, before
        if self._block == 1:
            return noisy * self._step, 0.0
        self.filled = 0
        self.prediction = self._smoother.push(Noisy(np.array([noisy]))).item()
        return (noisy - (self._block - 1) * before) * self._step, self.prediction


class Remainder:
    """Makes a stream non-negative by paying negative values out of the next positive ones.

    out = max(0, x + debt), and debt = min(0, x + debt) is kept for the next value. Effect on range
    sums: the published running sum is the highest running sum so far, so a range is off by the
    debt at its end minus the debt at its start; nothing accumulates, unlike with plain clipping,
    which would add the whole negative part of the noise. `query` is not affected: it answers from
    block sums.
    """

    STATE: ClassVar[tuple[str, ...]] = ("debt",)

    def __init__(self) -> None:
        self.debt = 0.0  # never positive

    def settle(self, values: FloatArray) -> None:
        """Make `values` non-negative in place.

        Sums are sequential (`cumsum`), so that any split of the stream gives the same bits.
        """
        negative = np.flatnonzero(values < 0)
        at = 0 if self.debt else self._next(negative, 0)
        while at < values.size:
            reach = 64
            while True:  # pay from `at` on until the running sum is no longer negative
                running = np.cumsum(np.concatenate(([self.debt], values[at : at + reach])))[1:]
                paid = np.flatnonzero(running >= 0)
                if paid.size:
                    end = int(paid[0])
                    values[at : at + end] = 0.0
                    values[at + end] = running[end]
                    self.debt = 0.0
                    at = self._next(negative, at + end + 1)
                    break
                if at + reach >= values.size:
                    values[at:] = 0.0
                    self.debt = float(running[-1])
                    return
                reach *= 4

    def settle_one(self, value: float) -> float:
        """The same for one value."""
        paid = self.debt + value
        self.debt = min(paid, 0.0)
        return max(paid, 0.0)

    @staticmethod
    def _next(negative: np.ndarray[tuple[int], np.dtype[np.intp]], start: int) -> int:
        index = int(np.searchsorted(negative, start))
        return int(negative[index]) if index < negative.size else 1 << 62
