"""When a pipeline's threshold is chosen, and what that means for its guarantee."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.guarantee import Guarantee
from tidegate.stages import BlockBudgets, Perturber, Threshold

if TYPE_CHECKING:
    from tidegate.run.pipeline import Pipeline


class ThresholdSchedule:
    """Choose the threshold once, from a hold-out that is not released. Others override this."""

    @property
    def releases_warm_up(self) -> bool:
        """Whether the values that choose the threshold are released, too: there is no hold-out."""
        return False

    @property
    def withholds(self) -> bool:
        """Whether values that choose a later threshold are withheld from the stream."""
        return False

    def check(self, pipeline: Pipeline) -> None:
        """Refuse stages that do not go with this schedule."""

    def later_rule(self, first: Threshold) -> Threshold:
        """The rule that chooses every threshold after the first one."""
        return first

    def measurer(self, pipeline: Pipeline) -> Perturber:
        """The perturber, for every budget that a block can have."""
        return pipeline.perturber

    def budgets(self, pipeline: Pipeline) -> BlockBudgets | None:
        """How blocks divide their budget between sums and choices of θ; None: all is for sums."""
        return None

    def warm_up(self, pipeline: Pipeline) -> int:
        """How many of the first values are released before they are measured, and choose θ."""
        return 0

    def stream_guarantee(self, pipeline: Pipeline) -> Guarantee:
        """What one event of the stream is promised: sums, and choices that look at them."""
        return pipeline.perturber.guarantee

    def switch(self, number: int, block: int) -> int | None:
        """Where switch `number` (from 0) to another threshold happens; None: never."""
        return None

    def opening(self, number: int, block: int) -> int | None:
        """Where the selection of switch `number` begins; None: never."""
        return None


ONCE = ThresholdSchedule()
