"""A release without a hold-out: the warm-up is released, and θ is refined as values come.

|-- warm-up --|- block -|--- block ---|----- block -----| …        ε of each value goes to
  3/4 θ, 1/4    1/2 next θ (window 1)   1/4 (window 2)     none      choice of θ │ noisy sums
  their sum     1/2 sums                3/4 sums           all sums
                                  └─ a leaf fills its cap: the block ends here, a new warm-up begins
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate.errors import SettingError
from tidegate.estimate import Mixture
from tidegate.guarantee import Guarantee, parallel, sequential
from tidegate.perturb import AdaptiveTrees
from tidegate.perturb.adaptive.refinement_trees import RefinementTrees, refinement_block_length
from tidegate.run.threshold_schedule_and_reselection import ThresholdSchedule
from tidegate.settings import Flag, Spec
from tidegate.stages import FAR_SHARE, Perturber, Threshold
from tidegate.stages.late_looks import FAR_UNTIL, LOOK_UNTIL, SHORTEST, look_share
from tidegate.threshold import TailQuantile

if TYPE_CHECKING:
    from tidegate.run.pipeline import Pipeline

__all__ = ["Refinement"]  # what settings can name

WARM_SHARE = Fraction(3, 4)  # share of ε for the first choice of θ; the sum gets the rest
AGAIN_SHARE = Fraction(1, 2)  # the same for a later warm-up, which can use earlier releases
EARLY_SHARE, LATE_SHARE = Fraction(1, 2), Fraction(1, 4)  # shares of ε for the next choices of θ
# The first of these up to this part of the horizon, where noise is cheap, and up to this many first
# warm-ups, so that a stream that ends long before its horizon has not paid it to the end.
EARLY, EARLY_WARM_UPS = Fraction(1, 16), 4
# Windows are open up to these parts of the horizon: normally, and if `threshold_has_fallen`.
UNTIL, UNTIL_FOUND = Fraction(1, 3), Fraction(2, 3)
GROWTH = 2  # a choice is made again if it knows this many times as much (share × values)
# Where the level has moved (`level_has_moved`) values pay for a choice again, which can only raise
# θ; from this part of what the last one knew, and not in the last eighth of the horizon.
MOVED_EVIDENCE, LEFT = Fraction(1, 2), Fraction(1, 8)
KEEP = Fraction(6, 5)  # a cap that was full stays if what follows lies below this many caps
ALIKE = 10  # and if they are no more than this many times the level that chose it
LIKELY = 0.75  # times the level: the assumed share of values above 0 where θ has fallen
# A choice of θ is made for 16 times the values that came since its warm-up began, not for the
# whole horizon: a later one will know more, and what a short window sees is not extrapolated far.
STRETCH = 16


@dataclass(frozen=True, kw_only=True, repr=False)
class Refinement(ThresholdSchedule, Spec):
    """Release the warm-up too, and choose the threshold again as long as that pays.

    Guarantee: ε per event, the largest sum over the kinds of pieces that a value can belong to.

    - A value of a *warm-up* pays s·ε for the choice of θ (`TailQuantile`) and at most (1 − s)·ε for
      the one noisy sum of min(v, θ), whose cap is the outcome of the choice: in sequence.
      If values below 0 count, scale and shape of both ends are chosen with parts of s·ε, in
      sequence too, and the sum is that of min(max(v, −θ⁻), θ⁺), counted from −θ⁻.
    - A value of a *block* pays Σ cap/scale ≤ (1 − s)·ε to its tree and, if a window is open, s·ε to
      the one choice at the end of the window; s = 0 where none is open. A late look is a window
      at whose end one bit is released instead of a choice (`tidegate.run.refinement_looks`).

    Which piece a value belongs to, and its share s, cap and tree, follow from its position and from
    what was released before the piece began; where a piece ends follows from what it has released
    itself (a leaf that fills its cap). Take two streams that differ in one value and multiply the
    conditional probabilities of all that is released, in order. Factors before the piece of that
    value are equal. The piece's own is within e^((1−s)·ε) for sums: think of its whole tree being
    drawn; publishing leaves up to one that the published leaves decide is post-processing. Later
    pieces read other values and have equal factors, but for the choice that this piece pays for,
    which reads the value once, within e^(s·ε). A window that a full cap cuts short makes no choice.
    Whether a window opens late, as the level has risen, released sums of blocks before it decide.
    All else is a function of released data: forecasts, the tests for full caps, the lowest θ
    that is allowed after one, and the estimate of what a full leaf lost.

    Args:
        windows: let values pay for better choices of θ, early or where the level has risen.
        restarts: begin a new warm-up when a released sum shows that values outgrew their cap.
        looks: let values pay, after the last window, for a look at what lies far above θ
            (`tidegate.run.refinement_looks`): one more choice, s·ε, in sequence with sums.
    """

    KIND: ClassVar[str] = "refinement.Refinement"

    windows: Flag = Flag(default=True)
    restarts: Flag = Flag(default=True)
    looks: Flag = Flag(default=False)

    def settings(self) -> dict[str, Any]:
        """As plain data; without `looks`, which older states do not have, where there are none."""
        found = super().settings()
        return found if self.looks else {k: v for k, v in found.items() if k != "looks"}

    @property
    def releases_warm_up(self) -> bool:
        """True: its values are predicted, and their sum is measured once θ is known."""
        return True

    def check(self, pipeline: Pipeline) -> None:
        """Refuse stages that cannot be refined."""
        threshold, perturber = pipeline.threshold, pipeline.perturber
        if not isinstance(threshold, TailQuantile):
            raise SettingError("threshold", "must be a threshold.TailQuantile to be refined")
        if type(perturber) is not AdaptiveTrees or not isinstance(pipeline.estimator, Mixture):
            stages = "perturb.AdaptiveTrees and estimate.Mixture"
            raise SettingError("reselect", f"refines {stages} only")
        if self.looks and pipeline.lower:
            raise SettingError("reselect", "looks at values from 0 on only")
        if threshold.epsilon >= perturber.epsilon:
            raise SettingError("threshold", "must leave some of epsilon for the warm-up's sum")

    def measurer(self, pipeline: Pipeline) -> RefinementTrees:
        """The trees, for every budget that a piece can have."""
        return self.trees(pipeline.threshold, pipeline.perturber)

    def budgets(self, pipeline: Pipeline) -> RefinementTrees:
        """The same trees: they know every budget that a piece can have."""
        return self.measurer(pipeline)

    def warm_up(self, pipeline: Pipeline) -> int:
        """The number of values that the threshold's stage asks for."""
        return pipeline.threshold.holdout

    def stream_guarantee(self, pipeline: Pipeline) -> Guarantee:
        """The largest cost over the kinds of pieces that a value can belong to."""
        return self.guarantee(pipeline.threshold, pipeline.perturber, pipeline.choices)

    def warm_up_share(self, threshold: Threshold, perturber: Perturber, *, first: bool) -> Fraction:
        """The share of ε for the choice of a warm-up."""
        return Fraction(threshold.guarantee.epsilon) / perturber.epsilon if first else AGAIN_SHARE

    def trees(self, threshold: Threshold, perturber: Perturber) -> RefinementTrees:
        """The perturber, for every budget that a piece can have."""
        if type(perturber) is not AdaptiveTrees:
            raise AssertionError("the stages were checked")
        shares: tuple[Fraction, ...] = (EARLY_SHARE, LATE_SHARE) if self.windows else ()
        first = 1 - self.warm_up_share(threshold, perturber, first=True)
        again = (1 - AGAIN_SHARE,) if self.restarts and first != 1 - AGAIN_SHARE else ()
        shares += self.look_shares(perturber)
        blocks = (Fraction(1), *(1 - share for share in shares))
        return _refinement_trees(perturber, blocks, (first, *again))

    def choice(
        self,
        threshold: Threshold,
        perturber: Perturber,
        values: int,
        share: Fraction,
        *,
        age: int,
    ) -> TailQuantile:
        """The stage that chooses θ, or the scale of both caps, with this share of ε.

        `age` is the number of values since the warm-up began, at the time of the choice: θ is
        chosen for a multiple of it, at most for a horizon.
        """
        if not isinstance(threshold, TailQuantile):
            raise AssertionError("the stages were checked")
        stretch = min(threshold.horizon, STRETCH * age)
        return _refinement_choosing(threshold, share * perturber.epsilon, values, stretch)

    def window(
        self,
        horizon: int,
        *,
        at: int,
        first: int,
        warm_up_start: int,
        evidence: int,
        fallen: int = 0,
    ) -> tuple[int, Fraction] | None:
        """How many values pay for another choice of θ, and with which share of ε. None: none.

        Positions count from the beginning of the release: `at` the present one, `warm_up_start`
        that of the warm-up that θ comes from; the first warm-up had `first` values. `evidence` is
        share × values of the last choice, in sixteenths. The next choice must have twice as much,
        by the end of the first third of the horizon, or no window is opened: chance would replace a
        good θ. It ends with a block. A θ that has `fallen` is not good: there is time until 2/3; at
        half of ε if most values are 0 (2), since sums that are cut to nothing need none of it.
        """
        if not self.windows:
            return None
        return _refinement_window(horizon, at, first, warm_up_start, evidence, fallen)

    def window_again(
        self, horizon: int, at: int, warm_up_start: int, evidence: int
    ) -> tuple[int, Fraction] | None:
        """The next window after the level has moved since θ was chosen, at any time."""
        needed = at + max(1, math.ceil(MOVED_EVIDENCE * evidence / int(16 * LATE_SHARE)))
        last = (at // horizon + 1) * horizon - math.floor(horizon * LEFT)
        if not self.windows or needed > last:
            return None
        return _refinement_blocks_until(needed, horizon, at, warm_up_start), LATE_SHARE

    def look_shares(self, perturber: Perturber) -> tuple[Fraction, ...]:
        """The parts of ε of a late look, and of the window where it found something; or none."""
        if not self.looks or type(perturber) is not AdaptiveTrees:
            return ()
        return look_share(perturber.epsilon, perturber.horizon), FAR_SHARE

    def look(
        self, trees: RefinementTrees, at: int, warm_up_start: int
    ) -> tuple[int, Fraction] | None:
        """Values that pay for a look at what lies far above θ, and with which share; None: none.

        Where no window is due, and values can lie so high (`room_far_above`).
        """
        horizon = trees.horizon
        needed = at - at % horizon + math.floor(horizon * LOOK_UNTIL)
        if not self.looks or needed - at < horizon * SHORTEST:
            return None
        values = _refinement_blocks_until(needed, horizon, at, warm_up_start)
        return values, look_share(trees.epsilon, horizon)

    def window_after_look(
        self, trees: RefinementTrees, at: int, warm_up_start: int
    ) -> tuple[int, Fraction]:
        """The window that follows where a look found values far above θ."""
        horizon = trees.horizon
        last = at - at % horizon + math.floor(horizon * FAR_UNTIL)
        needed = max(at + 1, min(last, at + math.floor(horizon * (FAR_UNTIL - LOOK_UNTIL))))
        return _refinement_blocks_until(needed, horizon, at, warm_up_start), FAR_SHARE

    def guarantee(
        self,
        threshold: Threshold,
        perturber: Perturber,
        choices: tuple[Fraction, ...] = (Fraction(1),),
    ) -> Guarantee:
        """The derived guarantee: in every piece a choice and sums in sequence; pieces in parallel.

        `choices`: the parts of a choice's budget for θ, or for the scale of both ends, and for
        their shape.
        """
        shares = [self.warm_up_share(threshold, perturber, first=True)]
        if self.restarts:
            shares.append(AGAIN_SHARE)
        if self.windows:
            shares += [EARLY_SHARE, LATE_SHARE]
        shares += self.look_shares(perturber)
        pieces = []
        for share in shares:
            theta, *shape = (share * part for part in choices)
            chosen = self.choice(threshold, perturber, 1, theta, age=1).guarantee
            more = [Guarantee(epsilon=part * perturber.epsilon) for part in shape]
            sums = Guarantee(epsilon=(1 - share) * perturber.epsilon)
            pieces.append(sequential(chosen, *more, sums))
        return parallel(perturber.guarantee, *pieces)


def _refinement_blocks_until(needed: int, horizon: int, at: int, warm_up_start: int) -> int:
    """The number of values in as many whole blocks from `at` on as reach `needed`."""
    end = at
    while end < needed:
        end += refinement_block_length(horizon, end - warm_up_start, end)
    return end - at


@lru_cache(maxsize=256)  # keys are often at the same place, and ask the same
def _refinement_window(
    horizon: int, at: int, first: int, warm_up_start: int, evidence: int, fallen: int
) -> tuple[int, Fraction] | None:
    early = at < horizon * EARLY and at < EARLY_WARM_UPS * first
    share = EARLY_SHARE if early or fallen > 1 else LATE_SHARE
    needed = at - (-GROWTH * evidence // int(16 * share))
    until = UNTIL_FOUND if fallen else UNTIL
    last = min(Fraction((at // horizon + 1) * horizon), warm_up_start + horizon * until)
    if needed > last or needed == at:
        return None
    return _refinement_blocks_until(needed, horizon, at, warm_up_start), share


# Settings are checked when a stage is made, and every start and resume needs these two.


@lru_cache(maxsize=64)
def _refinement_trees(
    perturber: AdaptiveTrees, blocks: tuple[Fraction, ...], warm_ups: tuple[Fraction, ...]
) -> RefinementTrees:
    return RefinementTrees(
        epsilon=perturber.epsilon,
        horizon=perturber.horizon,
        nodes=perturber.nodes,
        blocks=blocks,
        warm_ups=warm_ups,
    )


@lru_cache(maxsize=64)
def _refinement_choosing(
    threshold: TailQuantile, epsilon: Fraction, values: int, stretch: int
) -> TailQuantile:
    return replace(threshold, epsilon=epsilon, holdout=values, horizon=stretch)
