"""Where groups of similar values end: the noisy tests of PeGaSus, mostly decided by bounds.

A test asks whether D plus noise lies below a limit, with D = ⌊S⌋ and S = Σ |x − mean| over the
group and the value. A value x that joins n values of mean m moves the mean by (x − m)/(n + 1). So
the n deviations change by at most n·|x − m|/(n + 1) together, and x adds as much:

    S  ≤  S of the group with x  ≤  S + 2n·|x − m|/(n + 1).

S never falls, and grows by no more than a sum that costs one step a value. Deviations add up to 0,
so S is twice the sum of the positive ones, and at least twice the sum of x − mean over any of the
values: over x itself, 2n·|x − m|/(n + 1), or over those that lay above the mean when they joined,
which are nearly the right ones. A test that bounds decide alike is decided; for any other, D is
computed, in whole numbers. Bounds are floats, with room for their rounding: they change the time it
takes, and no decision.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from tidegate.lattice import FloatArray, IntArray

_ROUNDING = 1 + 1e-9  # of sums of up to 2^14 floats: far more than their errors
_TWICE, _ROUNDED_DOWN = 2 * _ROUNDING, 1 / _ROUNDING**2
_HALF_ROUNDED_UP = 0.5 * _ROUNDING
LONGEST = 1 << 14  # values of a group: they are part of the state
_LONG = 128  # values of a group from which on many values are tested at a time
# 2·128²·2^36 < 2^53; and a value below a mean of 128 is below it by 1/128, far more than rounding.
_EXACT = 1 << 36
_AHEAD = 1024  # the most values tested at a time; at first the size of the last group


@cache
def _counts_in_group() -> FloatArray:
    return np.arange(LONGEST + 1, dtype=np.float64)


_Listed = tuple[list[float], list[float], list[float]]  # values, tests, limits: whole numbers


class PegasusGrouping:
    """The open group and its test. Its members are raw values: secret."""

    def __init__(self, public: int, longest: int, threshold: int) -> None:
        # Sums of products of a few values, group by group, are exact as floats then, and faster.
        self._in_floats = threshold < _EXACT and public < _EXACT
        self._public, self._longest = public, max(2, longest)  # a first value is not tested
        self._longest_short = min(_LONG, self._longest)
        self._members: IntArray = np.zeros(self._longest, dtype=np.int64)
        self._count = self._total = 0
        self._least = 0  # a lower bound of D
        self._most = 0.0  # an upper bound of S
        self.limit = 0  # the limit of the open group, with its noise
        # For speed alone: whether a group begins in arrays, and how many values are tested then.
        self._in_arrays, self._usual = False, _LONG
        self._slack = threshold * 2.0**-36 + 2.0**-20  # for the rounding of sums of differences

    @property
    def members(self) -> list[int]:
        """The values of the open group; empty: none is open."""
        found: list[int] = self._members[: self._count].tolist()
        return found

    @members.setter
    def members(self, members: list[int]) -> None:
        self._count, self._total = len(members), sum(members)
        self._members[: self._count] = members
        self._least = self._deviation(self._count, self._total) if members else 0
        self._most = float(1 + self._least)

    def opens(self, values: IntArray, tests: IntArray, limits: IntArray) -> list[int]:
        """Test values one after another; return the indices of those that open a group.

        `limits` is the noise of the limits of new groups.
        """
        opens: list[int] = []
        listed: _Listed | None = None
        at = 0
        while at < values.size:
            if self._count < self._longest_short and not self._in_arrays:
                if listed is None:
                    listed = self._listed(values), self._listed(tests), self._listed(limits)
                at = self._one_by_one(listed, at, opens)
                self._in_arrays = self._count > 0
                continue
            if not self._count:
                self._open(int(values[at]), self._public + int(limits[at]))
                opens.append(at)
                at += 1
            ahead = min(_AHEAD, max(self._usual, self._count))
            stop = min(values.size, at + ahead, at + self._longest - self._count)
            at += self._many(values[at:stop], tests[at:stop])
            if at < stop:
                opens.append(at)
                at += 1
            elif self._count < self._longest:
                continue
            # The next group is perhaps as long.
            self._in_arrays = self._count >= 2 * _LONG
            self._usual, self._count = self._count * 5 // 4, 0
        return opens

    def _listed(self, numbers: IntArray) -> list[float]:
        found: list[float] = (numbers.astype(np.float64) if self._in_floats else numbers).tolist()
        return found

    def _open(self, value: int, limit: int) -> None:
        """Begin a group."""
        self._count, self._total, self.limit = 1, value, limit
        self._least, self._most, self._members[0] = 0, 0.0, value

    def _one_by_one(self, listed: _Listed, start: int, opens: list[int]) -> int:
        """Test values until the group is long; return how many were tested."""
        values, tests, limits = listed
        in_floats = self._in_floats
        one = 1.0 if in_floats else 1
        count, total, limit = self._count * one, self._total * one, self.limit * one
        least, most, longest = self._least * one, self._most * _ROUNDING, self._longest_short
        public = self._public * one
        # The open group: its members until here, and from here; its first member, if that is one
        # of the latter; how many of the latter lay above the mean when they joined; their sum.
        before, opened = list[float](self.members), start
        nothing = one - one
        first, high_total, high_count = math.nan, nothing, nothing
        place = start
        for place, value, test in zip(
            range(start, len(values)), values[start:], tests[start:], strict=True
        ):
            if count:
                off = value * count - total
                count += one
                total += value
                if off > 0:
                    high_total += value
                    high_count += one
                    grown = off * _TWICE / count
                else:
                    grown = off * -_TWICE / count
                most += grown
                if most + test >= limit:
                    if grown * _ROUNDED_DOWN - 1.0 + test >= limit:
                        opens.append(place)
                        count = 0
                        continue
                    if least + test < limit:
                        # 2·Σ (x − mean) over the high values, or those and the first.
                        enough = (limit - test) * count * _HALF_ROUNDED_UP
                        low_by = high_total * count - high_count * total
                        if low_by >= enough or low_by + first * count - total >= enough:
                            opens.append(place)
                            count = 0
                            continue
                        group = values[opened : place + 1]
                        if before:
                            group = before + group
                        if in_floats:  # `_deviation` written out
                            mean = total / count
                            lower = [each for each in group if each < mean]
                            least = 2.0 * (len(lower) * total - count * sum(lower)) // count
                        else:
                            least = _deviation_of_group(group, total)
                        most = (least + 1.0) * _ROUNDING
                    if least + test >= limit:
                        opens.append(place)
                        count = 0
                        continue
                if count >= longest:
                    break
            else:
                opens.append(place)
                limit = public + limits[place]
                count, total, least, most = one, value, 0, 0.0
                before, opened, first = [], place, value
                high_total = high_count = nothing
        if count >= self._longest:
            count = 0
        self._count, self._total, self.limit = int(count), int(total), int(limit)
        self._least, self._most = int(least), most
        if count:
            self._members[: self._count] = before + values[opened : place + 1]
        return place + 1

    def _many(self, values: IntArray, tests: IntArray) -> int:
        """Test the values of a long group, in arrays."""
        before, size = self._count, values.size
        self._members[before : before + size] = values
        totals = np.cumsum(values)
        totals += self._total
        counts = _counts_in_group()[before + 1 : before + size + 1]
        grown = values * counts
        grown -= totals
        np.abs(grown, out=grown)
        grown /= counts
        np.cumsum(grown, out=grown)
        grown *= _TWICE
        bounds = grown + tests
        base, done = self._most * _ROUNDING + self._slack, 0
        while done < size:
            doubtful = bounds[done:] >= self.limit - base
            first = int(doubtful.argmax())
            if not doubtful[first]:
                break
            place = done + first
            test = int(tests[place])
            if self._least + test < self.limit:
                self._least = self._deviation(before + place + 1, int(totals[place]))
            if self._least + test >= self.limit:
                self._count += place
                self._total = int(totals[place]) - int(values[place])
                return place
            base = (self._least + 1) * _ROUNDING + self._slack - float(grown[place])
            done = place + 1
        if size:
            self._most = base + float(grown[-1])
            self._count, self._total = before + size, int(totals[-1])
        return size

    def _deviation(self, count: int, total: int) -> int:
        """⌊Σ |x − mean|⌋ = ⌊2·(low·total − n·below)/n⌋, with `low` members below the mean."""
        members = self._members[:count]
        lower = members[members <= (total - 1) // count]
        return 2 * (lower.size * total - count * int(lower.sum())) // count


def _deviation_of_group(group: list[float], total: float) -> float:
    """The deviation of a short group; integers, as floats where these are exact."""
    count = len(group)
    mean = (total - 1) // count
    lower_values = [value for value in group if value <= mean]
    return 2 * (len(lower_values) * total - count * sum(lower_values)) // count
