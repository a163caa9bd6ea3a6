"""Right from the first values: the prototype behind docs/research/short-streams.md.

Simulation only (numpy noise of the exact law); trees, caps and the forecaster are the real ones.

    warm-up │ block │ block  │  block     │ …            one row out for each row in
    θ, sum  │ share of ε for the next θ, rest for sums   while windows are open
            └─ a leaf fills its cap: the block ends there, and a new warm-up begins
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tidegate.forecast import costs
from tidegate.forecast.beliefs import LEVEL, SUM, mixed
from tidegate.forecast.ladder import Ladder, moved
from tidegate.forecast.mixture import MixtureRun
from tidegate.forecast.noise_path import noise_path
from tidegate.guided import Tree
from tidegate.lattice import Lattice
from tidegate.noise import discrete_laplace
from tidegate.perturb.adaptive import AdaptiveTrees
from tidegate.perturb.adaptive_run import consistent_noise
from tidegate.perturb.budget import level_scales
from tidegate.perturb.trees import BLIND, RANGE_ERROR, cap_factor, shares
from tidegate.randomness import KeystreamWords, seeded
from tidegate.stages import Noisy
from tidegate.threshold import TailQuantile

Values = NDArray[np.int64]
Floats = NDArray[np.float64]
_SHAPES = tuple(shape for shape in RANGE_ERROR if shape != BLIND)
_WATCH = (1, 4)
_GRAIN = Fraction(1, 64)


@dataclass(frozen=True)
class Rules:
    """The constants that were tried."""

    warm_up: float = 5.0  # values, in (horizon/ε²)^⅓
    longest: float = 1 / 4  # of the horizon
    warm_share: Fraction = Fraction(3, 4)  # of ε, for the choice of θ in a warm-up
    wanted: float = 25.0  # values of the horizon above θ, in 1/ε
    certain: float = 3.0  # the least count above θ to be aimed at, in 1/(the selection's ε)
    most: float = 0.25  # the highest, as a share of the window
    kink: bool = True  # counts below the one aimed at are all as good
    price: float = 1.0  # of a factor e in θ, in counts aimed at
    affordable: float = 0.5  # the price of the bound, in values of the window
    tail: float = 5.0  # index by which θ is extrapolated
    inertia: float = 0.0  # price of a factor e away from the present θ, in 1/(the selection's ε)
    ratios: tuple[tuple[float, float], ...] = ((100.0, 1.25), (30.0, 1.5), (0.0, 2.0))
    growth: float = 2.0  # of information from one choice to the next
    early_share: Fraction = Fraction(1, 2)  # of ε for the next θ, in the first sixteenth
    late_share: Fraction = Fraction(1, 4)  # later
    until: float = 1 / 3  # windows are open up to here, as a part of the horizon
    restart: bool = True
    full: float = 0.45  # share of its cap at which a leaf is full
    grown: float = 0.5  # and more by this part of the share at home
    again: float = 5.0  # the same for a later warm-up
    sure: float = 6.0  # standard errors of a leaf
    block_sure: float = 3.0  # of a whole block: there are fewer of them
    above_full: float = 1.0  # the lowest θ after a full cap, in caps
    keep: float = 1.2  # a cap is kept if the quantile seen after it was full is below this
    again_share: Fraction = Fraction(1, 2)  # of ε, for the choice of θ in a later warm-up
    backfill: bool = True
    watch: float = 256.0  # values of a watched leaf, times ε; 0: four leaves
    centred: bool = False  # after the warm-up the running sum is right for ranges, not for totals
    near: float = 1 / 16


class _Stage(AdaptiveTrees):
    """Lengths for the table of costs."""

    def lengths(self, chunk: int) -> tuple[int, ...]:
        longest = max(16, self.horizon // 16)
        return tuple(sorted({max(16, longest >> k) for k in range(6)}))


class _Follower(MixtureRun):
    """The forecaster, with a θ that may change."""

    def rescale(self, threshold: int, truncated: float) -> None:
        ratio = self._threshold / threshold
        table = self._beliefs.table
        table[:, :-1] *= ratio * ratio
        table[:, -1] *= ratio
        self._threshold, self._truncated = threshold, truncated * threshold
        self._ladder = Ladder()
        self.measured = 0.0

    def select(self, epsilon: Fraction, length: int, ceiling: int) -> Tree:
        """The tree that measures a block of this length."""
        ladder, before = self._ladder, self._ladder.rung
        highest = max(0, math.ceil(2 * math.log2(ceiling / self._threshold)) + 1)
        if self.measured:
            ladder.observe(self.measured / self._threshold, self.doubt / self._threshold, highest)
        if ladder.rung != before:
            self._beliefs.unsettle(moved(before, ladder.rung))
        ladder.rung = min(ladder.rung, highest)
        options = _trees(epsilon, length, self._threshold, ceiling, ladder.rung)
        if len(options) == 1:
            return options[0]
        known = self._perturber.lengths(0)
        near = min(known, key=lambda one: abs(math.log(one / length)))
        table = costs.tree_costs(self._perturber, 1 << 20, near, age=self.age)
        expected = [mixed(self._weights, table[option.nodes].tolist()) for option in options]
        return options[expected.index(min(expected))]

    def abandon(self) -> None:
        """The open block ends here."""
        self._cells = None
        self.total = self.filled = self._width = self.room = 0
        self.measured = 0.0

    def at_once(self, count: int, noisy: float, variance: float, centred: bool) -> float:
        """`count` values had this sum, of which nothing was known: how the running sum moves."""
        beliefs, threshold = self._beliefs, self._threshold
        leaf = noise_path(BLIND, [variance / threshold**2])[0]
        beliefs.open_leaf(leaf)
        beliefs.fade(count / (self.age + count))
        beliefs.advance(self._moving(count))
        beliefs.measure(leaf, noisy / threshold)
        self._weights = beliefs.weights()
        if centred:
            beliefs.table[SUM] *= 0.5
            beliefs.table[:, SUM] *= 0.5
        whole = math.floor(beliefs.running(self._weights) * threshold + 0.5)
        beliefs.count_from(whole / threshold)
        self.age = min(self.age + count, self._perturber.horizon)
        return whole

    def forget_level(self, mean: float, variance: float) -> None:
        beliefs = self._beliefs
        beliefs.table[LEVEL] = 0.0
        beliefs.table[:, LEVEL] = 0.0
        beliefs.mean[LEVEL] = mean
        beliefs.covariance[LEVEL, LEVEL] = variance

    @property
    def level(self) -> float:
        levels = self._beliefs.mean[LEVEL].tolist()
        return mixed(self._weights, levels) * self._threshold


@lru_cache(maxsize=64)
def _grid(bound: int, ratio: float) -> Values:
    steps = int(math.log(bound) / math.log(ratio)) + 1
    return np.unique(np.rint(bound ** (np.arange(steps + 1) / steps))).astype(np.int64)


def _counted(ordered: Values, grid: Values, near: float) -> Floats:
    """Values above each of the grid; those hardly above it count in part."""
    sums = np.concatenate(([0], np.cumsum(ordered)))
    first = np.searchsorted(ordered, grid, side="right")
    last = np.searchsorted(ordered, grid * (1 + near), side="right")
    between = (sums[last] - sums[first] - grid * (last - first)) / (near * grid)
    return between + ordered.size - last


def _trees(epsilon: Fraction, length: int, threshold: int, ceiling: int, rung: int) -> list[Tree]:
    """As `all_trees`, for one rung and with variances in floats: quick."""
    found = []
    for shape in [shape for shape in _SHAPES if shape[-1] <= length] or [BLIND]:
        cap = min(ceiling, max(1, round(threshold * cap_factor(shape, rung))))
        found.append(_tree(length, shape, cap, epsilon, shares(shape), rung))
    return found


def _tree(
    length: int,
    shape: tuple[int, ...],
    cap: int,
    epsilon: Fraction,
    parts: tuple[Fraction, ...],
    rung: int,
) -> Tree:
    scales = level_scales(cap, epsilon, parts)
    variances = tuple(2 * float(scale) ** 2 for scale in scales)
    return Tree(length, shape, cap, scales, variances, rung=rung)


class Staged:
    """One run over one stream."""

    def __init__(self, horizon: int, bound: int, epsilon: float, seed: int, rules: Rules) -> None:
        self.horizon, self.bound, self.rules = horizon, bound, rules
        self.epsilon = float(epsilon)
        self.exact = Fraction(str(epsilon))
        self.seed = seed
        self.random = np.random.default_rng(seed)
        self.floor = 1.0  # θ is never lower again: a cap that was full
        self.stage = _Stage(epsilon=self.exact, horizon=horizon)
        self.truncated = min(0.01, 3.2 / (self.epsilon * horizon))
        self.follower: _Follower | None = None
        self.events: list[tuple[str, int, int]] = []  # for looking at a run

    # -- mechanisms ------------------------------------------------------------------------------

    def laplace(self, scale: float | Fraction, count: int = 1) -> Values:
        chance = -math.expm1(-1 / float(scale))
        draws = self.random.geometric(chance, (2, count))
        return draws[0] - draws[1]

    def choose(
        self, values: Values, share: Fraction, floor: float, present: int | None = None
    ) -> int:
        """θ by permute-and-flip (the best after exponential noise has the same law)."""
        rules = self.rules
        budget = float(share) * self.epsilon
        information = budget * values.size
        ratio = next(ratio for least, ratio in rules.ratios if information >= least)
        grid = _grid(self.bound, ratio)
        wanted = rules.wanted * values.size / self.horizon / self.epsilon
        count = min(max(wanted, rules.certain / budget), rules.most * values.size)
        beyond = max(1.0, count / wanted) ** (1 / rules.tail)
        grid = grid[grid >= min(floor / beyond, self.bound)]
        # The smallest candidate, which everything exceeds, must never look cheap.
        affordable = rules.affordable * (values.size - count) / math.log(max(2, self.bound))
        price = min(rules.price * count, max(rules.certain / budget, affordable))
        above = _counted(np.sort(values), grid, rules.near)
        scores = -np.maximum(above, count if rules.kink else 0.0) - price * np.log(grid)
        if rules.inertia and present is not None:
            scores -= rules.inertia / budget * np.abs(np.log(grid * beyond / present))
        noise = self.random.exponential(1 / budget, grid.size)
        chosen = float(grid[np.argmax(scores + noise)])
        self.quantile = chosen  # before it was extrapolated
        return max(1, min(self.bound, round(chosen * beyond)))

    # -- the course of a stream ------------------------------------------------------------------

    def run(self, values: Values) -> Floats:
        self.values, self.out = values, np.zeros(values.size)
        size = self._warm_up_size(self.rules.warm_up)
        at = self._warm_up(0, size)
        while at < values.size:
            at = self._block(at)
        return self.out

    def _warm_up_size(self, constant: float) -> int:
        longest = max(8, int(self.horizon * self.rules.longest))
        size = math.ceil(constant * (self.horizon / self.epsilon**2) ** (1 / 3))
        return max(8, min(longest, size))

    def _warm_up(self, at: int, size: int) -> int:
        rules = self.rules
        end = min(at + size, self.values.size)
        window, count = self.values[at:end], end - at
        share = rules.warm_share if self.follower is None else rules.again_share
        theta = self.choose(window, share, self.floor)
        # A level that has grown without a tail fills its cap and is not cut: the cap was right.
        # (If the choice of it knew far more than this one does.)
        kept = False
        if self.full is not None and self.information > 4 * float(share) * count:
            kept = self.quantile <= rules.keep * self.full[0]
        if kept and self.full is not None:
            theta = max(self.theta, int(self.full[0]))
        (exactly,) = level_scales(theta, (1 - share) * self.exact, (Fraction(1),))
        noisy, scale = int(np.minimum(window, theta).sum()), float(exactly)
        noisy += int(self.laplace(exactly)[0])
        self.events.append(("warm-up", at, theta))
        before = self.follower
        if before is None:
            self.follower = _Follower(theta, self.truncated, self.stage)
            self.out[at:end] = 0.0
            jump = self.follower.at_once(count, noisy, 2 * scale**2, rules.centred)
            extra = 0.0
        else:
            prediction = before.prediction
            before.rescale(theta, self.truncated)
            before.forget_level(0.2, 0.1)
            self.out[at:end] = prediction
            jump = before.at_once(count, noisy, 2 * scale**2, False)
            extra = 0.0 if kept else self._missing(noisy / count, math.sqrt(2) * scale / count)
        self.out[end - 1] += jump + extra - self.out[at:end].sum()
        self.theta = theta
        # With what it may be wrong by: a level that only seems to have grown starts nothing.
        self.home = max(0.0, noisy + 2 * math.sqrt(2) * scale) / count / theta
        if not kept:
            self.origin, self.information = at, float(share) * count
        self._open_window(end)
        return end

    def _missing(self, level: float, doubt: float) -> float:
        """What a full leaf hid, if it was like what came after it."""
        if not self.rules.backfill or self.full is None:
            return 0.0
        cap, mean, old, length = self.full
        if level <= cap * 0.5:
            return 0.0
        capped = level * -math.expm1(-cap / level)
        part = min(1.0, max(0.0, (mean - old) / max(capped - old, 0.05 * cap)))
        trust = level**2 / (level**2 + 4 * doubt**2)
        return trust * part * (level - capped) * length

    quantile = information = 0.0

    def _open_window(self, at: int) -> None:
        """Values from here on pay for another choice of θ, if it will know enough more."""
        rules = self.rules
        early = at < self.horizon / 16
        share = rules.early_share if early else rules.late_share
        needed = rules.growth * self.information / float(share)
        self.window_start, self.window_end, self.window_share = at, at + math.ceil(needed), share
        last = min(self.horizon, self.origin + rules.until * self.horizon)
        if self.window_end > last:
            self.window_share = Fraction(0)

    def _block(self, at: int) -> int:
        rules, follower = self.rules, self.follower
        assert follower is not None
        longest, shortest = max(16, self.horizon // 16), max(16, self.horizon // 512)
        length = max(shortest, min(longest, at - self.origin))
        if self.values.size - at - length < shortest:
            length = self.values.size - at
        share = self.window_share
        rest = self.exact * (1 - share)
        tree = self._watchful(follower.select(rest, length, self.bound), rest)
        follower.begin(tree)
        before = follower.level
        noise = consistent_noise(
            [
                self.laplace(scale, count)
                for scale, count in zip(tree.scales, tree.nodes, strict=True)
            ],
            tree,
        )
        doubt = math.sqrt(tree.variances[-1])
        for leaf in range(tree.leaves):
            first, last = at + tree.edge(leaf), at + tree.edge(leaf + 1)
            old = follower.level
            noisy = int(np.minimum(self.values[first:last], tree.cap).sum() + noise[leaf])
            follower.push(Noisy(np.array([noisy])), self.out[first:last])
            count = last - first
            if rules.restart and self._is_full(noisy / count, doubt / count, tree.cap, rules.sure):
                self.floor = min(tree.cap * rules.above_full, self.bound)
                self.full = tree.cap, noisy / count, min(old, noisy / count), count
                if leaf + 1 < tree.leaves:
                    follower.abandon()
                if last < self.values.size:
                    return self._warm_up(last, self._warm_up_size(rules.again))
                return last
        end = at + length
        measured, doubt = follower.measured, follower.doubt
        full = rules.restart and self._is_full(measured, doubt, tree.cap, rules.block_sure)
        if full and end < self.values.size:
            self.full = tree.cap, measured, min(before, measured), length
            self.floor = min(tree.cap * rules.above_full, self.bound)
            follower.abandon()
            return self._warm_up(end, self._warm_up_size(rules.again))
        if share and end >= self.window_end:
            window = self.values[self.window_start : end]
            theta = self.choose(window, share, self.floor, self.theta)
            self.events.append(("chosen again", end, theta))
            mean = max(0.0, follower.measured + 2 * follower.doubt)
            follower.rescale(theta, self.truncated)
            self.home = max(0.0, mean / theta)
            self.theta = theta
            self.information = float(share) * window.size
            self._open_window(end)
        return end

    full: tuple[float, float, float, int] | None = None

    def _watchful(self, tree: Tree, rest: Fraction) -> Tree:
        if tree.nodes != _WATCH or not self.rules.watch:
            return tree
        leaves = 4
        while leaves < 64 and tree.length / (2 * leaves) * self.epsilon >= self.rules.watch:
            leaves *= 2
        if leaves == 4:
            return tree
        return _tree(tree.length, (1, leaves), tree.cap, rest, shares(_WATCH), tree.rung)

    def _is_full(self, mean: float, doubt: float, cap: int, sure: float) -> bool:
        if cap >= self.bound:
            return False
        # Values that crowd below the cap hide their growth: above 0.8 the cap is suspect itself.
        home = min(0.8, self.home * self.theta / cap)
        grown = mean - sure * doubt > home * cap
        return grown and mean > (self.rules.full + self.rules.grown * home) * cap


class Exact(Staged):
    """The same with the real mechanisms: `TailQuantile`, exact noise, exact scales."""

    def __init__(self, horizon: int, bound: int, epsilon: float, seed: int, rules: Rules) -> None:
        super().__init__(horizon, bound, epsilon, seed, rules)
        self.keystream = seeded(seed).new_epoch().keystream("prototype", b"")
        self.drawn = 0

    def _words(self) -> KeystreamWords:
        self.drawn += 1
        return self.keystream.at(chunk=self.drawn)

    def laplace(self, scale: float | Fraction, count: int = 1) -> Values:
        return discrete_laplace(self._words(), count, Fraction(scale))

    def choose(
        self, values: Values, share: Fraction, floor: float, present: int | None = None
    ) -> int:
        stage = TailQuantile(
            epsilon=share * self.exact,
            bound=self.bound,
            holdout=values.size,
            horizon=self.horizon,
            stream_epsilon=self.exact,
        )
        self.drawn += 1
        lattice = Lattice(Fraction(self.bound), Fraction(1))
        child = seeded(self.drawn * 1000 + self.seed).new_epoch().keystream("threshold", b"")
        theta = stage.choose(values, lattice, child, at_least=math.ceil(floor))
        self.quantile = theta / float(stage.extrapolation)
        return theta


def strategy(
    rules: Rules, kind: type[Staged] = Staged
) -> Callable[[Values, int, float, int], Floats]:
    """A strategy for `benchmarks.short_streams`."""

    def release(values: Values, bound: int, epsilon: float, seed: int) -> Floats:
        return kind(values.size, bound, epsilon, seed, rules).run(values)

    return release


BASE = Rules()
STRATEGIES = {
    "staged": strategy(BASE),
    "exact": strategy(BASE, Exact),
    "centred": strategy(replace(BASE, centred=True)),
    "no restart": strategy(replace(BASE, restart=False)),
    "no windows": strategy(replace(BASE, until=0.0)),
    "no watch": strategy(replace(BASE, watch=0.0)),
    "no backfill": strategy(replace(BASE, backfill=False)),
}
