"""`TailQuantile`: choose θ from few values or with a small ε, by how many values exceed it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, TypedDict, Unpack

import numpy as np

from tidegate.guarantee import Guarantee
from tidegate.lattice import IntArray, Lattice, steps_by_information
from tidegate.noise import permute_and_flip
from tidegate.randomness import Keystream
from tidegate.settings import Epsilon, Exact, OptionalExact, Spec, Whole
from tidegate.threshold.bulk_of_values import bulk_scores, sees_bulk
from tidegate.threshold.price_of_thresholds import SCORE_PARTS, threshold_penalties

# How many values of a whole horizon should lie above θ, in units of 1/ε of the stream. The best
# number is √(6Tκ)/ε for a tree of range error T and a tail of index κ, 15 to 50 and hardly more
# for any tail; so it is the count that is aimed at, and not what a larger θ is worth.
WANTED = 25
# Never more than this part of the hold-out: θ must not lie in the lower half of the bulk.
MOST = Fraction(1, 4)
# The fewest values above θ that a choice can see, in 1/ε.
VISIBLE = 3
# The same for a late choice with a steep price (`late_price`): that keeps chance small instead.
LATE_VISIBLE = 2
# What a candidate must be ahead by, in 1/ε, for noise hardly ever to take the other one.
SURE = 5
# Where the count that is wanted cannot be seen, θ is extrapolated as if the tail had this index.
TAIL_INDEX = 5
# Candidates grow by this factor, finer where the choice knows more (ε·values at least).
RATIOS = ((100, "1.25"), (30, "1.5"), (0, "2"))
# A value counts in full from a sixteenth of θ above it, in proportion below (as in `ScaleFree`).
NEAR = 16
PARTS = 1 << 8  # of a value that counts in part; 53 bits of θ leave room for no more
_DIGITS = 40  # enough for any bound to be hit exactly


class PublicFacts(TypedDict, total=False):
    """The public facts of a choice: see `TailQuantile.choose_from`; defaults are in `scores`."""

    at_least: int
    positive: int | None
    climbing_from: int
    climbing_to: int | None
    first: bool
    late_price: Fraction | None


@dataclass(frozen=True, kw_only=True, repr=False)
class TailQuantile(Spec):
    """The smallest θ that at most about a target number of values exceed.

    The score of a candidate is −max(above(θ), target) − price·ln θ, where above(θ) is the number of
    values above θ, those hardly above it counted in part. Below the target a larger θ gains
    nothing, so θ is the (target/holdout) upper quantile for every tail of index above 1. The target
    is 25/ε values of a horizon, of which the hold-out has holdout/horizon; if the choice cannot see
    so few it aims at 3/ε of its own values and moves θ up by (visible/wanted)^(1/5), as for a tail
    of index 5.

    Guarantee: pure ε-DP. Released: θ. Candidates, target, price and the factor at the end are
    functions of public settings and of what was released before. In above(θ) each value has a term
    between 0 and 1 (rounded down to a 256th, value by value) that never falls as the value grows:
    replacing a value moves above(θ) by at most 1 for every candidate, and for all in the same
    direction. x → max(x, target) neither turns the direction round nor stretches a step, so scores
    are monotone with sensitivity 1, and permute-and-flip with acceptance e^(−ε·(best − score))
    costs ε instead of 2ε. Exact: integers decide every coin. A first choice of a release that knows
    too little for a tail has other scores and a lower rate: `bulk_of_values` has their argument,
    for the same ε.

    Args:
        epsilon: the budget of the choice.
        bound: public upper bound of a value.
        holdout: how many values choose.
        horizon: of the stream that θ is for.
        stream_epsilon: the budget of that stream. None: the same.
        visible: the fewest values above θ to aim at, in units of 1/ε of the choice. The chance of a
            θ that is f times too high falls as f^−visible, and the noise variance grows as f².

    >>> from fractions import Fraction
    >>> stage = TailQuantile(epsilon="3/4", bound=1000, holdout=51, horizon=1024, stream_epsilon=1)
    >>> stage.target, stage.extrapolation
    (Fraction(4, 1), Fraction(1293, 1024))
    >>> stage.candidates(Lattice(Fraction(20), Fraction(1)))
    array([ 1,  2,  3,  4,  7,  9, 14, 20])
    """

    KIND: ClassVar[str] = "threshold.TailQuantile"

    epsilon: Epsilon = Epsilon()
    bound: Exact = Exact()
    holdout: Whole = Whole(minimum=1, default=1024)
    horizon: Whole = Whole(minimum=1, default=2**20)
    stream_epsilon: OptionalExact = OptionalExact(default=None)
    visible: Whole = Whole(minimum=1, default=VISIBLE)

    def __hash__(self) -> int:
        return self._hash  # kept: caches ask for it often, and that of a fraction takes long

    @cached_property
    def _hash(self) -> int:
        return hash((self.epsilon, self.bound, self.holdout, self.horizon, self.stream_epsilon))

    @property
    def guarantee(self) -> Guarantee:
        """ε-DP for the values that choose; no other value is read."""
        return Guarantee(epsilon=self.epsilon)

    @cached_property
    def wanted(self) -> Fraction:
        """How many held-out values should lie above θ, ignoring noise."""
        budget = self.stream_epsilon or self.epsilon
        return WANTED * Fraction(self.holdout, self.horizon) / budget

    @cached_property
    def target(self) -> Fraction:
        """How many values above θ the choice aims at: at least as many as noise lets it see."""
        return min(max(self.wanted, self.visible / self.epsilon), MOST * self.holdout)

    @cached_property
    def extrapolation(self) -> Fraction:
        """The factor from the targeted quantile to the wanted one, in 1024ths."""
        ratio = max(Fraction(1), self.target / self.wanted)
        with localcontext(Context(prec=_DIGITS)):
            factor = _tail_decimal(ratio) ** (1 / Decimal(TAIL_INDEX))
            return Fraction(int((factor * 1024).to_integral_value(ROUND_FLOOR)), 1024)

    @cached_property
    def late(self) -> TailQuantile:
        """The same choice with the price of a late one, which aims at fewer values."""
        return replace(self, visible=LATE_VISIBLE)

    @property
    def steps(self) -> int:
        """The number of grains for a default resolution."""
        return steps_by_information(3, self.epsilon * self.holdout)

    def reach(self, positive: int, price: int) -> Fraction:
        """How many factors of e θ surely climbs if `positive` values lie above all of them.

        They gain what exceeds the target, and must be ahead of the price, in 1/ε for a factor of e,
        by 5/ε: else noise would keep one θ in a hundred, or more, at the bottom.
        """
        return max(Fraction(0), self.epsilon * (positive - self.target) - SURE) / price

    def ceiling(self, lattice: Lattice) -> int:
        """The bound."""
        return lattice.top

    def candidates(self, lattice: Lattice) -> IntArray:
        """The thresholds to choose from: rounded geometric steps from 1 grain to the bound."""
        return _spread_tail_grid(lattice.top, lattice.grain, self._ratio)

    def ladder(self, lattice: Lattice) -> IntArray:
        """The candidates in grains, by which they are priced."""
        return _tail_grid(lattice.grains, self._ratio)

    @cached_property
    def _ratio(self) -> str:
        """The ratio of successive candidates."""
        known = self.epsilon * self.holdout
        return next(ratio for least, ratio in RATIOS if known >= least)

    def above(self, values: IntArray, lattice: Lattice) -> IntArray:
        """How many values exceed each candidate, in 256ths: all that a choice reads of raw values.

        Counts of pieces add up to those of the whole. They are as secret as the values.
        """
        grid = self.candidates(lattice)
        ordered = np.sort(values)
        # Between `first` and `full` values count in part, from there on in full.
        first = np.searchsorted(ordered, grid, side="right")
        full = np.searchsorted(ordered, grid - -grid // NEAR)
        near = full - first
        places = np.repeat(first - (np.cumsum(near) - near), near) + np.arange(near.sum())
        steps = np.repeat(grid, near)
        parts = np.minimum((ordered[places] - steps) * (NEAR * PARTS) // steps, PARTS)
        sums = np.concatenate(([0], np.cumsum(parts)))
        ends = np.cumsum(near)
        found: IntArray = sums[ends] - sums[ends - near] + (ordered.size - full) * PARTS
        return found

    def scores(
        self,
        above: IntArray,
        lattice: Lattice,
        at_least: int = 1,
        positive: int | None = None,
        climbing_from: int = 1,
        climbing_to: int | None = None,
        first: bool = False,
        late_price: Fraction | None = None,
    ) -> tuple[IntArray, IntArray, int]:
        """Candidates, their integer scores (of one stream, or in rows), and their denominator."""
        grid = self.candidates(lattice)
        least = min(-(-at_least // lattice.grain), lattice.grains) / self.extrapolation
        allowed = self.ladder(lattice) >= math.ceil(least)  # outcomes are whole grains
        if first and sees_bulk(self, lattice):
            return grid[allowed], *bulk_scores(self, above, lattice, allowed)
        counts = above[..., allowed] * (SCORE_PARTS // PARTS)
        counts = np.maximum(counts, round(self.target * SCORE_PARTS))
        end = None if climbing_to is None else -(-climbing_to // lattice.grain)
        facts = max(1, climbing_from // lattice.grain), end, positive, late_price
        public = threshold_penalties(self, lattice.grains, *facts)[allowed]
        return grid[allowed], -(public + counts), SCORE_PARTS

    def choose(
        self,
        values: IntArray,
        lattice: Lattice,
        keystream: Keystream,
        **facts: Unpack[PublicFacts],
    ) -> int:
        """θ in lattice units; `facts` as in `choose_from`."""
        return self.choose_from(self.above(values, lattice), lattice, keystream, **facts)

    def choose_from(
        self,
        above: IntArray,
        lattice: Lattice,
        keystream: Keystream,
        **facts: Unpack[PublicFacts],
    ) -> int:
        """Choose θ from counts instead of values.

        `at_least` is a public lower limit, such as a cap that released sums have shown to be full.
        `positive` is a public estimate of how many of them lie above 0: half as many can pay for
        the climb from the smallest candidate, which is why the price depends on it. That candidate
        is about `climbing_from`: the nearer to the bound, the steeper a price they can pay, and the
        rarer is a θ that is too high by chance. `climbing_to`: they need not pay for more than the
        climb up to there; None: to the bound. `first`: nothing is known; if the values could not
        pay for a climb, their bulk chooses (`bulk_of_values`). `late_price`: the highest price of a
        factor of e, in 1/ε (`price_of_thresholds.late_price`).
        """
        grid, scores, denominator = self.scores(above, lattice, **facts)
        best = permute_and_flip(keystream.at(), scores, self.epsilon / denominator)
        return self.outcome(int(grid[best]), lattice)

    def outcome(self, candidate: int, lattice: Lattice) -> int:
        """The θ that follows from choosing a candidate."""
        return outcome_of_tail_quantile(int(candidate), self.extrapolation, lattice)


def outcome_of_tail_quantile(candidate: int, factor: Fraction, lattice: Lattice) -> int:
    """The θ that follows from a candidate: times this factor, down to whole grains."""
    grains = int(-(-candidate // lattice.grain) * factor)
    return min(lattice.top, grains * lattice.grain)


def last_exceeded_in_tail(values: IntArray, grid: IntArray) -> tuple[IntArray, IntArray]:
    """The last candidate that each value exceeds (−1: none), and its count there, in 256ths.

    It counts in full before: `TailQuantile.above` in another form, for counts of many streams.
    """
    last: IntArray = np.searchsorted(grid, values) - 1
    steps = grid[np.maximum(last, 0)]
    near = np.minimum(values - steps, steps // NEAR + 1)  # more counts in full, and would not fit
    return last, np.minimum(near * (NEAR * PARTS) // steps, PARTS)


def _tail_decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def all_tail_grids(lattice: Lattice) -> list[IntArray]:
    """Every grid of candidates that a choice can use."""
    return [_spread_tail_grid(lattice.top, lattice.grain, ratio) for _, ratio in RATIOS]


@lru_cache(maxsize=64)
def _spread_tail_grid(top: int, grain: int, ratio: str) -> IntArray:
    found: IntArray = np.minimum(_tail_grid(-(-top // grain), ratio) * grain, top)
    found.flags.writeable = False  # everyone gets this one
    return found


@lru_cache(maxsize=64)
def _tail_grid(top: int, ratio: str) -> IntArray:
    with localcontext(Context(prec=_DIGITS)):  # decimals have the same digits on every machine
        last = Decimal(top)
        count = int(last.ln() / Decimal(ratio).ln()) + 1
        steps = {round(last ** (Decimal(step) / count)) for step in range(count + 1)}
    found: IntArray = np.array(sorted(steps), dtype=np.int64)
    found.flags.writeable = False  # everyone gets this one
    return found
