"""RescueDP for one stream: a controller decides when to measure and with how much budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Unpack

from tidegate.exact_numbers import Number
from tidegate.methods._budget import per_window
from tidegate.methods._preset import SHORT_HORIZON, PerWindow, preset_with
from tidegate.methods._registration import Method
from tidegate.methods._rescue_dp_sampler_in_bulk import RescueDPInBulk
from tidegate.methods._rescue_dp_sampler_one_by_one import LEAST, PARTS
from tidegate.methods._window_stages import WINDOW_EXAMPLE, WindowStage
from tidegate.methods.fast import MOVEMENT, FilteredLevel
from tidegate.randomness import Keystream
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Epsilon, Exact, Spec, Whole


@dataclass(frozen=True, kw_only=True, repr=False)
class ControlledBudget(WindowStage, Spec):
    """Measures when a controller decides so, with a share of what the window has left.

    **Privacy**: ε for any w = `window` consecutive values, all replaced at once (w-event privacy).
    Released: at which positions values were measured, and x plus discrete Laplace noise of scale
    s = ⌈θ·2^32/(εb)⌉ there, which costs θ/s ≤ b parts of ε·2^-32. The next position and b are
    functions of the numbers released before (a filter and a controller), so they are the same for
    two neighbouring streams that released the same so far. b never exceeds what the last w − 1
    positions have left of the 2^32 parts: any w consecutive positions spend at most ε. All of it is
    integer arithmetic.

    Args:
        epsilon: the budget of every window.
        window: w, how many consecutive values are protected together.
        movement: by how much of θ the level is expected to move from value to value.
        horizon: queries look back on 16 of these.
    """

    KIND: ClassVar[str] = "methods.ControlledBudget"

    epsilon: Epsilon = Epsilon()
    window: Whole = Whole(minimum=1)
    movement: Exact = Exact(default=MOVEMENT)
    horizon: Whole = Whole(minimum=1, default=SHORT_HORIZON)

    def scale(self, threshold: int, parts: int = LEAST) -> int:
        """The noise scale of a measurement that costs `parts`; the largest by default."""
        above, below = self.scale_ratio(threshold)
        return -(-above // (below * parts))

    def scale_ratio(self, threshold: int) -> tuple[int, int]:
        """The noise scale of a measurement that costs one part, as a fraction."""
        return threshold * PARTS * self.epsilon.denominator, self.epsilon.numerator

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """The facts that determine the noise."""
        return (
            f"ControlledBudget(epsilon={self.epsilon}, window={self.window}, "
            f"threshold={threshold}, movement={self.movement}, parts={PARTS}, least={LEAST})"
        )

    def sampler(self, threshold: int, keystream: Keystream) -> RescueDPInBulk:
        """A sampler that decides by released numbers."""
        return RescueDPInBulk(self, threshold)


@preset_with(horizon=SHORT_HORIZON, holdout=0)
def rescue_dp(
    epsilon: Number,
    bound: Number,
    *,
    movement: Number = MOVEMENT,
    **shared: Unpack[PerWindow],
) -> Pipeline:
    """Measures when a controller says so, with a part of the window's budget, and filters.

    RescueDP for one stream (the paper groups many small ones; of one there is nothing to group);
    exact arithmetic. Between measurements the filter's level is published. Budgets are the paper's;
    filter and controller are those of `fast`. (The paper's controller compares the change of the
    level with the scale s of the noise to come: the interval grows by 10·(1 − (change/s)²). With θ
    by hold-out, windows of 60 and ε = 10 that has 1.1 to 9.7 times the squared error in long
    ranges; without a hold-out a tenth to a fifth: see decision 0121.)

    When: windows, of a level that moves slowly and not evenly.
    Reference: Wang, Zhang, Lu, Wang, Qin, Ren, RescueDP: Real-time Spatio-temporal Crowd-sourced
        Data Publishing with Differential Privacy, INFOCOM 2016.

    Args:
        movement: by how much of θ the level is expected to move from value to value.

    >>> print(rescue_dp(epsilon=1, bound=50).guarantee)
    ε = 1 per window of 60 consecutive values (exact arithmetic, central model)
    """
    given = per_window(epsilon, bound, shared)
    stage = ControlledBudget(
        epsilon=given.epsilon, window=given.window, movement=movement, horizon=given.horizon
    )
    return given.pipeline(stage, FilteredLevel(movement=movement))


METHOD = Method(rescue_dp, stages=(ControlledBudget, FilteredLevel), example=WINDOW_EXAMPLE)
