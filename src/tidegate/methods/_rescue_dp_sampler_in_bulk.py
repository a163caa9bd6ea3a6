"""The sampler of `rescue_dp`, for many values at once.

Decisions follow one after the other, so there is a loop. It takes every float for what it rounds
to, and e^x from the mathematical library. Afterwards arrays show, for all values at once, whether
a float was so near to an integer that another number is the right one, and which intervals exact
exponentials give. If one decision differs, the definition (`RescueDPOneByOne`) decides all of them;
until then no state has changed.
"""

from __future__ import annotations

import math

import numpy as np

from tidegate.estimate.mixture.portable_exp_and_log import exp
from tidegate.lattice import FloatArray, IntArray
from tidegate.methods._kalman_and_controller import (
    FARTHEST,
    INTEGRAL,
    ONE_SURELY,
    PROPORTIONAL,
    REMEMBERED,
    SET_POINT,
    STEP,
    SURE,
)
from tidegate.methods._rescue_dp_sampler_one_by_one import (
    DOUBT,
    LEAST,
    LEAST_SHARE,
    MOST,
    PARTS,
    ROUGH_MOST,
    ROUGH_SHARE,
    RescueDPOneByOne,
    RescueDPStage,
    rough_rescue_share,
)
from tidegate.perturb.position_noise import USUAL_SCALES
from tidegate.perturb.rounding_by_addition import CENTRE, WHOLE, near_integers
from tidegate.perturb.sampled_values import Measurements, Stretch, one_by_one
from tidegate.stages.noisy import Filtered

_NEARLY_HALF = 0.5 - 2.0**-20  # of what is rounded down


