"""Phases of a refined release that the released level begins: θ climbs, or a window opens.

Where most values are 0, a first θ lies at the bottom of the lattice. A choice that is to climb from
there must see 2/ε values above 0 for each factor of e, as it has to fear a θ that is far too high;
on a lattice of a million steps that is 28/ε of them, at once. Released sums do it in steps:

θ = 1 step ── level/θ = 1 % ──▶ 16 steps ── still 1 % ──▶ 256 steps ── 0.2 %: values lie below 256
                                                                       └▶ θ = 4 × 51, a window opens
"""

from __future__ import annotations

import math

from tidegate.estimate.mixture.outgrown_cap import level_has_moved
from tidegate.run.refinement_state import LOWEST, RefinementState
from tidegate.run.two_sided_caps import Ends

CLIMB = 16  # the factor by which θ climbs at a time
# What a level must be for the next step: so many standard errors, of so many values that are not 0,
# and this part of the share that was seen before. Far fewer than this part: values lie below θ.
CLIMB_SURE, CLIMB_COUNT, BELOW_PART = 2.5, 2, 0.25
FEW = 4  # values that should be seen above θ before it is said that most lie below it
# After a climb: θ in means of the values that are not 0, the lowest θ of later choices in the same,
# and ε × the values that are not 0 which half of the first choice should see.
ABOVE_MEAN, LEAST_MEAN, FIRST_KNOWN = 4, 2, 15


class RefinementLevelPhases(RefinementState):
    """What a block's released level says about θ. Privacy: released sums decide all of it."""

    def _climbs(self, level: float, doubt: float, length: int) -> bool:
        """A block had this level: whether θ is raised, or has arrived, in a phase of its own.

        At the bottom of a lattice that is finer than the data, what is not 0 lies above θ, so the
        level as a part of θ is the share of such values, and stays what it is while θ climbs below
        them. No θ is more than 16 times too high, and that for few blocks. All of ε goes to sums
        meanwhile. Privacy: caps follow from released sums of blocks before, as everywhere.
        """
        watch, top = self._watch, self._pipeline.lattice.top
        theta, share, lowest = watch.threshold, watch.home, watch.threshold <= LOWEST
        level, doubt = level / theta, doubt / theta
        seen = level >= max(CLIMB_SURE * doubt, CLIMB_COUNT / length)
        if seen and (lowest or level >= BELOW_PART * share):
            surely = level * (1 - 1 / math.sqrt(level * length))  # chance has lifted it, mostly
            share = surely if lowest else (share + surely) / 2
            if theta == top:
                self._arrive(level, share)
            else:
                self._go_on_with(min(top, CLIMB * theta), share)
            return True
        if lowest or max(CLIMB_SURE * doubt, FEW / length) > BELOW_PART * share:
            return False
        self._arrive(level, share)
        return True

    def _arrive(self, level: float, share: float) -> None:
        """The values that are not 0, this share of all, have this level as a part of θ."""
        theta = self._watch.threshold
        mean = min(theta, max(-(-theta // CLIMB), math.ceil(theta * level / share)))
        self.floor = max(self.floor, -(-mean // LEAST_MEAN))
        self.evidence = math.ceil(16 * FIRST_KNOWN / (share * float(self._trees.epsilon)))
        found = min(theta, ABOVE_MEAN * mean)
        self._go_on_with(found, max(0.0, level) * theta / found)

    def _go_on_with(self, theta: int, share: float) -> None:
        """Another θ, of which the level should be this part; blocks begin short again."""
        self.number, self.start = self.number + 1, self.position
        self.warm_up_start = self.position
        follower = self._known_follower()
        follower.rescale(theta)
        follower.expect_level(share)
        self._watch.settle(share * theta, theta)
        self._begin_phase(Ends(theta))
        self.prediction = follower.prediction

    def _opens_window(self, level: float, doubt: float) -> bool:
        """A block had this level: whether it has moved so far that a window opens.

        In a phase of its own; its choice can only raise θ. Privacy: released sums decide.
        """
        ends, lattice = self._latest_ends, self._pipeline.lattice
        full = ends.above >= lattice.top and ends.below >= lattice.bottom
        floor = self._floor_watch if self._signed else None
        if full or not level_has_moved(self._watch, floor, level, doubt):
            return False
        places = self.position - self._origin, self.warm_up_start - self._origin
        due = self._refinement.window_again(self._trees.horizon, *places, self.evidence)
        if due is None:
            return False
        self.floor = max(self.floor, ends.above)
        self.least_below = max(self.least_below, ends.below)
        self.number, self.start = self.number + 1, self.position
        self._begin_phase(ends, due=due)
        self.prediction = self._known_follower().prediction
        return True

    def _positive(self, level: float) -> float | None:
        """The share of values that surely lie above 0; None: values below 0 hide it.

        A mean of capped values, as a part of their cap, is at most that share.
        """
        return None if self._signed else min(1.0, max(0.0, level / self._watch.threshold))
