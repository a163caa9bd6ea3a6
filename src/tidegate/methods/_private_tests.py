"""The base of methods that split ε between private tests and noisy numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Protocol

from tidegate.errors import SettingError
from tidegate.perturb.irregular_spans import IrregularStage


class _Stage(Protocol):
    @property
    def epsilon(self) -> Fraction: ...

    @property
    def share(self) -> Fraction: ...

    @property
    def limit(self) -> Fraction: ...

    @property
    def tests_epsilon(self) -> Fraction: ...


class PrivateTests(IrregularStage):
    """Compares sums of values with a noisy limit, to decide where groups or segments end."""

    def __post_init__(self: _Stage) -> None:
        if not 0 < self.share < 1:
            raise SettingError("share", "must lie between 0 and 1")

    @property
    def tests_epsilon(self: _Stage) -> Fraction:
        """The budget of the tests."""
        return self.epsilon * self.share

    def public_limit(self: _Stage, threshold: int) -> int:
        """The public part T of the limit, in units."""
        return math.ceil(self.limit * threshold / self.tests_epsilon)
