"""`NonNegativeRemainder`: publish no negative values; later values pay for it. Post-processing."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tidegate.lattice import FloatArray


class NonNegativeRemainder:
    """Sets negative values to 0 and subtracts what that added from the next positive ones.

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
        """Settle one value."""
        paid = self.debt + value
        if paid < 0.0:
            self.debt = paid
            return 0.0
        self.debt = 0.0
        return paid

    @staticmethod
    def _next(negative: np.ndarray[tuple[int], np.dtype[np.intp]], start: int) -> int:
        index = int(np.searchsorted(negative, start))
        return int(negative[index]) if index < negative.size else 1 << 62
