"""Bases of stages whose ε protects a window, or is split between private tests and numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Protocol

from tidegate.errors import SettingError
from tidegate.guarantee import Guarantee
from tidegate.perturb.irregular_spans import IrregularStage
from tidegate.perturb.sampled_values import SampledStage
from tidegate.units import Window

WINDOW_EXAMPLE: dict[str, Any] = {"unit": Window(length=7), "epsilon": 20, "holdout": 0}


class _WindowedStage(Protocol):
    @property
    def epsilon(self) -> Fraction: ...

    @property
    def window(self) -> int: ...


class WindowStage(SampledStage):
    """Measures some values, with ε for any `window` consecutive ones."""

    @property
    def guarantee(self: _WindowedStage) -> Guarantee:
        """ε for the window."""
        return Guarantee(epsilon=self.epsilon, unit=Window(length=self.window).name)


class _TestedStage(Protocol):
    @property
    def epsilon(self) -> Fraction: ...

    @property
    def share(self) -> Fraction: ...

    @property
    def limit(self) -> Fraction: ...

    @property
    def tests_epsilon(self) -> Fraction: ...


class PrivateTestsStage(IrregularStage):
    """Compares sums of values with a noisy limit, to decide where groups or segments end."""

    def __post_init__(self: _TestedStage) -> None:
        if not 0 < self.share < 1:
            raise SettingError("share", "must lie between 0 and 1")

    @property
    def tests_epsilon(self: _TestedStage) -> Fraction:
        """The budget of the tests."""
        return self.epsilon * self.share

    def public_limit(self: _TestedStage, threshold: int) -> int:
        """The public part T of the limit, in units."""
        return math.ceil(self.limit * threshold / self.tests_epsilon)
