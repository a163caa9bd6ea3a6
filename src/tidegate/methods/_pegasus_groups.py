"""Where groups of similar values end: the noisy tests of PeGaSus, mostly decided by bounds.

A test asks whether D plus noise lies below a limit, with D = ⌊S⌋ and S = Σ |x − mean| over the
group and the value. A value x that joins n values of mean m moves the mean by (x − m)/(n + 1). So
the n deviations change by at most n·|x − m|/(n + 1) together, and x adds as much:

    S  ≤  S of the group with x  ≤  S + 2n·|x − m|/(n + 1).

S never falls, and grows by no more than a sum that costs one step a value. Deviations add up to 0,
so S with x is also at least twice that of x itself, 2n·|x − m|/(n + 1). A test that both bounds
decide alike is decided; for any other, D is computed, in whole numbers. Bounds are floats, with
room for their rounding: they change the time it takes, and no decision.
"""

from __future__ import annotations

import numpy as np

from tidegate.lattice import IntArray

_ROUNDING = 1 + 1e-9  # of sums of up to 2^14 floats: far more than their errors
_TWICE, _ROUNDED_DOWN = 2 * _ROUNDING, 1 / _ROUNDING**2
_FEW = 96  # values whose D is computed without arrays
_LONG = 96  # values of a group from which on many values are tested at a time
_AHEAD = 512  # how many values are tested at a time


class Grouping:
    """The open group. Its members are raw values: secret."""

    def __init__(self, public: int, longest: int) -> None:
        self._public, self._longest = public, max(2, longest)  # a first value is not tested
        self._longest_short = min(_LONG, self._longest)
        self._members: IntArray = np.zeros(self._longest, dtype=np.int64)
        self._count = self._total = 0
        self._least = 0  # what D is at least
        self._most = 0.0  # and S at most
        self.limit = 0  # of the open group, with its noise

    @property
    def members(self) -> list[int]:
        """The values of the open group; none: no group is open."""
        found: list[int] = self._members[: self._count].tolist()
        return found

    @members.setter
    def members(self, members: list[int]) -> None:
        self._count, self._total = len(members), sum(members)
        self._members[: self._count] = members
        self._least = self._deviation(self._count, self._total) if members else 0
        self._most = float(1 + self._least)

    def opens(self, values: IntArray, tests: IntArray, limits: IntArray) -> list[int]:
        """Test values one after the other; give the places of those that open a group.

        `limits` is the noise of the limits of new groups.
        """
        opens: list[int] = []
        listed = values.tolist(), tests.tolist()
        at = 0
        while at < values.size:
            if self._count < self._longest_short:
                at = self._one_by_one(*listed, limits, at, opens)
                continue
            stop = min(values.size, at + _AHEAD, at + self._longest - self._count)
            joined = self._many(values[at:stop], tests[at:stop])
            at += joined
            if at < stop:
                opens.append(at)
                at += 1
                self._count = 0
            elif self._count >= self._longest:
                self._count = 0
        return opens

    def _one_by_one(
        self, values: list[int], tests: list[int], limits: IntArray, start: int, opens: list[int]
    ) -> int:
        """Test values until a group is long; gives where that is."""
        count, total, limit = self._count, self._total, self.limit
        least, most, longest = self._least, self._most * _ROUNDING, self._longest_short
        before, opened = self.members, start  # of the open group: members until here, and from here
        place = start
        for place, value, test in zip(
            range(start, len(values)), values[start:], tests[start:], strict=True
        ):
            if not count:
                opens.append(place)
                limit = self._public + limits.item(place)
                count, total, least, most = 1, value, 0, 0.0
                before, opened = [], place
                continue
            off = value * count - total
            count += 1
            grown = (off if off > 0 else -off) * _TWICE / count
            most += grown
            total += value
            if most + test >= limit:
                if grown * _ROUNDED_DOWN - 1 + test >= limit:
                    opens.append(place)
                    count = 0
                    continue
                if least + test < limit:
                    least = _deviation(before + values[opened : place + 1], total)
                    most = (least + 1) * _ROUNDING
                if least + test >= limit:
                    opens.append(place)
                    count = 0
                    continue
            if count >= longest:
                break
        if count >= self._longest:
            count = 0
        self._count, self._total, self.limit = count, total, limit
        self._least, self._most = least, most
        if count:
            self._members[:count] = before + values[opened : place + 1]
        return place + 1

    def _many(self, values: IntArray, tests: IntArray) -> int:
        """The same for a long group, in arrays."""
        before = self._count
        self._members[before : before + values.size] = values
        totals = self._total + np.cumsum(values)
        counts = np.arange(before + 1, before + values.size + 1)
        means = (totals - values) / (counts - 1)
        grown = np.cumsum(2 * np.abs(values - means) * ((counts - 1) / counts))
        base, done = self._most, 0
        while True:
            bound = (base + grown[done:]) * _ROUNDING + tests[done:] >= self.limit
            first = int(bound.argmax())
            if not bound[first]:
                break
            place = done + first
            test = int(tests[place])
            if self._least + test < self.limit:
                self._least = self._deviation(before + place + 1, int(totals[place]))
            if self._least + test >= self.limit:
                self._count += place
                self._total = int(totals[place]) - int(values[place])
                return place
            base, done = self._least + 1 - float(grown[place]), place + 1
            if done == values.size:
                break
        self._most = base + float(grown[-1])
        self._count, self._total = before + values.size, int(totals[-1])
        return values.size

    def _deviation(self, count: int, total: int) -> int:
        """⌊Σ |x − mean|⌋ = ⌊2·(low·total − n·below)/n⌋, with `low` members below the mean."""
        members = self._members[:count]
        lower = members[members <= (total - 1) // count]
        return 2 * (lower.size * total - count * int(lower.sum())) // count


def _deviation(group: list[int], total: int) -> int:
    count = len(group)
    if count > _FEW:
        members = np.array(group)
        lower = members[members <= (total - 1) // count]
        return 2 * (lower.size * total - count * int(lower.sum())) // count
    mean = (total - 1) // count
    lower_values = [value for value in group if value <= mean]
    return 2 * (len(lower_values) * total - count * sum(lower_values)) // count
