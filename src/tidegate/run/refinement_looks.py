"""Late looks of a refined release: whether values lie far above θ that no choice of it has seen.

A look is a window whose values pay a small part s of ε (`tidegate.stages.late_looks` says when, and
how much). At its end, or where the level has risen, one bit is released: whether more than about
4/(s·ε) of its values lie above 4·θ. If not, all of ε goes to sums again, in the same phase. If so,
another phase begins, with a window whose choice can only raise θ; and answers reach further
(`tidegate.record.unseen_by_look`).

Privacy: a value of a look pays s·ε for the bit (`tidegate.threshold.far_values`) and at most
(1 − s)·ε to its tree, in sequence. Where the look begins follows from positions and from what was
released before, and so does 4·θ; so does where it ends, if a level that has risen ends it. A look
that a full cap cuts short releases no bit, and its values have paid less.
"""

from __future__ import annotations

from tidegate.run.refinement_level_phases import RefinementLevelPhases
from tidegate.run.selection_counts import SelectionCounts


class RefinementLooks(RefinementLevelPhases):
    """What follows a late look."""

    def _opens_window(self, level: float, doubt: float) -> bool:
        """The same in a look, which ends then: if it finds something, another window opens."""
        look = self.open_blocks.window
        if look is not None and self._due_at_level(level, doubt) and self._look_finds(look):
            return True
        return super()._opens_window(level, doubt)

    def _look_finds(self, window: SelectionCounts) -> bool:
        """A look is complete: whether it finds values far above θ, so that another phase begins.

        If not, all of ε goes to the sums of what follows in this phase.
        """
        ends, number = self._latest_ends, self.number + 1
        keystream = self._keys.choice(number, window.values, "look")
        found = window.found_far(ends.above, keystream)
        window.wipe()
        if not found:
            self._blocks = self._measuring(ends, None)
            return False
        self.number, self.start = number, self.position
        self.floor = max(self.floor, ends.above)
        places = self.position - self._origin, self.warm_up_start - self._origin
        self._begin_phase(ends, due=self._refinement.window_after_look(self._trees, *places))
        self.prediction = self._known_follower().prediction
        return True
