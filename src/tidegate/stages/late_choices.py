"""The position from which choices of θ count as late: for thresholds, answers and published values.

A late choice has so many values that the level distinguishes light tails from heavy ones, and its
price follows the level (`price_of_thresholds.late_price`). Shorter streams, whose tail often grows,
need the head-room of the other price (decisions 0102 and 0116).

Privacy: public, a function of the horizon. It counts rows or ticks, never events.
"""

from __future__ import annotations

LATE = 65_536  # values of the release; a number, no part of the horizon
LONG = 1 << 19  # the shortest horizon that has late choices
_NEVER = 1 << 62


def late_from(horizon: int) -> int:
    """The number of values after which choices, and cells of published values, count as late.

    >>> late_from(2**20), late_from(2**18) > 2**60
    (65536, True)
    """
    return LATE if horizon >= LONG else _NEVER