class RescueDPInBulk(RescueDPOneByOne):
    """`RescueDPOneByOne`, with a `sweep` of the same result."""

    def __init__(self, stage: RescueDPStage, threshold: int) -> None:
        super().__init__(stage, threshold)
        above, below = stage.scale_ratio(threshold)
        self._ratio = above / below  # of a scale times the parts it costs
        self._huge = self.scale_of(LEAST) >= USUAL_SCALES
        self._least_scale = self.scale_of(MOST)
        self.filtered: Filtered | None = None  # of the last sweep

    def sweep(self, stretch: Stretch) -> Measurements:
        """`push` and `measured` for many values: stops only where a measurement is due.

        Whole numbers are floats here, exact below 2^53.
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
        # What comes back at each value: `ahead` values after it was spent.
        ahead = min(window, count)
        returns = [0.0] * (ahead + begin)
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
        # and to the nearest. NaN, which no comparison holds for, where the noise may be −0.
        halved = values - np.copysign(0.5, logs)
        halved[(logs <= 0) & (logs * -self._least_scale < 1)] = math.nan
        towards, logarithms = halved.tolist(), logs.tolist()
        means, drawn = list[float](), dict[int, float]()  # of the filter; numbers at NaNs
        by_integers: set[int] = set()  # which numbers have noise that was found so
        # Half of the variance, with half steps: what is divided is the same, with one factor less.
        exact, half, interval, first = self.exact, self.variance / 2, self.interval, self.filter
        step, errors = self._step_variance / 2, self.errors.copy()
        # After which measurement which interval holds, and of which power of e it was made.
        changes, intervals, powers = [-1], [interval], list[float]()
        refused = list[tuple[int, int, bool]]()  # which interval, what was left, if too little
        exponential, logarithm, exact_sum = math.exp, math.log, math.fsum
        zeros = [0.0] * ahead
        # Below `low` the next value is no usual one: the interval is not 1, or nothing is left, or
        # the value before was not measured. Below `sure` an error may change the interval.
        low, sure = math.inf, SURE if interval == 1.0 else math.inf
        opened, stuck = -filled, False
        share, most, least = rough_rescue_share(interval), float(MOST), float(LEAST)
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
                    part = left * share - _NEARLY_HALF + whole - whole
                    if part > most:
                        part = most
                    elif part < least:
                        if not stuck or returns[at]:
                            stuck = self.part_of(int(left), interval) < LEAST
                            refused.append((len(intervals) - 1, int(left), stuck))
                        if stuck:
                            low = math.inf
                            returns.append(0.0)
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
                returns.append(part)
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
                # The controller: `controlled_interval`, with an exponential that is checked
                # afterwards.
                power = (PROPORTIONAL * error - SET_POINT) / SET_POINT
                surely = power > 0 and interval - STEP * (power + power * power / 2) < ONE_SURELY
                if not surely:
                    last = errors[-REMEMBERED:]
                    signal = PROPORTIONAL * error + INTEGRAL * (exact_sum(last) / len(last))
                    power = (signal - SET_POINT) / SET_POINT
                    if power >= 0:
                        if interval == 1.0:
                            continue
                        surely = interval - STEP * (power + power * power / 2) < ONE_SURELY
                changes.append(at)
                powers.append(power)
                if surely:
                    interval = 1.0
                else:
                    interval += STEP * (1 - exponential(power if power < FARTHEST else FARTHEST))
                if interval <= 1.0:
                    interval, low, sure, share = 1.0, least, SURE, LEAST_SHARE
                    intervals.append(1.0)
                    continue
                intervals.append(interval)
                low = sure = math.inf
                share = ROUGH_SHARE * logarithm(interval + 1)
                if share > ROUGH_MOST:
                    share = ROUGH_MOST
                opened = at + 1
                begin = at + (round(interval) if interval < window else window)
                if begin > opened:
                    left += sum(returns[opened:begin])
                    returns += zeros[: (begin if begin < count else count) - opened]
                    break
            else:
                break
        moved = np.fromiter(returns, np.float64, len(returns))
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
        right = self._right_intervals(np.array(intervals), np.array(powers), refused)
        if right is None or not (
            self._right_parts(lefts, parts, np.searchsorted(places, changes, "right"), right)
            and self._right_scales(rough, scales, parts)
            and noise.right(draws, scales, factors, places + position, by_integers)
        ):
            return one_by_one(self, stretch)
        interval = float(right[-1])
        self.exact, self.variance, self.interval = exact, half * 2, interval
        self.errors = errors[-REMEMBERED:]
        if places.size:
            opened = int(places[-1]) + 1
            self.due = position + opened - 1 + round(min(interval, float(window)))
        read = count if stuck else opened
        self._pass(opened, count, edges)
        self.filtered = Filtered(first, self.filter, np.fromiter(means, np.float64, len(means)))
        unread = enumerate(returns[read:count], position - window + read)
        new = enumerate(returns[count:], position - ahead + count)
        kept = [*(each for each in unread if each[1]), *later, *(each for each in new if each[1])]
        self.places, self.parts = [place for place, _ in kept], [int(part) for _, part in kept]
        return places + start, released, scales

    def _pass(self, opened: int, count: int, edges: list[int]) -> None:
        """Close the leaf that is open since `opened` at the ends of blocks, up to `count`."""
        for edge in reversed(edges):
            if opened < edge <= count:
                self.follow(0, edge - opened, 0)
                opened = edge

    def _right_intervals(
        self, proposed: FloatArray, powers: FloatArray, refused: list[tuple[int, int, bool]]
    ) -> FloatArray | None:
        """The controller's exact intervals. None: they would change a decision that floats made."""
        falls = STEP * (powers + powers * powers / 2)
        surely = (powers > 0) & (proposed[:-1] - falls < ONE_SURELY)  # 1, without an exponential
        growths = np.full(powers.size, -math.inf)
        growths[~surely] = STEP * (1 - exp(np.minimum(powers[~surely], FARTHEST)))
        before, right = proposed[:-1], proposed.copy()
        right[1:] = np.maximum(before + growths, 1.0)  # before an interval of 1, and surely
        for at in np.flatnonzero((before != 1.0) & ~surely).tolist():
            right[at + 1] = max(float(right[at] + growths[at]), 1.0)
        longest = float(self._window)
        if (
            np.any((right == 1.0) != (proposed == 1.0))
            or np.any(np.rint(np.minimum(right, longest)) != np.rint(np.minimum(proposed, longest)))
            or np.any((right[:-1] - falls >= ONE_SURELY)[surely])
            or any(
                (self.part_of(left, float(right[at])) < LEAST) != stuck
                for at, left, stuck in refused
            )
        ):
            return None
        return right

    def _right_parts(
        self,
        lefts: FloatArray,
        parts: FloatArray,
        since: IntArray,
        intervals: FloatArray,
    ) -> bool:
        """Whether these shares of the rest, which floats proposed, are exact.

        An interval holds from one of the measurements `since` up to the next.
        """
        made = np.diff(np.append(since, parts.size))
        shares = np.minimum(ROUGH_SHARE * np.log(intervals + 1), ROUGH_MOST)
        rest = np.minimum(lefts * np.repeat(shares, made), MOST + 0.5) - parts
        doubted = near_integers(rest, DOUBT)
        since_last = np.repeat(intervals, made) if doubted else ()
        return all(
            self.part_of(int(lefts[at]), float(since_last[at])) == parts[at] for at in doubted
        )

    def _right_scales(self, rough: FloatArray, scales: FloatArray, parts: FloatArray) -> bool:
        """Whether these noise scales of measurements that cost `parts` are exact."""
        return all(
            self.scale_of(int(parts[at])) == scales[at]
            for at in near_integers(scales - rough, DOUBT)
        )
