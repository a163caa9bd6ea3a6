"""The budget of `rescue_dp`: a share of what a window has left, when a measurement is due."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from typing import ClassVar, Protocol

from tidegate.methods._kalman_and_controller import KalmanFeedback

PARTS = 1 << 32  # parts of ε in which spending is counted
LEAST = 1 << 12  # parts below which nothing is measured: its noise would be of no use
# The paper's constants: a measurement takes φ·ln(interval + 1) of what is left, at most 0.6 of it,
# and at most a fifth of ε.
_SHARE, _MOST_SHARE, MOST = Decimal("0.2"), Decimal("0.6"), PARTS // 5
LEAST_SHARE = float(_SHARE) * math.log(2)  # at an interval of 1
ROUGH_SHARE, ROUGH_MOST = float(_SHARE), float(_MOST_SHARE)
_DIGITS = Context(prec=30)
DOUBT = 1e-5  # 2^32 times the error of a share is below 1.2e-6


class RescueDPStage(Protocol):
    """The part of the stage that the sampler uses."""

    @property
    def window(self) -> int: ...

    @property
    def movement(self) -> Fraction: ...

    def scale(self, threshold: int, parts: int) -> int: ...

    def scale_ratio(self, threshold: int) -> tuple[int, int]: ...


class RescueDPOneByOne(KalmanFeedback):
    """Measures when the interval is over. Its state holds no raw value."""

    STATE: ClassVar[tuple[str, ...]] = (*KalmanFeedback.STATE, "places", "parts", "due")

    def __init__(self, stage: RescueDPStage, threshold: int) -> None:
        super().__init__(threshold, Fraction(stage.movement))
        self._stage, self._window, self._threshold = stage, stage.window, threshold
        self.places: list[int] = []  # positions within the last window where budget was spent
        self.parts: list[int] = []  # how much was spent there
        self.due = 0  # the position to measure next
        self._offer = self._position = 0

    def push(self, value: int, position: int) -> int:
        """The noise scale if a measurement is due, else 0. The value itself decides nothing."""
        if position < self.due:
            return 0
        self._position = position
        while self.places and self.places[0] <= position - self._window:
            del self.places[0], self.parts[0]
        self._offer = self.part_of(PARTS - sum(self.parts), self.interval)
        if self._offer < LEAST:
            return 0
        return self.scale_of(self._offer)

    def measured(self, number: int, span: int, scale: int) -> None:
        """Update filter and controller with the released number, and note its cost."""
        self.follow(number, span, scale)
        if scale:
            self.places.append(self._position)
            self.parts.append(self._offer)
            self.due = self._position + round(min(self.interval, float(self._window)))

    def scale_of(self, parts: int) -> int:
        """The noise scale of a measurement that costs `parts`."""
        return self._stage.scale(self._threshold, parts)

    def part_of(self, left: int, interval: float) -> int:
        """min(φ·ln(interval + 1), 0.6) of what is left, rounded down, and at most a fifth of ε.

        The same on every machine: a float only proposes, since near to an integer decimals decide.
        """
        rough = left * rough_rescue_share(interval)
        part = int(rough)
        if not DOUBT < rough - part < 1 - DOUBT:
            exact = min(_SHARE * Decimal(interval + 1).ln(_DIGITS), _MOST_SHARE)
            part = int(left * Fraction(exact))
        return part if part < MOST else MOST


def rough_rescue_share(interval: float) -> float:
    """An approximation of the share of what is left that a measurement takes."""
    share = ROUGH_SHARE * math.log(interval + 1)
    return share if share < ROUGH_MOST else ROUGH_MOST
