"""Bases of stages whose ε protects a window, or is split between private tests and numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from tidegate.errors import SettingError
from tidegate.guarantee import Guarantee
from tidegate.methods._preset import SHORT_HORIZON
from tidegate.perturb.irregular_spans import IrregularStage
from tidegate.perturb.sampled_values import SampledStage
from tidegate.settings import Epsilon, Exact, Whole
from tidegate.units import Window

WINDOW_EXAMPLE: dict[str, Any] = {"unit": Window(length=7), "epsilon": 20, "holdout": 0}


class _Windowed(Protocol):
    @property
    def epsilon(self) -> Fraction: ...

    @property
    def window(self) -> int: ...


class WindowStage(SampledStage):
    """Measures some values, with ε for any `window` consecutive ones."""

    @property
    def guarantee(self: _Windowed) -> Guarantee:
        """ε for the window."""
        return Guarantee(epsilon=self.epsilon, unit=Window(length=self.window).name)


@dataclass(frozen=True, kw_only=True, repr=False)
class PrivateTests(IrregularStage):
    """Compares sums of values with a noisy limit, to decide where groups or segments end.

    Attributes:
        epsilon: the budget of every value, of tests and numbers together.
        share: the part of ε that pays for the tests.
        limit: the public part of the limit, in θ/(the budget of the tests).
        horizon: queries look back on 16 of these.
    """

    epsilon: Epsilon = Epsilon()
    share: Exact = Exact()
    limit: Exact = Exact()
    horizon: Whole = Whole(minimum=1, default=SHORT_HORIZON)

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise SettingError("share", "must lie between 0 and 1")

    @property
    def tests_epsilon(self) -> Fraction:
        """The budget of the tests."""
        return self.epsilon * self.share

    def public_limit(self, threshold: int) -> int:
        """The public part T of the limit, in units."""
        return math.ceil(self.limit * threshold / self.tests_epsilon)
