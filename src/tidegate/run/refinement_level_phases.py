"""Phases of a refined release that its released level begins: θ climbs, or a window opens.

Where most values are 0, a first θ lies at the bottom of the lattice. A choice that is to climb from
there must see 2/ε values above 0 for each factor of e, as it has to fear a θ that is far too high;
on a lattice of a million steps that is 28/ε of them, at once. Released sums do it in steps:

θ = 1 step ── level/θ = 1 % ──▶ 16 steps ── still 1 % ──▶ 256 steps ── 0.2 %: values lie below 256
                                                                       └▶ θ = 4 × 51, a window opens
"""

from __future__ import annotations

import math
from fractions import Fraction

from tidegate.estimate.mixture.outgrown_cap import level_has_moved
from tidegate.run.refinement_state import RefinementState
from tidegate.run.two_sided_caps import Ends
from tidegate.threshold.least_threshold import CLIMB

# What the phase so far must show for the next step: a least number of values that are not 0, by a
# number of standard errors of noise (at the bottom, and later), and a least part of the share of
# them that was seen before. Below MOSTLY of it a step is careful: some values lie below θ then.
BOTTOM, LATER, CLIMB_PART = (4, 3.5), (3, 2.5), 0.35
MOSTLY, CAREFUL = 0.7, 4
# θ has arrived where fewer came although MANY were expected, or fewer by FEWER standard errors.
MANY, FEWER = 40, 2.5
# After a climb: θ in means of the values that are not 0, the lowest θ of later choices in the same,
# and ε × the values that are not 0 which half of the first choice should see.
ABOVE_MEAN, LEAST_MEAN, FIRST_KNOWN = 4, 2, 15
SHRUNK = 1.5  # standard errors of a level that says nothing about what was missed
ENOUGH = 5  # ε × the values that are not 0 which the first block of a step should have
FAR = 4096  # θ leaves the bottom for this part of the bound, at least
ROOM = 0.5  # the most that `evidence` is, in horizons: such a window has a quarter of it


