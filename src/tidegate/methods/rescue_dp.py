"""RescueDP for one stream: a controller says when to measure, and a window's budget with what."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from math import fmod
from typing import ClassVar, Unpack

import numpy as np

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
from tidegate.perturb.sampled_values import Measurements, Stretch, one_by_one
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
_WHOLE = 2.0**52  # added and taken away, it rounds a float to a whole number
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
        """`push` and `measured` for many values: only where a measurement is due.

        Whole numbers are floats here, exact below 2^53.
        """
        _, units, start, stop, position, filled, noise = stretch
        measured: list[int] = []
        numbers: list[float] = []
        scales: list[float] = []
        window, count = self._window, stop - start
        due = self.due - position
        at = max(0, due)
        if self._huge:
            return one_by_one(self, stretch)
        if at >= count:
            return measured, numbers, scales
        values = units[start:stop].astype(np.float64).tolist()
        # What comes back at each value: written a window ahead of where it is read.
        ahead = min(window, count)
        returns = [0.0] * (count + ahead)
        left, later = float(_PARTS), []
        for place, spent in zip(self.places, self.parts, strict=True):
            back = max(place + window - position, 0)
            left -= spent
            if back < count:
                returns[back] += spent
            else:
                later.append((place, spent))
        opened, read, ratio = -filled, 0, self._above / self._below
        exact, variance, interval = self.exact, self.variance, self.interval
        step, errors = self._step_variance, deque(self.errors, maxlen=REMEMBERED)
        logarithms, index = noise.ahead(position)
        first, until = -index, len(logarithms) - index  # of known logarithms
        while at < count:
            if at >= until:
                logarithms, index = noise.ahead(at + position)
                first, until = at - index, at - index + len(logarithms)
            left += returns[at] if read == at else sum(returns[read : at + 1])
            read = at + 1
            if interval == 1.0:  # the most frequent: φ·ln 2, which is below the most
                rough = left * _LEAST_SHARE
                part = rough - 0.5 + _WHOLE - _WHOLE
                if not _DOUBT < rough - part < 1 - _DOUBT or part >= _MOST:
                    part = float(self._part_of(int(left), interval))
            else:
                part = float(self._part_of(int(left), interval))
            if part < _LEAST:
                while read < count and not returns[read]:
                    read += 1
                at = read  # nothing returns before
                continue
            rough = ratio / part
            scale = rough + 0.5 + _WHOLE - _WHOLE
            if not _DOUBT < scale - rough < 1 - _DOUBT:
                scale = float(-(-self._above // (self._below * int(part))))
            logarithm = logarithms[at - first]
            product = scale * logarithm
            rest = fmod(product, 1.0)
            draw = product - rest
            if not (EDGE < rest < BEYOND or (draw and -BEYOND < rest < -EDGE)):
                draw = noise.scaled(logarithm, int(scale), at + position)
            number = values[at] + draw
            measured.append(at)
            numbers.append(number)
            scales.append(scale)
            # What `follow` does.
            variance += (at + 1 - opened) * step
            gain = variance / (variance + 2.0 * scale * scale)
            before = exact
            exact += gain * (number - before)
            variance *= 1.0 - gain
            error = exact - before if exact > before else before - exact
            if exact > 1.0:
                error /= exact
            errors.append(error)
            returns[at + ahead] = part
            left -= part
            opened = at = at + 1
            if error < SURE or interval != 1.0:
                interval = next_interval(interval, error, errors)
                at += (round(interval) if interval < window else window) - 1
            due = at
        self.due = due + position
        self.exact, self.variance, self.interval = exact, variance, interval
        self.errors = list(errors)
        unread = enumerate(returns[read:count], position - window + read)
        new = enumerate(returns[count:], position - ahead + count)
        kept = [(place, int(part)) for place, part in unread if part] + later
        kept += [(place, int(part)) for place, part in new if part]
        self.places, self.parts = [place for place, _ in kept], [part for _, part in kept]
        return [start + place for place in measured], numbers, scales

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
