"""What the server does: reports in, means out. Never imports the users' side."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tidegate.lattice import IntArray
from tidegate.local.series.randomized_response import (
    Bits,
    as_signs,
    contrast,
    share_of_ones,
    share_variance,
)
from tidegate.local.series.schemes import Changes, PopulationDivision, Updates
from tidegate.randomness import WordSource

_GRAIN = 1 << 20  # published means are multiples of 1/2**20, so that devices compare them exactly


class ChangeCollector:
    """The means of `Changes`: running sums over nodes of a binary tree."""

    def __init__(self, scheme: Changes, users: int) -> None:
        self._factor = scheme.levels * scheme.changes / contrast(scheme.epsilon) / users
        self._nodes = np.zeros(scheme.levels)  # the last complete node of each level
        self._step = 0

    def collect(self, levels: IntArray, plus: Bits) -> float:
        """The signs of one step, with the levels of those who sent them; gives the mean."""
        self._step += 1
        sums = np.bincount(levels, as_signs(plus), minlength=self._nodes.size)
        ended = self._step % (1 << np.arange(self._nodes.size)) == 0
        self._nodes[ended] = sums[ended]
        # The prefix [0, step) is made of the last node of every level whose bit is set.
        used = self._step >> np.arange(self._nodes.size) & 1 == 1
        return float(self._factor * self._nodes[used].sum())


class UpdateCollector:
    """The mean of `Updates`: as it was published last."""

    def __init__(self, scheme: Updates) -> None:
        self._scheme = scheme
        self.published = Fraction(1, 2)
        self.updates = 0

    def wanted(self, votes: Bits) -> bool:
        """Whether enough users say that the mean is out of date; the first epoch always updates."""
        yes = share_of_ones(int(votes.sum()), votes.size, self._scheme.vote_epsilon)
        return self.updates < self._scheme.updates and (
            not self.updates or yes > self._scheme.quorum
        )

    def collect(self, reports: Bits) -> None:
        """An update."""
        mean = share_of_ones(int(reports.sum()), reports.size, self._scheme.report_epsilon)
        self.published = Fraction(round(min(max(mean, 0.0), 1.0) * _GRAIN), _GRAIN)
        self.updates += 1


class PopulationCollector:
    """The means of `PopulationDivision`, and whom to ask at each step.

    Users are taken in a random order, again and again. Of any w steps no more than all users are
    asked, so that whoever is next has been left alone for w steps.
    """

    def __init__(self, scheme: PopulationDivision, users: int, words: WordSource) -> None:
        self._scheme = scheme
        parts = scheme.window if scheme.division == "uniform" else 2 * scheme.window
        self.group = users // parts
        self._free = np.argsort(words.take(users)).tolist()
        self._out: list[tuple[int, list[int]]] = []  # the step, and who was asked in it
        self.mean = 0.5
        self._step = -1
        self._absorbed = 0  # groups that steps without a publication have left over
        self._owed = 0  # steps that a large publication has used up in advance

    def begin(self) -> IntArray:
        """A step begins; gives whom to ask first."""
        self._step += 1
        while self._out and self._out[0][0] <= self._step - self._scheme.window:
            self._free += self._out.pop(0)[1]
        return self._take(self.group)

    def collect(self, reports: Bits) -> IntArray:
        """What they said; gives whom to ask for a new mean: nobody, if the old one will do."""
        epsilon, seen = self._scheme.epsilon, self._mean(reports)
        if self._scheme.division == "uniform":
            self.mean = seen
            return self._take(0)
        if self._owed:
            self._owed -= 1
            return self._take(0)
        self._absorbed = min(self._absorbed + 1, self._scheme.window)
        moved = (seen - self.mean) ** 2 - share_variance(reports.size, epsilon)
        if moved <= share_variance(self._absorbed * self.group, epsilon):
            return self._take(0)
        asked = self._take(self._absorbed * self.group)
        self._owed, self._absorbed = self._absorbed - 1, 0
        return asked

    def publish(self, reports: Bits) -> None:
        """A new mean, if anybody was asked for one."""
        if reports.size:
            self.mean = self._mean(reports)

    def _mean(self, reports: Bits) -> float:
        return share_of_ones(int(reports.sum()), reports.size, self._scheme.epsilon)

    def _take(self, count: int) -> IntArray:
        asked, self._free = self._free[:count], self._free[count:]
        self._out.append((self._step, asked))
        return np.array(asked, dtype=np.int64)
