"""Sample and hold for windows: one value of every few is measured, by position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Unpack

import numpy as np

from tidegate.estimate.sample_and_hold import LastPublished
from tidegate.exact_numbers import Number, whole
from tidegate.methods._budget import per_window
from tidegate.methods._preset import SHORT_HORIZON, PerWindow, preset_with
from tidegate.methods._registration import Method
from tidegate.methods._window_stages import WINDOW_EXAMPLE, WindowStage
from tidegate.perturb.sampled_values import Measurements, Stretch
from tidegate.randomness import Keystream
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Epsilon, Spec, Whole


@dataclass(frozen=True, kw_only=True, repr=False)
class SampledWindow(WindowStage, Spec):
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
    horizon: Whole = Whole(minimum=1, default=SHORT_HORIZON)

    def scale(self, threshold: int) -> int:
        """The noise scale of a measurement."""
        measured = -(-self.window // self.every)
        return -(-measured * threshold * self.epsilon.denominator // self.epsilon.numerator)

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """The facts that determine the noise."""
        return f"SampledWindow(every={self.every}, scale={self.scale(threshold)})"

    def sampler(self, threshold: int, keystream: Keystream) -> ByPosition:
        """A sampler that decides by position."""
        return ByPosition(self.every, self.scale(threshold))


class ByPosition:
    """A sampler that decides by position and has no state."""

    STATE: ClassVar[tuple[str, ...]] = ()

    def __init__(self, every: int, scale: int) -> None:
        self._every, self._scale = every, scale

    def push(self, value: int, position: int) -> int:
        """The noise scale, or 0: the value is not measured."""
        return 0 if position % self._every else self._scale

    def find(self, values: list[int], start: int, stop: int, position: int) -> tuple[int, int]:
        """The next multiple of the interval."""
        at = start + -position % self._every
        return (at, self._scale) if at < stop else (stop, 0)

    def sweep(self, stretch: Stretch) -> Measurements:
        """Measure all multiples at once."""
        units, start, stop, position, *_ = stretch
        places = np.arange(start + -position % self._every, stop, self._every)
        if not places.size:
            return places, places, places
        first = position + int(places[0]) - start
        noise = stretch.noise.regular(first, places.size, self._every, self._scale)
        return places, units[places] + noise, np.full(places.size, self._scale)

    def measured(self, number: int, span: int, scale: int) -> None:
        """Do nothing: no decision depends on it."""


@preset_with(horizon=SHORT_HORIZON, holdout=0)
def sampling(
    epsilon: Number, bound: Number, *, every: int | None = None, **shared: Unpack[PerWindow]
) -> Pipeline:
    """One value of a window is measured and held; the baseline of w-event privacy.

    Sample and hold; exact arithmetic. One value of a window is measured with the whole ε and held
    until the next. `every=1` measures all values with ε/w each: the baseline "Uniform".

    When: windows, of a stream that hardly changes within one; `every=1` is the baseline Uniform.
    Reference: the baselines Sample and Uniform of Kellaris et al., VLDB 2014.

    Args:
        every: measure each value whose position is a multiple of this; None: one a window.

    >>> print(sampling(epsilon=1, bound=50).guarantee)
    ε = 1 per window of 60 consecutive values (exact arithmetic, central model)
    """
    given = per_window(epsilon, bound, shared)
    stage = SampledWindow(
        epsilon=given.epsilon,
        window=given.window,
        every=given.window if every is None else whole("every", every, minimum=1),
        horizon=given.horizon,
    )
    return given.pipeline(stage, LastPublished())


METHOD = Method(
    sampling, stages=(SampledWindow, LastPublished), example={**WINDOW_EXAMPLE, "every": 4}
)
