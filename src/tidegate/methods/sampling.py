"""Sample and hold for windows: one value of every few is measured, by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Unpack

from tidegate.estimate.last_published import LastPublished
from tidegate.exact_numbers import Number, whole
from tidegate.guarantee import Guarantee
from tidegate.methods._method import Method
from tidegate.methods._shared import Common, assembled, preset
from tidegate.methods.budget_distribution import HORIZON, window_budget
from tidegate.perturb.sampled import SampledStage, check_scale
from tidegate.randomness import Keystream
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Epsilon, Spec, Whole
from tidegate.units import Unit, Window


@dataclass(frozen=True, kw_only=True, repr=False)
class SampledWindow(SampledStage, Spec):
    """Measures the positions 0, k, 2k, …

    **Privacy**: ε for any w = `window` consecutive values, all replaced at once. Released: each
    k-th value plus discrete Laplace noise of scale s = ⌈cθ/ε⌉, with c = ⌈w/k⌉. Any w consecutive
    positions hold at most c multiples of k, and each costs θ/s ≤ ε/c. Which values are measured
    is decided by position.

    Args:
        epsilon: the budget of every window.
        window: w, how many consecutive values are protected together.
        every: k.
        horizon: queries look back on 16 of these.
    """

    KIND: ClassVar[str] = "methods.SampledWindow"

    epsilon: Epsilon = Epsilon()
    window: Whole = Whole(minimum=1)
    every: Whole = Whole(minimum=1)
    horizon: Whole = Whole(minimum=1, default=HORIZON)

    @property
    def guarantee(self) -> Guarantee:
        """ε for the window."""
        return Guarantee(epsilon=self.epsilon, unit=Window(length=self.window).name)

    def scale(self, threshold: int) -> int:
        """Of the noise of every measurement."""
        measured = -(-self.window // self.every)
        return -(-measured * threshold * self.epsilon.denominator // self.epsilon.numerator)

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """All that decides about noise."""
        return f"SampledWindow(every={self.every}, scale={self.scale(threshold)})"

    def check(self, ceiling: int) -> None:
        """Refuse settings that could overflow 64-bit integers."""
        check_scale(self.scale(ceiling))

    def sampler(self, threshold: int, keystream: Keystream) -> ByPosition:
        """Decides by position."""
        return ByPosition(self.every, self.scale(threshold))


class ByPosition:
    """Nothing to remember."""

    STATE: ClassVar[tuple[str, ...]] = ()

    def __init__(self, every: int, scale: int) -> None:
        self._every, self._scale = every, scale

    def push(self, value: int, position: int) -> int:
        """The scale of the noise, or 0: not measured."""
        return 0 if position % self._every else self._scale

    def measured(self, number: int, span: int, scale: int) -> None:
        """Nothing depends on it."""


@preset
def sampling(
    epsilon: Number,
    bound: Number,
    *,
    unit: Unit | None = None,
    every: int | None = None,
    horizon: int = HORIZON,
    holdout: int = 0,
    **common: Unpack[Common],
) -> Pipeline:
    """Sample and hold: the baselines "Sample" and "Uniform" of w-event privacy. Exact arithmetic.

    One value of a window is measured with the whole ε and held until the next. `every=1` measures
    all values with ε/w each: the baseline "Uniform".

    Args:
        unit: the window that ε protects; None: `units.Window(length=60)`.
        every: measure each value whose position is a multiple of this; None: one a window.
        horizon: queries look back on 16 of these.
        holdout: how many values choose the threshold; 0: θ is the bound, as published. A window can
            lie across hold-out and stream, so the threshold gets a quarter of ε, and the stream the
            rest.

    >>> print(sampling(epsilon=1, bound=50).guarantee)
    ε = 1 per window of 60 consecutive values (exact arithmetic, central model)
    """
    window, stream, threshold = window_budget(epsilon, unit, bound, holdout)
    every = window.length if every is None else whole("every", every, minimum=1)
    return assembled(
        threshold=threshold,
        perturber=SampledWindow(epsilon=stream, window=window.length, every=every, horizon=horizon),
        estimator=LastPublished(),
        unit=window,
        **common,
    )


METHOD = Method(
    preset=sampling,
    summary="w-event privacy: one value of a window is measured and held; the baseline",
    when="windows, of a stream that hardly changes within one; `every=1` is the baseline Uniform",
    reference="the baselines Sample and Uniform of Kellaris et al., VLDB 2014",
    stages=(SampledWindow, LastPublished),
    example={"unit": Window(length=7), "every": 4, "epsilon": 20, "holdout": 0},
)
