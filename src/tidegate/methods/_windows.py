"""The base of methods whose ε protects a window of values natively."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Protocol

from tidegate.guarantee import Guarantee
from tidegate.perturb.sampled_values import SampledStage
from tidegate.units import Window

WINDOW_EXAMPLE: dict[str, Any] = {"unit": Window(length=7), "epsilon": 20, "holdout": 0}


class _Stage(Protocol):
    @property
    def epsilon(self) -> Fraction: ...

    @property
    def window(self) -> int: ...


class WindowStage(SampledStage):
    """Measures some values, with ε for any `window` consecutive ones."""

    @property
    def guarantee(self: _Stage) -> Guarantee:
        """ε for the window."""
        return Guarantee(epsilon=self.epsilon, unit=Window(length=self.window).name)
