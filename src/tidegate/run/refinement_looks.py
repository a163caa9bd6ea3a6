"""Late looks of a refined release: whether values lie far above θ that no choice of it has seen.

A look is a window whose values pay a small part s of ε (`tidegate.stages.late_looks` says when, and
how much). At its end one bit is released: whether more than about 4/(s·ε) of its values lie above
4·θ. If not, all of ε goes to sums again. If so, the next window begins at once, whose choice can
only raise θ; and answers say that their upper end is far, until a choice has (`unseen_values`).

Privacy: a value of a look pays s·ε for the bit (`tidegate.threshold.far_values`) and at most
(1 − s)·ε to its tree, in sequence. Where the look begins follows from positions and from what was
released before, and so does 4·θ; a look that is given up, because a full cap or a risen level
begins another phase, releases no bit, and its values have paid less.
"""

from __future__ import annotations

from tidegate.run.refinement_level_phases import RefinementLevelPhases
from tidegate.run.selection_counts import SelectionCounts
from tidegate.stages.late_looks import is_look


class RefinementLooks(RefinementLevelPhases):
    """What follows a late look."""

    def _chooses(self, window: SelectionCounts | None) -> bool:
        """Whether θ is chosen at the end of the open window; None, or a late look: it is not."""
        return window is not None and not is_look(window.share)

    def _end_look(self, window: SelectionCounts) -> None:
        """A look is complete: θ stays, in a phase of its own, which tells what was found."""
        self.number, self.start = self.number + 1, self.position
        ends, due = self._latest_ends, None
        keystream = self._keys.choice(self.number, window.values, "look")
        if window.found_far(ends.above, keystream):
            self.floor = max(self.floor, ends.above)
            places = self.position - self._origin, self.warm_up_start - self._origin
            due = self._refinement.window_after_look(self._trees, *places)
        window.wipe()
        self._begin_phase(ends, due=due)
        self.prediction = self._known_follower().prediction
