"""How long the warm-ups of a release without a hold-out are: public settings decide."""

from __future__ import annotations

import math
from fractions import Fraction

_LENGTH = 5  # length of the warm-up, in (horizon/ε²)^⅓
_LEAST = 8
# The first warm-up is one for a stream of 4096 values, however long the horizon is, and has at
# least 24/ε values: fewer cannot tell one θ from another.
_FIRST_HORIZON, _FIRST_EVIDENCE = 4096, 24
_AGAIN_HORIZON = 8  # a later warm-up is made for this many times the values before it


def first_length(epsilon: Fraction, horizon: int) -> int:
    """The length of the first warm-up: as for a stream of 4,096 values, or 24/ε if that is longer.

    It is never longer than that of the horizon. θ is refined as values come, so a first choice may
    have few of them; and a stream of unknown length gets its first answers early.

    >>> [first_length(Fraction(1, 10), horizon) for horizon in (1000, 10**4, 2**20)]
    [233, 372, 372]
    >>> first_length(Fraction(1), 2**20), first_length(Fraction(1, 100), 2**20)
    (80, 2400)
    """
    short = warm_up_length(epsilon, min(horizon, _FIRST_HORIZON))
    return min(warm_up_length(epsilon, horizon), max(short, math.ceil(_FIRST_EVIDENCE / epsilon)))


def later_length(epsilon: Fraction, horizon: int, *, at: int) -> int:
    """The length of a warm-up that begins after `at` values; public, like their number."""
    reach = max(1, min(horizon, _AGAIN_HORIZON * at))
    return max(first_length(epsilon, horizon), warm_up_length(epsilon, reach))


def warm_up_length(epsilon: Fraction, horizon: int) -> int:
    """5·(n/ε²)^⅓ values, at most a quarter of the horizon n: public settings decide.

    Zeros for m values of mean 0.2 θ add about 0.03·m³/n·θ² to the error of ranges, and the trees 12
    to 40·θ²/ε². So the hole that the warm-up leaves does not matter up to m ≈ 11·(n/ε²)^⅓.

    >>> warm_up_length(Fraction(1, 10), 1024), warm_up_length(Fraction(1), 65536)
    (234, 202)
    """
    cube = _LENGTH**3 * horizon / epsilon**2
    found: int = max(1, round(float(cube) ** (1 / 3)))
    while found**3 < cube:  # the float proposes, integers decide
        found += 1
    while (found - 1) ** 3 >= cube:
        found -= 1
    longest = max(_LEAST, math.floor(horizon * Fraction(1, 4)))
    return max(_LEAST, min(longest, found))
