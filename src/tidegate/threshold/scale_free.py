"""`ScaleFree`: choose θ by a score that does not depend on the unit of the data."""

from __future__ import annotations

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

    Guarantee: pure ε-DP. Released: θ. The candidates and the price (7/ε)·ln θ are public, the price
    rounded to a public fraction. In the score's data part each value has a term that lies between 0
    and 1 (rounded down to a 256th, value by value) and never falls as the value grows: replacing a
    value moves every candidate's sum by at most 1, and all in the same direction (up if the new
    value is larger, down if smaller), so scores are monotone with sensitivity 1, and
    permute-and-flip with acceptance e^(−ε·(best − score)) costs ε instead of 2ε. Exact: integers
    decide every coin.

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
        """ε-DP for the held-out values; the rest of the stream is not looked at."""
        return Guarantee(epsilon=self.epsilon)

    @property
    def steps(self) -> int:
        """How many steps a default resolution should have."""
        return steps_by_information(PRICE, self.epsilon * self.holdout)

    def ceiling(self, lattice: Lattice) -> int:
        """The bound."""
        return lattice.top

    def candidates(self, lattice: Lattice) -> IntArray:
        """The thresholds to choose from: rounded geometric steps from 1 unit to the bound.

        Even steps that end exactly at the bound, so the ratio is RATIO or a little less. Decimals,
        because they give the same digits on every machine.
        """
        return _grid(lattice.top)

    def scores(self, values: IntArray, lattice: Lattice) -> tuple[IntArray, IntArray, int]:
        """Candidates, their scores as integers, and the common denominator of the scores."""
        grid = self.candidates(lattice)
        public = _prices(self.epsilon, lattice.top)
        ordered = np.sort(values)
        first = np.searchsorted(ordered, grid, side="right").tolist()
        parts = [_parts(ordered[at:], step) for at, step in zip(first, grid.tolist(), strict=True)]
        above = np.array(parts, dtype=np.int64) * (_DENOMINATOR // _PARTS)
        return grid, -(public + above), _DENOMINATOR

    def choose(self, values: IntArray, lattice: Lattice, keystream: Keystream) -> int:
        """θ in lattice units."""
        grid, scores, denominator = self.scores(values, lattice)
        best = permute_and_flip(keystream.at(), scores, self.epsilon / denominator)
        return int(grid[best])


# Public numbers, which are the same for every stream of a pipeline: computed once.


@lru_cache(maxsize=64)
def _grid(highest: int) -> IntArray:
    with localcontext(Context(prec=_DIGITS)):
        top = Decimal(highest)
        count = int(top.ln() / Decimal(RATIO).ln()) + 1
        grid = {round(top ** (Decimal(step) / count)) for step in range(count + 1)}
    return _constant(np.array(sorted(grid), dtype=np.int64))


@lru_cache(maxsize=64)
def _prices(epsilon: Fraction, highest: int) -> IntArray:
    with localcontext(Context(prec=_DIGITS)):
        price = PRICE * _DENOMINATOR * Decimal(epsilon.denominator) / epsilon.numerator
        steps = _grid(highest).tolist()
        return _constant(np.array([round(price * Decimal(step).ln()) for step in steps]))


def _constant(numbers: IntArray) -> IntArray:
    numbers.flags.writeable = False
    return numbers


def _parts(exceeding: IntArray, threshold: int) -> int:
    """Sum of the penalties of the values above a threshold, in 256ths."""
    excess = np.minimum(exceeding - threshold, -(-threshold // NEAR))
    return int(np.minimum(excess * (NEAR * _PARTS) // threshold, _PARTS).sum())
