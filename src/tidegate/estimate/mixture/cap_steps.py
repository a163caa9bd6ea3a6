"""`CapSteps`: choose the cap of the next block from released sums.

θ comes from the hold-out and may be wrong later: the level rises, or begins after a long silence.
And the caps of fine trees lie below θ, which suits long tails but cuts off the bulk of values that
crowd just below θ. Both show in the released mean of a block, as a share of its cap:

    share    exponential values, cap = x·mean     what else it may be
    0.2      x = 5: a typical long tail
    0.4      x = 2.2: a tenth is cut off          values without a tail
    0.8      x = 0.5: nearly all are cut off      values in a narrow band below θ

A share that has grown since the hold-out is another sign: the tail usually grows with the level.

But neither tells a cap that cuts from values without a tail. So the cap is first made not to lie
below θ (step 1), and then tried higher: if it cut values, the mean rises with it, and the higher
cap stays; if not, it goes back, and is not tried again before the level has risen. A level that was
moving as fast without a trial tells nothing: the cap goes back and is tried later, after twice as
many blocks each time.

Everything here is computed from released sums: free, and the same for all who see them.
"""

from __future__ import annotations

from typing import ClassVar

# Shares of the cap: below the first it goes one step down, above the second it does not lie below
# θ, above the third a higher one is tried, and above the fourth two steps at once.
ROOMY, CROWDED, PRESSED, FULL = 0.25, 0.4, 0.5, 0.85
# The same if a share is this much higher than at home, the mean of the first blocks: they are the
# nearest to the hold-out, for which θ was right.
GROWN, HOME = 1.5, 6
# A trial has shown something if the mean rose by this part of what the cap rose by (an exponential
# tail that is cut at three times the mean gives as much), and by more than noise would.
RESPONSE = 0.15
_CERTAIN = 2.0  # standard errors
_PACE = 1.5  # times what the level moved by in the block before the trial
_RISEN = 1.25  # a refused trial is repeated when the level is this much higher (`_again`)


def cap_of_step(cap_step: int) -> float:
    """The cap at a step, in θ: 1 on the first two steps, then √2 times more on each."""
    if cap_step < 2:
        return 1.0
    return float(1 << (cap_step - 1) // 2) * (1.0 if cap_step % 2 else 1.4142135623730951)


def moved_cap_step(before: int, after: int) -> float:
    """Expected relative change of the level from one cap step to another."""
    return RESPONSE * abs(cap_of_step(after) / cap_of_step(before) - 1)


class CapSteps:
    """The present cap step, whether it is a trial, and the level at which a trial last failed."""

    STATE: ClassVar[tuple[str, ...]] = (
        "step", "tried", "before", "pace", "refused", "patience", "wait", "seen", "home", "weight"
    )  # fmt: skip

    def __init__(self) -> None:
        self.step = 0
        self.tried = 0  # steps that the present trial went up; 0: it is none
        self.before = 0.0  # the level of the block before
        self.pace = 0.0  # by how much that differed from the one before it
        self.refused = 0.0
        self.patience = 1  # blocks to wait after the next trial that tells nothing
        self.wait = 0  # blocks to wait now
        self.seen = 0  # blocks, up to those that are home
        self.home = 0.0  # their mean
        self.weight = 0.0  # one over its variance

    def observe(self, level: float, error: float, highest: int) -> None:
        """Take the mean of a block, in θ, and its standard error; change the step if needed."""
        doubt = _CERTAIN * error
        if self.seen < HOME:
            self._settle(level, error)
        if self.tried:
            self._judge(level, doubt)
        else:
            self.pace = abs(level - self.before)
        self.before = level
        self.wait = max(0, self.wait - 1)
        cap = cap_of_step(self.step)
        home = self.home if self.seen == HOME and self.home**2 * self.weight > 4 else 1.0
        if level + doubt < min(ROOMY, home) * cap:
            self.step = max(0, self.step - 1)
            self.refused = 0.0  # the level has fallen: what was refused says nothing any more
        elif level - doubt > min(CROWDED, GROWN * home) * cap and self.step == 0:
            self.step = min(1, highest)
        elif (
            level - doubt > min(PRESSED, GROWN * home) * cap
            and level > self._again(cap)
            and not self.wait
        ):
            self.tried = min(2 if level > FULL * cap else 1, highest - self.step)
            self.step += self.tried

    def _again(self, cap: float) -> float:
        """The level at which a failed trial is repeated.

        Higher by a quarter; but of values that crowd below the cap, no mean can show that, so it
        is a quarter of what is left up to the cap, if that is less.
        """
        return self.refused + (_RISEN - 1) * min(self.refused, max(0.0, cap - self.refused))

    def _settle(self, level: float, error: float) -> None:
        self.seen += 1
        weight = 1.0 / max(error * error, 1e-12)
        self.weight += weight
        self.home += (level - self.home) * weight / self.weight

    def _judge(self, level: float, doubt: float) -> None:
        """Decide a trial: keep the higher cap, go back, or try again later."""
        risen = level - self.before
        ratio = cap_of_step(self.step) / cap_of_step(self.step - self.tried)
        if risen <= RESPONSE * self.before * (ratio - 1):
            self.step -= self.tried
            self.refused = level
        elif risen <= max(doubt, _PACE * self.pace):
            self.step -= self.tried
            self.wait = self.patience = 2 * self.patience
        else:
            self.patience = 1
        self.tried = 0
