"""A release without a hold-out: the warm-up is released, and θ is refined as values come.

|-- warm-up --|- block -|--- block ---|----- block -----| …        ε of each value goes to
  3/4 θ, 1/4    1/2 next θ (window 1)   1/4 (window 2)     none      choice of θ │ noisy sums
  their sum     1/2 sums                3/4 sums           all sums
                                  └─ a leaf fills its cap: the block ends here, a new warm-up begins
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import ClassVar

from tidegate.errors import SettingError
from tidegate.estimate import Mixture
from tidegate.guarantee import Guarantee, parallel, sequential
from tidegate.lattice import Lattice
from tidegate.perturb import AdaptiveTrees
from tidegate.perturb.adaptive.staged import StagedTrees, block_length
from tidegate.settings import Flag, Spec
from tidegate.stages import Estimator, Perturber, Threshold
from tidegate.threshold import TailQuantile

__all__ = ["Refinement"]  # what settings can name

WARM_SHARE = Fraction(3, 4)  # of ε, for the first choice of θ; the sum gets the rest
AGAIN_SHARE = Fraction(1, 2)  # the same for a later warm-up: what is known by then helps
EARLY_SHARE, LATE_SHARE = Fraction(1, 2), Fraction(1, 4)  # of ε, for the next choice of θ
EARLY = Fraction(1, 16)  # of the horizon: noise that is made there is cheap
UNTIL = Fraction(1, 3)  # of the horizon: windows are open up to here
GROWTH = 2  # a choice is made again if it knows this many times as much (share × values)
KEEP = Fraction(6, 5)  # a cap that was full stays if what follows lies below this many caps
_LENGTH = 5  # of the warm-up, in (horizon/ε²)^⅓
_LEAST = 8
# ε × values that θ needs to climb by a factor of e: a little more than its price.
_CLIMB = Decimal("3.5")
_HIGHEST = 128  # lattice steps: a bound that is far away must not decide


def warm_up_length(epsilon: Fraction, horizon: int) -> int:
    """5·(n/ε²)^⅓ values, at most a quarter of the horizon n: public settings decide.

    Zeros for m values of mean 0.2 θ add about 0.03·m³/n·θ² to the error of ranges, and the trees 12
    to 40·θ²/ε². So the hole that the warm-up leaves does not matter up to m ≈ 11·(n/ε²)^⅓.

    >>> warm_up_length(Fraction(1, 10), 1024), warm_up_length(Fraction(1), 65536)
    (234, 202)
    """
    cube = _LENGTH**3 * horizon / epsilon**2
    found: int = max(1, round(float(cube) ** (1 / 3)))
    while found**3 < cube:  # the float proposes, integers decide
        found += 1
    while (found - 1) ** 3 >= cube:
        found -= 1
    longest = max(_LEAST, math.floor(horizon * Fraction(1, 4)))
    return max(_LEAST, min(longest, found))


def least_threshold(choice: TailQuantile, lattice: Lattice) -> int:
    """The least θ that a first choice may give, in lattice units.

    bound/exp(ε·values/3.5), and at most 128.

    A θ that is e times larger is charged 3/ε values of the warm-up, so with few of them θ cannot
    climb far, and would stay at one lattice step: a small sum that is sure of itself. It starts
    where it can get away from instead. The bound is public, and so is this; a θ that is too high
    costs noise, which intervals show. Later choices know more and may go below it.
    """
    with localcontext(Context(prec=30)):
        steps = (Decimal(float(choice.epsilon * choice.holdout)) / _CLIMB).exp()
        return max(1, min(_HIGHEST, math.floor(lattice.top / min(steps, Decimal(lattice.top)))))


@dataclass(frozen=True, kw_only=True, repr=False)
class Refinement(Spec):
    """Release the warm-up too, and choose the threshold again while that pays.

    Guarantee: ε per event, the largest sum over the kinds of pieces that a value can belong to.

    - A value of a *warm-up* pays s·ε for the choice of θ (`TailQuantile`) and at most (1 − s)·ε for
      the one noisy sum of min(v, θ), whose cap is the outcome of the choice: in sequence.
    - A value of a *block* pays Σ cap/scale ≤ (1 − s)·ε to its tree and, if a window is open, s·ε to
      the one choice at the end of the window; s = 0 where none is open.

    Which piece a value belongs to, and its share s, cap and tree, follow from its position and from
    what was released before the piece began; where a piece ends follows from what it has released
    itself (a leaf that fills its cap). Take two streams that differ in one value and multiply the
    conditional probabilities of all that is released, in order. Factors before the piece of that
    value are equal. The piece's own is within e^((1−s)·ε) for sums: think of its whole tree being
    drawn; publishing leaves up to one that the published leaves decide is post-processing. Later
    pieces read other values and have equal factors, but for the choice that this piece pays for,
    which reads the value once, within e^(s·ε). A window that a full cap cuts short makes no choice.
    All else is a function of released data: forecasts, the tests for full caps, the lowest θ
    that is allowed after one, and what a full leaf is thought to have hidden.

    Args:
        windows: let values of the first third of the horizon pay for better choices of θ.
        restarts: begin a new warm-up when a released sum shows that values outgrew their cap.
    """

    KIND: ClassVar[str] = "refinement.Refinement"

    windows: Flag = Flag(default=True)
    restarts: Flag = Flag(default=True)

    def check(self, threshold: Threshold, perturber: Perturber, estimator: Estimator) -> None:
        """Refuse stages that cannot be refined."""
        if not isinstance(threshold, TailQuantile):
            raise SettingError("threshold", "must be a threshold.TailQuantile to be refined")
        if not isinstance(perturber, AdaptiveTrees) or not isinstance(estimator, Mixture):
            stages = "perturb.AdaptiveTrees and estimate.Mixture"
            raise SettingError("reselect", f"refines {stages} only")
        if threshold.epsilon >= perturber.epsilon:
            raise SettingError("threshold", "must leave some of epsilon for the warm-up's sum")

    def warm_up_share(self, threshold: Threshold, perturber: Perturber, *, first: bool) -> Fraction:
        """The part of ε that the choice of a warm-up gets."""
        return Fraction(threshold.guarantee.epsilon) / perturber.epsilon if first else AGAIN_SHARE

    def trees(self, threshold: Threshold, perturber: Perturber) -> StagedTrees:
        """The perturber for every budget that a piece can have."""
        if not isinstance(perturber, AdaptiveTrees):
            raise AssertionError("the stages were checked")
        shares = (EARLY_SHARE, LATE_SHARE) if self.windows else ()
        first = 1 - self.warm_up_share(threshold, perturber, first=True)
        again = (1 - AGAIN_SHARE,) if self.restarts and first != 1 - AGAIN_SHARE else ()
        blocks = (Fraction(1), *(1 - share for share in shares))
        return StagedTrees(perturber, blocks, (first, *again))

    def choice(
        self, threshold: Threshold, perturber: Perturber, values: int, share: Fraction
    ) -> TailQuantile:
        """The stage that chooses θ from so many values with this share of ε."""
        if not isinstance(threshold, TailQuantile):
            raise AssertionError("the stages were checked")
        return replace(threshold, epsilon=share * perturber.epsilon, holdout=values)

    def window(
        self, horizon: int, *, at: int, born: int, known: int
    ) -> tuple[int, Fraction] | None:
        """Values that pay for another choice of θ, and with which share of ε; None: none do.

        Positions count from the beginning of the release: `at` the present one, `born` that of the
        warm-up that θ comes from. `known` is share × values of the last choice, in sixteenths. The
        next one must know twice as much, by the end of the first third of the horizon, or it is not
        begun: chance would replace a good θ. It ends with a block.
        """
        share = EARLY_SHARE if at < horizon * EARLY else LATE_SHARE
        needed = at - (-GROWTH * known // int(16 * share))
        last = min(Fraction((at // horizon + 1) * horizon), born + horizon * UNTIL)
        if not self.windows or needed > last:
            return None
        end = at
        while end < needed:
            end += block_length(horizon, end - born, end)
        return (end - at, share) if end > at else None

    def guarantee(self, threshold: Threshold, perturber: Perturber) -> Guarantee:
        """Derived: in every piece a choice and sums in sequence, pieces in parallel."""
        shares = [self.warm_up_share(threshold, perturber, first=True)]
        if self.restarts:
            shares.append(AGAIN_SHARE)
        if self.windows:
            shares += [EARLY_SHARE, LATE_SHARE]
        pieces = []
        for share in shares:
            chosen = self.choice(threshold, perturber, 1, share).guarantee
            sums = Guarantee(epsilon=(1 - share) * perturber.epsilon)
            pieces.append(sequential(chosen, sums))
        return parallel(perturber.guarantee, *pieces)
