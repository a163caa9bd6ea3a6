"""Right from the first values: the prototype behind docs/research/short-streams.md.

Simulation only (numpy noise of the exact law); trees, caps and the forecaster are the real ones.

    warm-up │ block │ block  │  block     │ …            one row out for each row in
    θ, sum  │ share of ε for the next θ, rest for sums   while windows are open
            └─ a leaf fills its cap: the block ends there, and a new warm-up begins
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from benchmarks.short_follower import Follower, Lengths, tree_of
from benchmarks.short_rules import Floats, Rules, Values, selected
from tidegate.perturb.adaptive.adaptive_run import consistent_noise
from tidegate.perturb.adaptive.tree_shapes import shares
from tidegate.perturb.level_scales import level_scales
from tidegate.stages import Layout, Noisy

_WATCH = (1, 4)


class Staged:
    """One run over one stream."""

    def __init__(self, horizon: int, bound: int, epsilon: float, seed: int, rules: Rules) -> None:
        self.horizon, self.bound, self.rules = horizon, bound, rules
        self.epsilon = float(epsilon)
        self.exact = Fraction(str(epsilon))
        self.seed = seed
        self.random = np.random.default_rng(seed)
        self.floor = 1.0  # θ is never lower again: a cap that was full
        self.stage = Lengths(epsilon=self.exact, horizon=horizon)
        self.truncated = min(0.01, 3.2 / (self.epsilon * horizon))
        self.follower: Follower | None = None
        self.information = 0.0  # values that chose θ, times their share of ε
        self.streak = 0.0, 0.0  # of full blocks: by how much, and the variance of that
        # A leaf that filled its cap: the cap, its mean, the level before, its length.
        self.full: tuple[float, float, float, int] | None = None
        self.events: list[tuple[str, int, int]] = []  # for looking at a run

    # -- mechanisms ------------------------------------------------------------------------------

    def laplace(self, scale: float | Fraction, count: int = 1) -> Values:
        """Discrete Laplace noise."""
        chance = -math.expm1(-1 / float(scale))
        draws = self.random.geometric(chance, (2, count))
        return draws[0] - draws[1]

    def choose(
        self, values: Values, share: Fraction, certain: float | None = None
    ) -> tuple[int, float]:
        """θ, and the quantile that it was extrapolated from."""
        return selected(
            self.rules,
            values,
            bound=self.bound,
            horizon=self.horizon,
            epsilon=self.epsilon,
            budget=float(share) * self.epsilon,
            floor=self.floor,
            random=self.random,
            certain=certain,
        )

    def charge(self, start: int, end: int, epsilon: float) -> None:
        """What values pay; `run` checks that nobody pays more than ε."""
        self.spent[start:end] += epsilon

    # -- the course of a stream ------------------------------------------------------------------

    def run(self, values: Values) -> Floats:
        """One published number for each value."""
        self.values, self.out, self.spent = values, np.zeros(values.size), np.zeros(values.size)
        size = self._warm_up_size(self.rules.warm_up)
        at = self._warm_up(0, size)
        while at < values.size:
            at = self._block(at)
        if self.spent.max() > self.epsilon * (1 + 1e-12):
            raise AssertionError("a value has paid more than epsilon")
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
        theta, quantile = self.choose(window, share)
        # A level that has grown without a tail fills its cap and is not cut: the cap was right.
        # (If the choice of it knew far more than this one does.)
        kept = False
        if self.full is not None and self.information > 4 * float(share) * count:
            kept = quantile <= rules.keep * self.full[0]
        if kept and self.full is not None:
            theta = max(self.theta, int(self.full[0]))
        (exactly,) = level_scales(theta, (1 - share) * self.exact, (Fraction(1),))
        noisy, scale = int(np.minimum(window, theta).sum()), float(exactly)
        noisy += int(self.laplace(exactly)[0])
        self.charge(at, end, float(share * self.exact + theta / exactly))
        self.events.append(("warm-up", at, theta))
        before = self.follower
        if before is None:
            self.follower = Follower(theta, self.truncated, self.stage)
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
        self.theta, self.streak = theta, (0.0, 0.0)
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
        # An exponential tail, unless the leaf itself says that more of it lay at the cap.
        capped = max(level * -math.expm1(-cap / level), min(mean, cap))
        part = min(1.0, max(0.0, (mean - old) / max(capped - old, 0.05 * cap)))
        trust = level**2 / (level**2 + 4 * doubt**2)
        return trust * part * (level - capped) * length

    def _open_window(self, at: int) -> None:
        """Values from here on pay for another choice of θ, if it will know enough more."""
        rules = self.rules
        early = at < self.horizon / 16
        share = rules.early_share if early else rules.late_share
        needed = rules.growth * self.information / float(share)
        self.window_start, self.window_end, self.window_share = at, at + math.ceil(needed), share
        last = min(self.horizon, self.origin + rules.until * self.horizon)
        self.raising = self.window_end > last
        if self.raising:  # no better choice will come, but a stream may go on growing
            self.window_share, longest = rules.lasting_share, self.horizon // 4
            if share_needed := float(self.window_share) * self.epsilon:
                length = math.ceil(rules.lasting / share_needed)
                self.window_end = at + length
                if length > longest:
                    self.window_share = Fraction(0)

    def _block(self, at: int) -> int:
        rules, follower = self.rules, self.follower
        if follower is None:
            raise AssertionError("there was no warm-up")
        longest, shortest = max(16, self.horizon // 16), max(16, self.horizon // 512)
        length = max(shortest, min(longest, at - self.origin))
        if self.values.size - at - length < shortest:
            length = self.values.size - at
        share = self.window_share
        rest = self.exact * (1 - share)
        tree = self._watchful(follower.select(rest, length, self.bound), rest)
        follower.begin(tree)
        before = follower.mean
        noise = consistent_noise(
            [
                self.laplace(scale, count)
                for scale, count in zip(tree.scales, tree.nodes, strict=True)
            ],
            tree,
        )
        price = float(sum(tree.cap / scale for scale in tree.scales))
        doubt = math.sqrt(tree.variances[-1])
        for leaf in range(tree.leaves):
            first, last = at + tree.edge(leaf), at + tree.edge(leaf + 1)
            old = follower.mean
            noisy = int(np.minimum(self.values[first:last], tree.cap).sum() + noise[leaf])
            follower.push(Noisy(np.array([noisy])), self.out[first:last])
            count = last - first
            self.charge(first, last, price)
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
        # Blocks in a row that are full, but none surely, are sure together: in shares, since the
        # The cap may have moved in between.
        full = False
        if self._is_full(measured, 0.0, tree.cap, 0.0):
            total, variance = self.streak
            total += measured / tree.cap - min(0.8, self.home * self.theta / tree.cap)
            variance += (doubt / tree.cap) ** 2
            self.streak = total, variance
            full = rules.restart and total > rules.block_sure * math.sqrt(variance)
        else:
            self.streak = 0.0, 0.0
        if full and end < self.values.size:
            self.full = tree.cap, measured, min(before, measured), length
            self.floor = min(tree.cap * rules.above_full, self.bound)
            follower.abandon()
            return self._warm_up(end, self._warm_up_size(rules.again))
        if share and end >= self.window_end:
            window = self.values[self.window_start : end]
            if self.raising:
                theta, _ = self.choose(window, share, rules.lasting_certain)
                theta = theta if theta >= rules.lasting_step * self.theta else self.theta
            else:
                theta, _ = self.choose(window, share)
            self.charge(self.window_start, end, float(share * self.exact))
            self.events.append(("chosen again", end, theta))
            if theta != self.theta or not self.raising:
                mean = max(0.0, follower.measured + 2 * follower.doubt)
                follower.rescale(theta, self.truncated)
                self.home, self.theta = mean / theta, theta
            if not self.raising:
                self.information = float(share) * window.size
            self._open_window(end)
        return end

    def _watchful(self, tree: Layout, rest: Fraction) -> Layout:
        if tree.nodes != _WATCH or not self.rules.watch:
            return tree
        leaves = 4
        while leaves < 64 and tree.length / (2 * leaves) * self.epsilon >= self.rules.watch:
            leaves *= 2
        if leaves == 4:
            return tree
        return tree_of(tree.length, (1, leaves), tree.cap, rest, shares(_WATCH), tree.cap_step)

    def _is_full(self, mean: float, doubt: float, cap: int, sure: float) -> bool:
        if cap >= self.bound:
            return False
        # Values that crowd below the cap hide their growth: above 0.8 the cap is suspect itself.
        home = min(0.8, self.home * self.theta / cap)
        grown = mean - sure * doubt > home * cap
        return grown and mean > (self.rules.full + self.rules.grown * home) * cap
