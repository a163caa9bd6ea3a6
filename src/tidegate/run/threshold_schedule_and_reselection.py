"""When a pipeline chooses its threshold, and chooses it again; and the cost for its guarantee."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from tidegate.errors import SettingError
from tidegate.exact_numbers import Number, exact, said
from tidegate.guarantee import Guarantee, parallel, sequential
from tidegate.run import two_sided_caps
from tidegate.settings import Flag, OptionalWhole, Spec
from tidegate.stages import BlockBudgets, Perturber, Threshold, fulfils

if TYPE_CHECKING:
    from tidegate.run.pipeline import Pipeline


class ThresholdSchedule:
    """Choose the threshold once, from a hold-out that is not released; others override this."""

    @property
    def releases_warm_up(self) -> bool:
        """Whether values that choose the threshold are released too: no hold-out."""
        return False

    @property
    def withholds(self) -> bool:
        """Whether values that choose a later threshold are withheld from the stream."""
        return False

    def check(self, pipeline: Pipeline) -> None:
        """Refuse stages that do not fit this schedule."""

    def later_rule(self, first: Threshold) -> Threshold:
        """The stage that chooses every threshold after the first."""
        return first

    def measurer(self, pipeline: Pipeline) -> Perturber:
        """The perturber, for every budget that a block can have."""
        return pipeline.perturber

    def budgets(self, pipeline: Pipeline) -> BlockBudgets | None:
        """How blocks divide their budget between sums and choices of θ. None: all is for sums."""
        return None

    def warm_up(self, pipeline: Pipeline) -> int:
        """How many first values choose θ: they are released, and measured once θ is known."""
        return 0

    def stream_guarantee(self, pipeline: Pipeline) -> Guarantee:
        """The guarantee of one event of the stream: sums, and choices that read it."""
        return pipeline.perturber.guarantee

    def switch(self, number: int, block: int) -> int | None:
        """The position of switch `number` (from 0) to another threshold; None: never."""
        return None

    def opening(self, number: int, block: int) -> int | None:
        """The position where the selection for switch `number` begins; None: never."""
        return None


ONCE = ThresholdSchedule()


__all__ = ["Reselection"]  # what settings can name


@dataclass(frozen=True, kw_only=True, repr=False)
class Reselection(ThresholdSchedule, Spec):
    """Choose a new threshold at set positions, from the values just before.

    Guarantee. Positions alone decide when a threshold is chosen and which values it looks at: the
    `threshold.holdout` values before the switch. Selections are disjoint, so a value enters at
    most one. The values of a selection are

    - shared (`blocking=False`): released like any other *and* used for the choice, so that the two
      costs add up: sequential composition; or
    - blocked (`blocking=True`): used for the choice only; predictions are published in their place:
      parallel composition.

    Every new threshold begins a new epoch: new noise, a new forest.

    Args:
        threshold: how to choose; its hold-out is a selection, its budget the cost.
        first: the released position of the first switch; None: `every`.
        every: released values between switches; None: there is only the first.
        blocking: withhold the values of the selection from the stream.
    """

    KIND: ClassVar[str] = "reselection.Reselection"

    threshold: Threshold
    first: OptionalWhole = OptionalWhole(minimum=1)
    every: OptionalWhole = OptionalWhole(minimum=1)
    blocking: Flag = Flag(default=False)

    def __post_init__(self) -> None:
        if not fulfils(self.threshold, Threshold) or self.threshold.holdout < 1:
            raise SettingError("threshold", "must be a stage that looks at a hold-out")
        if self.first is None and self.every is None:
            raise SettingError("every", "or `first` must say when to choose the threshold again")
        for name, distance in (("first", self.first), ("every", self.every)):
            if distance is not None and distance < self.threshold.holdout:
                least = self.threshold.holdout
                raise SettingError(name, f"must be at least the hold-out {least}, not {distance}")

    @property
    def withholds(self) -> bool:
        """Whether the values of a selection are withheld from the stream."""
        return self.blocking

    def check(self, pipeline: Pipeline) -> None:
        """Refuse a threshold stage with another range of values."""
        if self.threshold.bound != pipeline.threshold.bound:
            raise SettingError("reselect", "must have the same bound as the threshold")

    def later_rule(self, first: Threshold) -> Threshold:
        """The threshold stage of this schedule."""
        return self.threshold

    def stream_guarantee(self, pipeline: Pipeline) -> Guarantee:
        """The cost of the stream, plus that of a later choice of one cap or of both."""
        choice = two_sided_caps.guarantee(self.threshold, pipeline.lattice)
        return self.widen(pipeline.perturber.guarantee, choice)

    def widen(self, stream: Guarantee, choice: Guarantee | None = None) -> Guarantee:
        """The stream's guarantee plus the cost of choosing again, by default that of one cap."""
        compose = parallel if self.blocking else sequential
        return compose(stream, choice or self.threshold.guarantee)

    def switch(self, number: int, block: int) -> int | None:
        """The position of switch `number` (from 0): whole blocks after the start. None: never."""
        first = _whole_blocks_of_schedule(self.first or self.every or 0, block)
        if number == 0:
            return first
        return (
            None
            if self.every is None
            else first + number * _whole_blocks_of_schedule(self.every, block)
        )

    def opening(self, number: int, block: int) -> int | None:
        """The position where the selection for switch `number` begins; None: never."""
        switch = self.switch(number, block)
        if switch is None:
            return None
        length = self.threshold.holdout
        return switch - (_whole_blocks_of_schedule(length, block) if self.blocking else length)


def _whole_blocks_of_schedule(values: int, block: int) -> int:
    return -(-values // block) * block


def threshold_and_reselection(
    selector: Callable[[Fraction, int], Threshold],
    per_event: Fraction,
    share: Fraction,
    holdout: int,
    start_early: int | None,
    every: int | None,
) -> tuple[Threshold, Reselection | None]:
    """The first threshold stage, and when to choose again."""
    first = selector(per_event, holdout if start_early is None else start_early)
    if start_early is None and every is None:
        return first, None
    return first, Reselection(
        threshold=selector(per_event * share if share else per_event, holdout),
        first=holdout if start_early is not None else None,
        every=every,
        blocking=not share,
    )


def share_of_reselection(
    share: Number | None, start_early: int | None, every: int | None
) -> Fraction:
    """The share of the stream's budget for choosing again; 0: values are withheld instead."""
    if share is None:
        return Fraction(0) if start_early is None else Fraction(1, 10)
    if start_early is None and every is None:
        raise SettingError("rethreshold_share", "needs rethreshold_every or start_early")
    part = exact("rethreshold_share", share)
    if not 0 < part < 1:
        raise SettingError("rethreshold_share", f"must lie between 0 and 1, not {said(share)}")
    return part
