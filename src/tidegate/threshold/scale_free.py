"""`ScaleFree`: choose θ by a score that does not depend on the unit of the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from tidegate.guarantee import Guarantee
from tidegate.lattice import IntArray, Lattice, steps_by_information
from tidegate.noise import permute_and_flip
from tidegate.randomness import Keystream
from tidegate.settings import Epsilon, Exact, Spec, Whole

# Candidates grow by this factor: finer grids did not help, coarser ones lose up to a quarter of θ.
RATIO = "1.25"
# How many held-out values above θ, in units of 1/ε, a threshold that is e times larger is worth.
# The best count grows as (tail index)/ε; 7 is the best compromise over many streams, and well
# above the selection's own uncertainty of about 1/ε.
PRICE = 7
# A value counts in full from a sixteenth of θ above it, in proportion below: what little a light
# tail loses just above θ is worth less than noise in proportion to a higher θ. (An eighth suits
# light tails better still, but leaves less room for levels that rise after the hold-out.)
NEAR = 16
# A hold-out of at least 32,768 values, with ε × values ≥ 500, also tells how the bulk lies below θ.
LONG, LONG_EVIDENCE = 1 << 15, 500
# What such a one pays for a factor of e, in 1/ε: 3, and 30 times the mean of min(v, θ)/θ. A tenth
# is typical; a heavy tail has less and gets a higher θ, a light one has more and gets a lower one.
# Fewer values above θ than 1/ε are as good as 1/ε.
LONG_PRICE, BULK, LONG_TARGET = 3, 30, 1
# Scores are whole numbers of this fraction of a value: the logarithms are irrational.
_DENOMINATOR = 1 << 20
_PARTS = 1 << 8  # of a value that counts in part; 53 bits of θ leave room for no more
_DIGITS = 40  # enough for any bound to be hit exactly


@dataclass(frozen=True, kw_only=True, repr=False)
class ScaleFree(Spec):
    """θ with (nearly) the highest score −Σ min(1, 16·(v − θ)/θ) − (7/ε)·ln θ.

    The sum is over held-out values v above θ: a count in which those hardly above θ count in part.
    Multiplying all values, the bound and the resolution by a constant multiplies θ by it: unlike
    `NoisyMax` there is no constant in the unit of the data.

    A long hold-out (32,768 values, and 500/ε) knows the shape of the bulk, too. Its score is
    −max(sum, 1/ε) + w·Σ min(v, θ)/θ − (3/ε)·ln θ, the second sum over all held-out values and
    w = 30/(ε·holdout): where values are not small beside θ, as of a light tail, a larger θ must
    spare more of them.

    Guarantee: pure ε-DP. Released: θ. The candidates, the price and w are public, both rounded to
    public fractions. In the first sum each value has a term that lies between 0 and 1 (rounded down
    to a 256th, value by value) and never falls as the value grows: replacing a value by a larger
    one moves the sum of every candidate by at most 1, and all upwards; so does max(sum, 1/ε). In
    the second its term moves upwards by at most 1, which is w in the score: w is a whole number of
    the scores' steps, so rounding down the whole does not stretch that. So all scores move within
    [−1, w], or within [−1, 0] where the hold-out is short; for a smaller value within [−w, 1].
    Permute-and-flip looks at differences of scores alone. Adding the same number to all, they move
    in one direction by at most 1 + w, so that acceptance e^(−ε/(1 + w)·(best − score)) costs ε
    instead of 2ε. Exact: integers decide every coin.

    Args:
        epsilon: the budget of the choice.
        bound: public upper bound of a value.
        holdout: how many values to spend on the choice.

    >>> from fractions import Fraction
    >>> ScaleFree(epsilon=0.1, bound=10).candidates(Lattice(Fraction(10), Fraction(1)))
    array([ 1,  2,  3,  4,  5,  7,  8, 10])
    """

    KIND: ClassVar[str] = "threshold.ScaleFree"

    epsilon: Epsilon = Epsilon()
    bound: Exact = Exact()
    holdout: Whole = Whole(minimum=1, default=65_536)

    @property
    def guarantee(self) -> Guarantee:
        """ε-DP for the held-out values; no other value is read."""
        return Guarantee(epsilon=self.epsilon)

    @property
    def steps(self) -> int:
        """The number of grains for a default resolution."""
        return steps_by_information(PRICE, self.epsilon * self.holdout)

    def ceiling(self, lattice: Lattice) -> int:
        """The bound."""
        return lattice.top

    def candidates(self, lattice: Lattice) -> IntArray:
        """The thresholds to choose from: rounded geometric steps from 1 grain to the bound.

        Even steps that end exactly at the bound, so the ratio is RATIO or a little less. Decimals,
        because they give the same digits on every machine.
        """
        return _spread_scale_free_grid(lattice.top, lattice.grain)

    def scores(self, values: IntArray, lattice: Lattice) -> tuple[IntArray, IntArray, int]:
        """Candidates, their integer scores, and the sensitivity of score differences."""
        grid = self.candidates(lattice)
        ordered = np.sort(values)
        first = np.searchsorted(ordered, grid, side="right").tolist()
        parts = [
            _scale_free_parts(ordered[at:], step)
            for at, step in zip(first, grid.tolist(), strict=True)
        ]
        above = np.array(parts, dtype=np.int64) * (_DENOMINATOR // _PARTS)
        if self.holdout < LONG or self.epsilon * self.holdout < LONG_EVIDENCE:
            return (
                grid,
                -(_scale_free_prices(self.epsilon, PRICE, lattice.grains) + above),
                _DENOMINATOR,
            )
        public = _scale_free_prices(self.epsilon, LONG_PRICE, lattice.grains)
        weight = math.ceil(BULK * _DENOMINATOR / (self.epsilon * self.holdout))
        sums = _scale_free_sums(ordered, first, grid.tolist())
        bulk = [weight * capped // step for capped, step in zip(sums, grid.tolist(), strict=True)]
        above = np.maximum(above, round(LONG_TARGET * _DENOMINATOR / self.epsilon))
        return grid, np.array(bulk) - above - public, _DENOMINATOR + weight

    def choose(self, values: IntArray, lattice: Lattice, keystream: Keystream) -> int:
        """θ in lattice units."""
        grid, scores, apart = self.scores(values, lattice)
        best = permute_and_flip(keystream.at(), scores, self.epsilon / apart)
        return int(grid[best])


# Public numbers, which are the same for every stream of a pipeline: computed once.


@lru_cache(maxsize=64)
def _scale_free_grid(highest: int) -> IntArray:
    with localcontext(Context(prec=_DIGITS)):
        top = Decimal(highest)
        count = int(top.ln() / Decimal(RATIO).ln()) + 1
        grid = {round(top ** (Decimal(step) / count)) for step in range(count + 1)}
    return _scale_free_constant(np.array(sorted(grid), dtype=np.int64))


@lru_cache(maxsize=64)
def _spread_scale_free_grid(top: int, grain: int) -> IntArray:
    return _scale_free_constant(np.minimum(_scale_free_grid(-(-top // grain)) * grain, top))


@lru_cache(maxsize=64)
def _scale_free_prices(epsilon: Fraction, factor: int, highest: int) -> IntArray:
    with localcontext(Context(prec=_DIGITS)):
        price = factor * _DENOMINATOR * Decimal(epsilon.denominator) / epsilon.numerator
        steps = _scale_free_grid(highest).tolist()
        return _scale_free_constant(np.array([round(price * Decimal(step).ln()) for step in steps]))


def _scale_free_constant(numbers: IntArray) -> IntArray:
    numbers.flags.writeable = False
    return numbers


def _scale_free_parts(exceeding: IntArray, threshold: int) -> int:
    """The sum of the penalties of values above a threshold, in 256ths."""
    excess = np.minimum(exceeding - threshold, -(-threshold // NEAR))
    return int(np.minimum(excess * (NEAR * _PARTS) // threshold, _PARTS).sum())


def _scale_free_sums(ordered: IntArray, first: list[int], thresholds: list[int]) -> list[int]:
    """Exact sums of min(v, θ), in two halves of 27 bits, since whole sums could overflow."""
    high, low = (np.cumsum(part).tolist() for part in (ordered >> 27, ordered & ((1 << 27) - 1)))
    below = [(high[at - 1] << 27) + low[at - 1] if at else 0 for at in first]
    return [
        known + (ordered.size - at) * threshold
        for known, at, threshold in zip(below, first, thresholds, strict=True)
    ]
