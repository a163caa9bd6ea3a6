"""RescueDP for one stream: a controller says when to measure, and a window's budget with what."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import ClassVar, Unpack

from tidegate.exact_numbers import Number
from tidegate.methods._budget import per_window
from tidegate.methods._kalman_and_controller import Feedback
from tidegate.methods._preset import SHORT_HORIZON, PerWindow, preset_with
from tidegate.methods._registration import Method
from tidegate.methods._window_stages import WINDOW_EXAMPLE, WindowStage
from tidegate.methods.fast import MOVEMENT, FilteredLevel
from tidegate.perturb.sampled_values import Measurement, Stretch
from tidegate.randomness import Keystream
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Epsilon, Exact, Spec, Whole

_PARTS = 1 << 32  # of ε: what is spent is counted in these
_LEAST = 1 << 12  # parts below which nothing is measured: its noise would be of no use
# The paper's constants: a measurement takes φ·ln(interval + 1) of what is left, at most 0.6 of it,
# and at most a fifth of ε.
_SHARE, _MOST_SHARE, _MOST = Decimal("0.2"), Decimal("0.6"), _PARTS // 5
_ROUGH_SHARE, _ROUGH_MOST = float(_SHARE), float(_MOST_SHARE)
_DIGITS = Context(prec=30)
_DOUBT = 1e-3  # 2^32 times the error of a logarithm is far smaller


@dataclass(frozen=True, kw_only=True, repr=False)
class ControlledBudget(WindowStage, Spec):
    """Measures when a controller says so, with a part of what the window has left.

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

    def scale(self, threshold: int, parts: int = _LEAST) -> int:
        """The scale of the noise of a measurement that costs `parts`; the largest by default."""
        above, below = self.scale_ratio(threshold)
        return -(-above // (below * parts))

    def scale_ratio(self, threshold: int) -> tuple[int, int]:
        """The scale of a measurement that costs one part, as a fraction."""
        return threshold * _PARTS * self.epsilon.denominator, self.epsilon.numerator

    def noise_identity(self, threshold: int, ceiling: int) -> str:
        """All that decides about noise."""
        return (
            f"ControlledBudget(epsilon={self.epsilon}, window={self.window}, "
            f"threshold={threshold}, movement={self.movement}, parts={_PARTS}, least={_LEAST})"
        )

    def sampler(self, threshold: int, keystream: Keystream) -> BudgetSampler:
        """Decides by what was released."""
        return BudgetSampler(self, threshold)


class BudgetSampler(Feedback):
    """Asks for a measurement when the interval is over. Its state holds no raw value."""

    STATE: ClassVar[tuple[str, ...]] = (*Feedback.STATE, "places", "parts", "due")

    def __init__(self, stage: ControlledBudget, threshold: int) -> None:
        super().__init__(threshold, Fraction(stage.movement))
        self._stage, self._window, self._threshold = stage, stage.window, threshold
        self.places: list[int] = []  # where something was spent, within the last window
        self.parts: list[int] = []  # how much
        self.due = 0  # the position to measure next
        self._offer = self._position = 0
        self._above, self._below = stage.scale_ratio(threshold)

    def push(self, value: int, position: int) -> int:
        """The value itself decides nothing."""
        if position < self.due:
            return 0
        self._position = position
        while self.places and self.places[0] <= position - self._window:
            del self.places[0], self.parts[0]
        self._offer = self._part_of(_PARTS - sum(self.parts))
        if self._offer < _LEAST:
            return 0
        return self._stage.scale(self._threshold, self._offer)

    def measured(self, number: int, span: int, scale: int) -> None:
        """Let filter and controller see what was released, and remember what it cost."""
        self.follow(number, span, scale)
        if scale:
            self.places.append(self._position)
            self.parts.append(self._offer)
            self.due = self._position + round(min(self.interval, float(self._window)))

    def sweep(self, stretch: Stretch) -> list[Measurement]:
        """`push` and `measured` for many values: only where a measurement is due."""
        values, start, stop, position, filled, noise = stretch
        found: list[Measurement] = []
        shift, opened, window = position - start, start - filled, self._window
        places, parts, left = deque(self.places), deque(self.parts), _PARTS - sum(self.parts)
        follow, part_of, above, below = self.follow, self._part_of, self._above, self._below
        at = max(start, self.due - shift)
        logarithms, index = noise.ahead(position)
        first, until = start - index, start - index + len(logarithms)  # of known logarithms
        while at < stop:
            here = at + shift
            if at >= until:
                logarithms, index = noise.ahead(here)
                first, until = at - index, at - index + len(logarithms)
            while places and places[0] <= here - window:
                places.popleft()
                left += parts.popleft()
            part = part_of(left)
            if part < _LEAST:
                at = places[0] + window - shift  # nothing returns before
                continue
            scale = -(-above // (below * part))
            number = values[at] + noise.scaled(logarithms[at - first], scale, here)
            found.append((at, number, scale))
            follow(number, at + 1 - opened, scale)
            places.append(here)
            parts.append(part)
            left -= part
            opened = at + 1
            interval = self.interval
            at += round(interval) if interval < window else window
            self.due = at + shift
        self.places, self.parts = list(places), list(parts)
        return found

    def _part_of(self, left: int) -> int:
        """min(φ·ln(interval + 1), 0.6) of what is left, rounded down, and at most a fifth of ε.

        The same on every machine: a float only proposes, since near to an integer decimals decide.
        """
        share = _ROUGH_SHARE * math.log(self.interval + 1)
        rough = left * (share if share < _ROUGH_MOST else _ROUGH_MOST)
        part = int(rough)
        if not _DOUBT < rough - part < 1 - _DOUBT:
            exact = min(_SHARE * Decimal(self.interval + 1).ln(_DIGITS), _MOST_SHARE)
            part = int(left * Fraction(exact))
        return part if part < _MOST else _MOST


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
    exact arithmetic. Between measurements the filter's level is published. Filter and controller
    are those of `fast`.

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
