"""The sampler of `rescue_dp`: when to measure, and with what part of a window's budget."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Context, Decimal
from fractions import Fraction
from itertools import islice
from typing import ClassVar, Protocol

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.methods._kalman_and_controller import (
    REMEMBERED,
    SURE,
    Feedback,
    next_interval,
    stays,
)
from tidegate.perturb.position_noise import USUAL_SCALES
from tidegate.perturb.sampled_values import (
    WHOLE,
    Measurements,
    Stretch,
    near_integers,
    one_by_one,
)

PARTS = 1 << 32  # of ε: what is spent is counted in these
LEAST = 1 << 12  # parts below which nothing is measured: its noise would be of no use
# The paper's constants: a measurement takes φ·ln(interval + 1) of what is left, at most 0.6 of it,
# and at most a fifth of ε.
_SHARE, _MOST_SHARE, _MOST = Decimal("0.2"), Decimal("0.6"), PARTS // 5
_LEAST_SHARE = float(_SHARE) * math.log(2)  # at an interval of 1
_ROUGH_SHARE, _ROUGH_MOST = float(_SHARE), float(_MOST_SHARE)
_DIGITS = Context(prec=30)
_DOUBT = 1e-5  # 2^32 times the error of a share is below 1.2e-6
_MANY = 1 << 20  # values of which all sums are exact
_DOWN = WHOLE - 0.5  # added to a float of at least ½, before WHOLE is taken away, it rounds down


class _Budgeted(Protocol):
    """The stage, as far as the sampler asks it."""

    @property
    def window(self) -> int: ...

    @property
    def movement(self) -> Fraction: ...

    def scale(self, threshold: int, parts: int) -> int: ...

    def scale_ratio(self, threshold: int) -> tuple[int, int]: ...


class BudgetSampler(Feedback):
    """Asks for a measurement when the interval is over. Its state holds no raw value."""

    STATE: ClassVar[tuple[str, ...]] = (*Feedback.STATE, "places", "parts", "due")

    def __init__(self, stage: _Budgeted, threshold: int) -> None:
        super().__init__(threshold, Fraction(stage.movement))
        self._stage, self._window, self._threshold = stage, stage.window, threshold
        self.places: list[int] = []  # where something was spent, within the last window
        self.parts: list[int] = []  # how much
        self.due = 0  # the position to measure next
        self._offer = self._position = 0
        above, below = stage.scale_ratio(threshold)
        self._ratio = above / below  # of a scale times the parts it costs
        self._huge = self._scale_of(LEAST) >= USUAL_SCALES

    def push(self, value: int, position: int) -> int:
        """The value itself decides nothing."""
        if position < self.due:
            return 0
        self._position = position
        while self.places and self.places[0] <= position - self._window:
            del self.places[0], self.parts[0]
        self._offer = self._part_of(PARTS - sum(self.parts), self.interval)
        if self._offer < LEAST:
            return 0
        return self._scale_of(self._offer)

    def measured(self, number: int, span: int, scale: int) -> None:
        """Let filter and controller see what was released, and remember what it cost."""
        self.follow(number, span, scale)
        if scale:
            self.places.append(self._position)
            self.parts.append(self._offer)
            self.due = self._position + round(min(self.interval, float(self._window)))

    def sweep(self, stretch: Stretch) -> Measurements:
        """`push` and `measured` for many values: only where a measurement is due.

        Whole numbers are floats here, exact below 2^53. The loop takes every float for what it is
        rounded to; afterwards it is seen, for all values at once, whether one was so near to an
        integer that this was wrong. Then the definition decides.
        """
        units, start, stop, position, filled, noise = stretch
        window, count = self._window, stop - start
        skip = max(0, self.due - position)
        if self._huge or count > _MANY:
            return one_by_one(self, stretch)
        if skip >= count:
            return [], [], []
        # What comes back at each value. The list grows while it is read: what is spent at a value
        # is added to it, and comes back a window later.
        ahead = min(window, count)
        returned = [0.0] * ahead
        left, later = float(PARTS), []
        for place, spent in zip(self.places, self.parts, strict=True):
            when = max(place + window - position, 0)
            left -= spent
            if when < count:
                returned[when] += spent
            else:
                later.append((place, spent))
        first_left, ratio = left, self._ratio
        exact, variance, interval = self.exact, self.variance, self.interval
        step, errors = self._step_variance, self.errors.copy()
        known: dict[int, float] = {}  # noise that was found by integers, by the value's place
        # Since where which interval and share hold.
        changes, intervals, shares = [0], [interval], [_rough_share(interval)]
        values, logs = units[start:stop].astype(np.float64), noise.between(position, count)
        # `_DOWN` with the sign of the noise, and these, round noise towards 0 and add the value.
        offsets = values - np.copysign(WHOLE, logs)
        # Below `low` the next value is no usual one: the interval is not 1, or nothing is left, or
        # the value before was not measured. Below `sure` an error may change the interval.
        low, sure = math.inf, SURE if interval == 1.0 else math.inf
        opened, due, stuck = -filled, self.due - position, False
        share, part, whole, down, up = shares[0], 0.0, WHOLE, _DOWN, -_DOWN
        least, most = float(LEAST), float(_MOST)
        rows = zip(logs.tolist(), offsets.tolist(), returned, strict=False)
        if skip:
            left += _passed_over(rows, returned, ahead, skip)
        for logarithm, offset, back in rows:
            left += back - part
            part = left * share + down - whole
            if part >= low:
                variance += step
            else:
                at = len(returned) - ahead
                if low < math.inf:
                    opened = due = at
                if part < LEAST:
                    if not stuck or back:
                        stuck = self._part_of(int(left), interval) < LEAST
                    if stuck:
                        low, part = math.inf, 0.0
                        returned.append(part)
                        continue
                stuck = False
                part = min(part, most)
                low = least if interval == 1.0 else math.inf
                variance += (at + 1 - opened) * step
            scale = ratio / part + 0.5 + whole - whole
            number = scale * logarithm
            if number >= 1.0:
                number += down
            elif number <= -1.0:
                number += up
            else:  # 0, or −0, which is thrown away
                at = len(returned) - ahead
                known[at] = float(noise.scaled(logarithm, int(scale), at + position))
                number = known[at] + (float(values[at]) - offset)
            # What `follow` does.
            gain = variance / (variance + 2.0 * scale * scale)
            before = exact
            exact += gain * (number + offset - before)
            variance *= 1.0 - gain
            error = exact - before if exact > before else before - exact
            if exact > 1.0:
                error /= exact
            errors.append(error)
            returned.append(part)
            if error < sure:
                last = errors[-REMEMBERED:]
                if sure < math.inf and stays(error, sum(last)):
                    continue
                before, interval = interval, next_interval(interval, error, last)
                if interval != 1.0:
                    low = sure = math.inf
                    share = _rough_share(interval)
                    opened = due = len(returned) - ahead
                    if skip := (round(interval) if interval < window else window) - 1:
                        due += skip
                        left += _passed_over(rows, returned, ahead, skip)
                elif before != 1.0:
                    low, sure, share = least, SURE, _LEAST_SHARE
                else:
                    continue
                changes.append(len(returned) - ahead)
                intervals.append(interval)
                shares.append(share)
        moved = np.array(returned)
        paid = moved[ahead : ahead + count]
        places = paid.nonzero()[0]
        parts, logs = paid[places], logs[places]
        rough = ratio / parts
        scales = rough + 0.5 + WHOLE - WHOLE
        draws = scales * logs
        draws += np.copysign(_DOWN, draws)
        draws -= np.copysign(WHOLE, draws)
        by_integers = np.searchsorted(places, list(known)).tolist()
        draws[by_integers] = list(known.values())
        lefts = (np.cumsum(moved[:count] - paid) + first_left)[places] + parts
        if not (
            self._right_parts(lefts, parts, places, (changes, intervals, shares))
            and self._right_scales(rough, scales, parts)
            and noise.right(draws, scales, logs, places + position, set(by_integers))
        ):
            return one_by_one(self, stretch)
        read = count
        if not stuck:
            read, due = int(places[-1]) + 1, len(returned) - ahead
        self.due = due + position
        self.exact, self.variance, self.interval = exact, variance, interval
        self.errors = errors[-REMEMBERED:]
        unread = enumerate(returned[read:count], position - window + read)
        new = enumerate(returned[count:], position - ahead + count)
        kept = [(place, int(part)) for place, part in unread if part] + later
        kept += [(place, int(part)) for place, part in new if part]
        self.places, self.parts = [place for place, _ in kept], [part for _, part in kept]
        return places + start, values[places] + draws, scales

    def _right_parts(
        self,
        lefts: FloatArray,
        parts: FloatArray,
        places: IntArray,
        since: tuple[list[int], list[float], list[float]],
    ) -> bool:
        """Whether these are the parts to spend of what is left, where floats proposed them."""
        changes, intervals, shares = since
        # How many measurements were made between changes.
        made = np.diff([*np.searchsorted(places, changes), places.size])
        rest = np.minimum(lefts * np.repeat(shares, made), _MOST + 0.5) - parts
        doubted = near_integers(rest, _DOUBT)
        since_last = np.repeat(intervals, made) if doubted else ()
        return all(
            self._part_of(int(lefts[at]), float(since_last[at])) == parts[at] for at in doubted
        )

    def _right_scales(self, rough: FloatArray, scales: FloatArray, parts: FloatArray) -> bool:
        """Whether these are the scales of measurements that cost `parts`."""
        return all(
            self._scale_of(int(parts[at])) == scales[at]
            for at in near_integers(scales - rough, _DOUBT)
        )

    def _scale_of(self, parts: int) -> int:
        """The scale of the noise of a measurement that costs `parts`."""
        return self._stage.scale(self._threshold, parts)

    def _part_of(self, left: int, interval: float) -> int:
        """min(φ·ln(interval + 1), 0.6) of what is left, rounded down, and at most a fifth of ε.

        The same on every machine: a float only proposes, since near to an integer decimals decide.
        """
        rough = left * _rough_share(interval)
        part = int(rough)
        if not _DOUBT < rough - part < 1 - _DOUBT:
            exact = min(_SHARE * Decimal(interval + 1).ln(_DIGITS), _MOST_SHARE)
            part = int(left * Fraction(exact))
        return part if part < _MOST else _MOST


def _rough_share(interval: float) -> float:
    """The share of what is left that a measurement takes, nearly."""
    share = _ROUGH_SHARE * math.log(interval + 1)
    return share if share < _ROUGH_MOST else _ROUGH_MOST


def _passed_over(
    rows: Iterator[tuple[float, float, float]], returned: list[float], ahead: int, count: int
) -> float:
    """What comes back while nothing is measured of so many values."""
    at = len(returned) - ahead
    returned += [0.0] * count
    next(islice(rows, count, count), None)
    return sum(returned[at : at + count])
