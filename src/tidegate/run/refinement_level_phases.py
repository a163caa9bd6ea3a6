"""Phases of a refined release that the released level begins: θ climbs, or a window opens."""

from __future__ import annotations

import math

from tidegate.estimate.mixture.outgrown_cap import level_has_moved
from tidegate.run.refinement_state import LOWEST, RefinementState
from tidegate.run.two_sided_caps import Ends

CLIMB = 16  # the factor by which θ climbs at a time
# Standard errors by which a level must lie above 0 to say that there are values to climb to; and
# the part of the expected level below which most of them lie below θ.
CLIMB_SURE, BELOW_PART, FEW = 2.5, 0.25, 4
# How much the values that are not 0 know together of the choice that follows, ε × values.
FIRST_KNOWN = 15
ABOVE_MEAN = 4  # θ after a climb, in means of the values that are not 0


class RefinementLevelPhases(RefinementState):
    """What a block's released level says about θ. Privacy: released sums decide all of it."""

    def _climbs(self, level: float, doubt: float, length: int) -> bool:
        """A block had this level: whether θ is raised, or has arrived, in a phase of its own.

        At the bottom of a lattice that is finer than the data, what is not 0 lies above θ, so the
        level as a part of θ is the share of such values, and stays what it is while θ climbs below
        them. It takes 4/ε of them to see that; a choice would need more than 2/ε for each factor of
        e, since it must fear a θ that is far too high. Here no θ is more than 16 times too high.
        """
        follower, watch, top = self._known_follower(), self._watch, self._pipeline.lattice.top
        theta, share = watch.threshold, watch.home
        level, doubt = level / theta, doubt / theta
        count = level * length
        seen = level * (1 - 1 / math.sqrt(count)) if count >= 1 else 0.0  # chance has lifted it
        if count < 2 or level < CLIMB_SURE * doubt or (theta > LOWEST and level < BELOW_PART * share):
            if theta <= LOWEST or max(CLIMB_SURE * doubt, FEW / length) > BELOW_PART * share:
                return False
            arrived = True
        else:
            share, arrived = seen if theta <= LOWEST else (share + seen) / 2, theta == top
        if not arrived:
            theta = min(top, CLIMB * theta)
        else:
            least = -(-theta // CLIMB)
            known = FIRST_KNOWN / (share * float(self._trees.epsilon))
            self.evidence = math.ceil(16 * known)
            mean = min(theta, max(least, math.ceil(theta * level / share)))
            theta = min(theta, ABOVE_MEAN * mean)
            self.floor = max(self.floor, -(-mean // 2))
            share = max(0.0, level) * watch.threshold / theta
        self.number, self.start = self.number + 1, self.position
        self.warm_up_start = self.position
        follower.rescale(theta)
        follower.expect_level(share)
        watch.settle(share * theta, theta)
        self._begin_phase(Ends(theta))
        self.prediction = follower.prediction
        return True

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
