"""The sampler of `rescue_dp`: when to measure, and with what part of a window's budget."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
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
    CENTRE,
    WHOLE,
    Measurements,
    Stretch,
    near_integers,
    one_by_one,
)
from tidegate.stages.noisy import Filtered

PARTS = 1 << 32  # of ε: what is spent is counted in these
LEAST = 1 << 12  # parts below which nothing is measured: its noise would be of no use
# The paper's constants: a measurement takes φ·ln(interval + 1) of what is left, at most 0.6 of it,
# and at most a fifth of ε.
_SHARE, _MOST_SHARE, _MOST = Decimal("0.2"), Decimal("0.6"), PARTS // 5
_LEAST_SHARE = float(_SHARE) * math.log(2)  # at an interval of 1
_ROUGH_SHARE, _ROUGH_MOST = float(_SHARE), float(_MOST_SHARE)
_DIGITS = Context(prec=30)
_DOUBT = 1e-5  # 2^32 times the error of a share is below 1.2e-6
_NEARLY_HALF = 0.5 - 2.0**-20  # of what is rounded down


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
        self._least_scale = self._scale_of(_MOST)
        self.filtered: Filtered | None = None  # of the last sweep

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
        self.filtered = None
        units, start, stop, position, filled, ends, noise = stretch
        window, count = self._window, stop - start
        begin = max(0, self.due - position)
        if self._huge:
            return one_by_one(self, stretch)
        edges = [end - start for end in reversed(ends)]  # of blocks; the next one is the last
        if begin >= count:
            self._pass(-filled, count, edges)
            return [], [], []
        # What comes back at each value: written a window ahead of where it is read.
        ahead = min(window, count)
        returns = [0.0] * (count + ahead)
        left, later = float(PARTS), []
        for place, spent in zip(self.places, self.parts, strict=True):
            back = max(place + window - position, 0)
            left -= spent
            if back < count:
                returns[back] += spent
            else:
                later.append((place, spent))
        first_left, ratio = left, self._ratio
        values, logs = units[start:stop].astype(np.float64), noise.between(position, count)
        # A number is scale·logarithm, rounded towards 0, and the value: half of a step towards 0,
        # and to the nearest. NaN, which no comparison holds for, where the noise may be 0 or −0.
        halved = values - np.copysign(0.5, logs)
        halved[np.abs(logs) * self._least_scale < 1] = math.nan
        towards, logarithms = halved.tolist(), logs.tolist()
        means, drawn = list[float](), dict[int, float]()  # of the filter; numbers at NaNs
        by_integers: set[int] = set()  # which numbers have noise that was found so
        # Half of the variance, with half steps: what is divided is the same, with one factor less.
        exact, half, interval, first = self.exact, self.variance / 2, self.interval, self.filter
        step, errors = self._step_variance / 2, self.errors.copy()
        # Since where which interval and share hold.
        changes, intervals, shares = [0], [interval], [_rough_share(interval)]
        # Below `low` the next value is no usual one: the interval is not 1, or nothing is left, or
        # the value before was not measured. Below `sure` an error may change the interval.
        low, sure = math.inf, SURE if interval == 1.0 else math.inf
        opened, stuck = -filled, False
        share, most, least = shares[0], float(_MOST), float(LEAST)
        whole, centre, below = WHOLE, CENTRE, WHOLE - 0.5
        left += sum(returns[:begin])
        while begin < count:
            for at in range(begin, count):
                left += returns[at]
                part = left * share + below - whole
                if part >= low:
                    half += step
                else:
                    if low < math.inf:
                        opened = at
                    # 0.6 of a whole number may be one: rounded down, not to an even one.
                    part = min(left * share - _NEARLY_HALF + whole - whole, most)
                    if part < least:
                        if not stuck or returns[at]:
                            stuck = self._part_of(int(left), interval) < LEAST
                        if stuck:
                            low = math.inf
                            continue
                    stuck = False
                    low = least if interval == 1.0 else math.inf
                    while edges and edges[-1] <= at:
                        edge = edges.pop()
                        if edge > opened:
                            half += (edge - opened) * step
                            opened = edge
                    half += (at + 1 - opened) * step
                scale = ratio / part + 0.5 + whole - whole
                number = scale * logarithms[at] + towards[at] + centre - centre
                gain = half / (half + scale * scale)
                half *= 1.0 - gain  # what `follow` does, from here on
                returns[at + ahead] = part
                left -= part
                before = exact
                exact += gain * (number - before)
                error = exact - before if exact > before else before - exact
                if exact > 1.0:
                    error /= exact
                means.append(exact)
                errors.append(error)
                if error >= sure:
                    continue
                if number != number:  # NaN
                    draw = int(scale * logarithms[at])
                    if not draw:
                        draw = noise.scaled(logarithms[at], int(scale), at + position)
                        by_integers.add(len(means) - 1)
                    drawn[at] = number = draw + float(values[at])
                    exact = means[-1] = before + gain * (number - before)
                    error = abs(exact - before)
                    if exact > 1.0:
                        error /= exact
                    errors[-1] = error
                    if error >= sure:
                        continue
                last = errors[-REMEMBERED:]
                if sure < math.inf and stays(error, sum(last)):
                    continue
                before, interval = interval, next_interval(interval, error, last)
                if interval == before == 1.0:
                    continue
                begin = opened = at + 1
                if interval != 1.0:
                    low = sure = math.inf
                    share = _rough_share(interval)
                    begin = at + (round(interval) if interval < window else window)
                    left += sum(returns[opened:begin])
                else:
                    low, sure, share = least, SURE, _LEAST_SHARE
                changes.append(begin)
                intervals.append(interval)
                shares.append(share)
                break
            else:
                break
        moved = np.array(returns)
        paid = moved[ahead:]
        places = paid.nonzero()[0]
        parts, factors = paid[places], logs[places]
        rough = ratio / parts
        scales = rough + 0.5 + WHOLE - WHOLE
        lefts = (np.cumsum(moved[:count] - paid) + first_left)[places] + parts
        released = scales * factors + halved[places] + CENTRE - CENTRE
        if drawn:
            released[np.searchsorted(places, list(drawn))] = list(drawn.values())
        draws = released - values[places]
        if not (
            self._right_parts(lefts, parts, places, (changes, intervals, shares))
            and self._right_scales(rough, scales, parts)
            and noise.right(draws, scales, factors, places + position, by_integers)
        ):
            return one_by_one(self, stretch)
        self.exact, self.variance, self.interval = exact, half * 2, interval
        self.errors = errors[-REMEMBERED:]
        if places.size:
            opened = int(places[-1]) + 1
            self.due = position + opened - 1 + round(min(interval, float(window)))
        read = count if stuck else opened
        self._pass(opened, count, edges)
        self.filtered = Filtered(first, self.filter, np.array(means))
        unread = enumerate(returns[read:count], position - window + read)
        new = enumerate(returns[count:], position - ahead + count)
        kept = [*(each for each in unread if each[1]), *later, *(each for each in new if each[1])]
        self.places, self.parts = [place for place, _ in kept], [int(part) for _, part in kept]
        return places + start, released, scales

    def _pass(self, opened: int, count: int, edges: list[int]) -> None:
        """Close the leaf that is open since `opened` where blocks end, up to `count`."""
        for edge in reversed(edges):
            if opened < edge <= count:
                self.follow(0, edge - opened, 0)
                opened = edge

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