class RefinementLevelPhases(RefinementState):
    """Decides about θ from a block's released level. Privacy: released sums decide everything."""

    def _climbs(self, level: float, doubt: float, length: int) -> bool:
        """After a block with this level: whether θ rises, or has arrived, which begins a phase.

        At the bottom of a lattice that is finer than the data, what is not 0 lies above θ, so the
        level as a part of θ is the share of such values, and stays what it is while θ climbs below
        them. θ is hardly ever more than 64 times too high, and that for few blocks. All of ε goes
        to sums meanwhile. Privacy: caps follow from released sums of blocks before, as everywhere.
        """
        watch, top = self._watch, self._pipeline.lattice.top
        theta, share, before = watch.threshold, watch.home, watch.length
        watch.climbed(level / theta * length, doubt / theta * length, length)
        values, lowest = watch.old, before == 0
        fewest, sure = BOTTOM if lowest else LATER
        count, doubt = (part * values for part in watch.share_and_doubt)
        expected = 0.0 if lowest else share * values
        far = CLIMB if count >= MOSTLY * expected else CAREFUL
        if count >= max(fewest, sure * doubt, CLIMB_PART * expected):
            # The share among all values so far, without the last one, or noise, that ended it.
            watch.length = before + int(values)
            share = (share * before + count - max(1.0, doubt / 2)) / watch.length
            if theta == top:
                self._arrive(count / values, share, before)
            else:
                enough = int(ENOUGH / (share * float(self._trees.epsilon)))
                higher = max(far * theta, top // FAR)
                self._go_on_with(top if 2 * higher > top else higher, share, enough)
        elif not lowest and (
            expected > max(MANY, sure * doubt / CLIMB_PART)
            or _surely_fewer_at_level(count, doubt, expected, share * before)
        ):
            self._arrive(count / values, share, before)
        else:
            return False
        return True

    def _arrive(self, level: float, share: float, before: int) -> None:
        """End the climb: this share of values is not 0, and `level` is their mean as a part of θ.

        The `before` values before this phase were cut to nearly nothing. Each lost about
        share × mean, and half of the total is published now: a running sum whose error grew from
        0 to that total has the smallest error over ranges if it continues from the middle.
        """
        theta = self._watch.threshold
        mean = min(theta, max(-(-theta // CLIMB), math.ceil(theta * level / share)))
        self.floor = max(self.floor, -(-mean // LEAST_MEAN))
        # By the smaller share, if this one was too high; and so that there is room for a window.
        known = FIRST_KNOWN / (max(level, share / CLIMB) * float(self._trees.epsilon))
        self.evidence = math.ceil(min(16 * known, ROOM * self._trees.horizon))
        found = min(theta, ABOVE_MEAN * mean)
        # A level that noise alone may have given says nothing about what was missed.
        doubt = SHRUNK * self._watch.share_and_doubt[1]
        trust = max(0.0, 1.0 - (doubt / level) ** 2) if level > 0 else 0.0
        self._known_follower().publish_later(trust * share * mean * before / 2)
        self._go_on_with(found, max(0.0, level) * theta / found)

    def _go_on_with(self, theta: int, share: float, ahead: int = 0) -> None:
        """Continue with another θ and short blocks; `share` is the expected level as a part of θ.

        `ahead`: make blocks as long as if this many values had come with this θ.
        """
        self.number, self.start = self.number + 1, self.position
        self.warm_up_start = max(self._origin, self.position - ahead)
        follower = self._known_follower()
        follower.rescale(theta)
        follower.expect_level(share)
        self._watch.settle(share * theta, theta)
        self._watch.old = 0.0
        self._begin_phase(Ends(theta))
        self.prediction = follower.prediction

    def _due_at_level(self, level: float, doubt: float) -> tuple[int, Fraction] | None:
        """A block had this level: the window that is due if it has moved so far; None: none is."""
        ends, lattice = self._latest_ends, self._pipeline.lattice
        full = ends.above >= lattice.top and ends.below >= lattice.bottom
        floor = self._floor_watch if self._signed else None
        if full or not level_has_moved(self._watch, floor, level, doubt):
            return None
        places = self.position - self._origin, self.warm_up_start - self._origin
        return self._refinement.window_again(self._trees.horizon, *places, self.evidence)

    def _opens_window(self, level: float, doubt: float) -> bool:
        """After a block with this level: whether it moved far enough to open a window.

        In a phase of its own; its choice can only raise θ. Privacy: released sums decide.
        """
        ends, due = self._latest_ends, self._due_at_level(level, doubt)
        if due is None:
            return False
        self.floor = max(self.floor, ends.above)
        self.least_below = max(self.least_below, ends.below)
        self.number, self.start = self.number + 1, self.position
        self._begin_phase(ends, due=due)
        self.prediction = self._known_follower().prediction
        return True

    def _hidden(self, mean: float, doubt: float) -> int:
        """What the leaf that outgrew its cap is estimated to have lost, in units."""
        if self.fell:
            return -math.floor(self._floor_watch.missing(-mean, doubt) + 0.5)
        return math.floor(self._watch.missing(mean, doubt) + 0.5)

    def _positive(self, level: float) -> float | None:
        """A lower bound of the share of values above 0. None: values below 0 hide it.

        A mean of capped values, as a part of their cap, is at most that share.
        """
        return None if self._signed else min(1.0, max(0.0, level / self._watch.threshold))


def _surely_fewer_at_level(count: float, doubt: float, expected: float, seen: float) -> bool:
    """Whether a count with this standard error is significantly less than expected.

    The expectation comes from `seen` observed events, so it is uncertain, too.
    """
    spread = math.sqrt(doubt * doubt + expected + expected * expected / max(1.0, seen))
    return count < CLIMB_PART * expected and expected - count > FEWER * spread
