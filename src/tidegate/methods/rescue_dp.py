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
from tidegate.methods._kalman_and_controller import (
    REMEMBERED,
    SURE,
    Feedback,
    next_interval,
)
from tidegate.methods._preset import SHORT_HORIZON, PerWindow, preset_with
from tidegate.methods._registration import Method
from tidegate.methods._window_stages import WINDOW_EXAMPLE, WindowStage
from tidegate.methods.fast import MOVEMENT, FilteredLevel
from tidegate.perturb.position_noise import BEYOND, EDGE, USUAL_SCALES
from tidegate.perturb.sampled_values import Measurements, Stretch
from tidegate.randomness import Keystream
from tidegate.run.pipeline import Pipeline
from tidegate.settings import Epsilon, Exact, Spec, Whole

_PARTS = 1 << 32  # of ε: what is spent is counted in these
_LEAST = 1 << 12  # parts below which nothing is measured: its noise would be of no use
# The paper's constants: a measurement takes φ·ln(interval + 1) of what is left, at most 0.6 of it,
# and at most a fifth of ε.
_SHARE, _MOST_SHARE, _MOST = Decimal("0.2"), Decimal("0.6"), _PARTS // 5
_LEAST_SHARE = float(_SHARE) * math.log(2)  # at an interval of 1
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
        self._huge = stage.scale(threshold) >= USUAL_SCALES

    def push(self, value: int, position: int) -> int:
        """The value itself decides nothing."""
        if position < self.due:
            return 0
        self._position = position
        while self.places and self.places[0] <= position - self._window:
            del self.places[0], self.parts[0]
        self._offer = self._part_of(_PARTS - sum(self.parts), self.interval)
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

    def sweep(self, stretch: Stretch) -> Measurements:
        """`push` and `measured` for many values: only where a measurement is due."""
        values, _, start, stop, position, filled, noise = stretch
        measured: list[int] = []
        numbers: list[float] = []
        scales: list[float] = []
        shift, opened, window = position - start, start - filled, self._window
        places, parts, left = deque(self.places), deque(self.parts), _PARTS - sum(self.parts)
        part_of, step, above, below = self._part_of, self._step_variance, self._above, self._below
        ratio, huge = above / below, self._huge
        exact, variance, interval = self.exact, self.variance, self.interval
        errors = deque(self.errors, maxlen=REMEMBERED)
        due = self.due - shift
        at = max(start, due)
        returns = places[0] + window - shift if places else stop  # where the first part comes back
        logarithms, index = noise.ahead(position)
        first, until = start - index, start - index + len(logarithms)  # of known logarithms
        while at < stop:
            if at >= until:
                logarithms, index = noise.ahead(at + shift)
                first, until = at - index, at - index + len(logarithms)
            while returns <= at:
                left += parts.popleft()
                places.popleft()
                returns = places[0] + window - shift if places else stop
            if interval == 1.0:  # the most frequent: φ·ln 2, which is below the most
                rough = left * _LEAST_SHARE
                part = int(rough)
                if not _DOUBT < rough - part < 1 - _DOUBT or part >= _MOST:
                    part = part_of(left, interval)
            else:
                part = part_of(left, interval)
            if part < _LEAST:
                at = returns  # nothing returns before
                continue
            rough = ratio / part
            scale = int(rough) + 1
            if not _DOUBT < scale - rough < 1 - _DOUBT or huge:
                scale = -(-above // (below * part))
            logarithm = logarithms[at - first]
            product = scale * logarithm
            draw = int(product)
            rest = product - draw
            if not (EDGE < rest < BEYOND or (draw and -BEYOND < rest < -EDGE)) or huge:
                draw = noise.scaled(logarithm, scale, at + shift)
            number = values[at] + draw
            measured.append(at)
            numbers.append(number)
            scales.append(scale)
            # What `follow` does.
            variance += (at + 1 - opened) * step
            gain = variance / (variance + 2.0 * scale * scale)
            before = exact
            exact += gain * (number - before)
            variance *= 1 - gain
            error = exact - before if exact > before else before - exact
            if exact > 1.0:
                error /= exact
            errors.append(error)
            if error < SURE or interval != 1.0:
                interval = next_interval(interval, error, errors)
            if not places:
                returns = at + window
            places.append(at + shift)
            parts.append(part)
            left -= part
            opened = at + 1
            at += round(interval) if interval < window else window
            due = at
        self.due = due + shift
        self.exact, self.variance, self.interval = exact, variance, interval
        self.places, self.parts, self.errors = list(places), list(parts), list(errors)
        return measured, numbers, scales

    def _part_of(self, left: int, interval: float) -> int:
        """min(φ·ln(interval + 1), 0.6) of what is left, rounded down, and at most a fifth of ε.

        The same on every machine: a float only proposes, since near to an integer decimals decide.
        """
        share = _ROUGH_SHARE * math.log(interval + 1)
        rough = left * (share if share < _ROUGH_MOST else _ROUGH_MOST)
        part = int(rough)
        if not _DOUBT < rough - part < 1 - _DOUBT:
            exact = min(_SHARE * Decimal(interval + 1).ln(_DIGITS), _MOST_SHARE)
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
