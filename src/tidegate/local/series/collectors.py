"""The server's side of series: reports in, means out. Never imports the users' side.

Everything here is computed from reports and public coins: no privacy depends on it.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.local.series.randomized_response import (
    Bits,
    picked,
    response_contrast,
    response_variance,
    responses_as_signs,
    share_of_responses,
)
from tidegate.local.series.schemes import Changes, Patterns, PopulationDivision, Updates
from tidegate.randomness import WordSource

_GRAIN = 1 << 20  # published means are multiples of 1/2**20, so that devices compare them exactly


class ChangeCollector:
    """The means of `Changes`: running sums over nodes of a binary tree."""

    def __init__(self, scheme: Changes, users: int) -> None:
        self._factor = scheme.levels * scheme.changes / response_contrast(scheme.epsilon) / users
        self._nodes = np.zeros(scheme.levels)  # the last complete node of each level
        self._step = 0

    def collect(self, levels: IntArray, plus: Bits) -> float:
        """Take one step's signs and the levels of their senders; return the mean."""
        self._step += 1
        sums = np.bincount(levels, responses_as_signs(plus), minlength=self._nodes.size)
        ended = self._step % (1 << np.arange(self._nodes.size)) == 0
        self._nodes[ended] = sums[ended]
        # The prefix [0, step) is made of the last node of every level whose bit is set.
        used = self._step >> np.arange(self._nodes.size) & 1 == 1
        return float(self._factor * self._nodes[used].sum())


class UpdateCollector:
    """The mean of `Updates`: the last published one."""

    def __init__(self, scheme: Updates) -> None:
        self._scheme = scheme
        self.published = Fraction(1, 2)
        self.updates = 0

    def wanted(self, votes: Bits) -> bool:
        """Whether enough users vote that the mean is outdated; the first epoch always updates."""
        yes = share_of_responses(int(votes.sum()), votes.size, self._scheme.vote_epsilon)
        return self.updates < self._scheme.updates and (
            not self.updates or yes > self._scheme.quorum
        )

    def collect(self, reports: Bits) -> None:
        """Take the reports of an update."""
        mean = share_of_responses(int(reports.sum()), reports.size, self._scheme.report_epsilon)
        self.published = Fraction(round(min(max(mean, 0.0), 1.0) * _GRAIN), _GRAIN)
        self.updates += 1


class PopulationCollector:
    """The means of `PopulationDivision`, and which users report at each step.

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
        """Begin a step; return the users who report first."""
        self._step += 1
        while self._out and self._out[0][0] <= self._step - self._scheme.window:
            self._free += self._out.pop(0)[1]
        return self._take(self.group)

    def collect(self, reports: Bits) -> IntArray:
        """Take their reports; return who reports for a new mean: nobody, if the old one will do."""
        epsilon, seen = self._scheme.epsilon, self._mean(reports)
        if self._scheme.division == "uniform":
            self.mean = seen
            return self._take(0)
        if self._owed:
            self._owed -= 1
            return self._take(0)
        self._absorbed = min(self._absorbed + 1, self._scheme.window)
        moved = (seen - self.mean) ** 2 - response_variance(reports.size, epsilon)
        if moved <= response_variance(self._absorbed * self.group, epsilon):
            return self._take(0)
        asked = self._take(self._absorbed * self.group)
        self._owed, self._absorbed = self._absorbed - 1, 0
        return asked

    def publish(self, reports: Bits) -> None:
        """Publish a new mean, if anybody reported for one."""
        if reports.size:
            self.mean = self._mean(reports)

    def _mean(self, reports: Bits) -> float:
        return share_of_responses(int(reports.sum()), reports.size, self._scheme.epsilon)

    def _take(self, count: int) -> IntArray:
        asked, self._free = self._free[:count], self._free[count:]
        self._out.append((self._step, asked))
        return np.array(asked, dtype=np.int64)


# The controller: weights of the last error, of the mean of errors, and of their change; how fast
# that mean forgets; what it says of reports that lie on either side of their line. Ours.
_PROPORTIONAL, _INTEGRAL, _DIFFERENTIAL, _FORGETS, _USUAL = 0.3, 0.6, 0.1, 0.2, 0.4
_LEAST, _MOST = 0.5, 2.0  # chances of a report of interest, in 1/window
# Variances by which level and slope of a line are expected to change at each step; and at first,
# where the level may be any. In parts of the largest value.
_LEVEL_STEP, _SLOPE_STEP = 1e-5, 1e-5
_FIRST_LEVEL, _FIRST_SLOPE = 1 / 12, 1e-4
# What is kept of a slope, and of a level's distance from the middle: without reports, lines become
# flat and return to where nothing is known.
_KEPT_SLOPE, _KEPT = 0.95, 0.95


class PatternCollector:
    """The lines of users, by a Kalman filter of level and slope for each; and the users' mean.

    Both as parts of the largest value.
    """

    def __init__(self, scheme: Patterns, users: int, words: WordSource) -> None:
        self._scheme, self._words, self._question = scheme, words, scheme.question()
        self._turns = picked(users, scheme.window, words)
        self._rested = np.full(users, scheme.window)  # steps since a report of interest
        self._level, self._slope = np.full(users, 0.5), np.zeros(users)
        # The covariance of both, one column a user: level, level and slope, slope.
        first = ([_FIRST_LEVEL], [0.0], [_FIRST_SLOPE])
        self._covariance = np.repeat(np.array(first), users, axis=1)
        self._error, self._errors = np.zeros((2, users))  # last and mean: signed, in deviations
        self._asked: IntArray = np.zeros(0, dtype=np.int64)
        self._step = -1
        self.mean = 0.5

    @property
    def lines(self) -> FloatArray:
        """The value of each user's line at this step."""
        found: FloatArray = np.clip(self._level, 0.0, 1.0)
        return found

    def begin(self) -> IntArray:
        """Begin a step: predict the lines; return who reports."""
        self._step += 1
        self._level = 0.5 + _KEPT * (self.lines - 0.5) + self._slope
        self._slope *= _KEPT_SLOPE
        level, both, slope = self._covariance
        level[:] = _KEPT**2 * level + 2 * _KEPT * both + slope + _LEVEL_STEP
        both[:] = _KEPT_SLOPE * (_KEPT * both + slope)
        slope[:] = _KEPT_SLOPE**2 * slope + _SLOPE_STEP
        self._rested += 1
        turn = self._in_turn
        drawn = (self._words.take(turn.size) >> np.uint64(11)) * 2.0**-53
        interest = (drawn < self._chances()) & (self._rested >= self._scheme.window) & ~turn
        self._rested[interest] = 0
        self._asked = np.flatnonzero(turn | interest)
        return self._asked

    def collect(self, reports: IntArray) -> None:
        """Take their reports; update the mean and the lines."""
        users, lines = self._asked, self.lines[self._asked]
        values = self._question.decoded[reports] / self._scheme.top
        turn = values[self._in_turn[users]]
        if turn.size:
            self.mean = float(turn.mean())
        level, both, slope = self._covariance[:, users]
        expected = level + self._question.variance(2 * lines - 1) / 4
        off, gain, bend = values - lines, level / expected, both / expected
        self._level[users] = lines + gain * off
        self._slope[users] += bend * off
        self._covariance[:, users] = level * (1 - gain), both * (1 - gain), slope - bend * both
        errors = off / np.sqrt(expected)
        self._error[users] = errors
        self._errors[users] += _FORGETS * (errors - self._errors[users])

    @property
    def _in_turn(self) -> Bits:
        """Who reports at this step regardless of earlier reports."""
        return np.asarray(self._step % self._scheme.window == self._turns)

    def _chances(self) -> FloatArray:
        """The probability that a report is interesting: higher where reports lie on one side."""
        change = self._error - self._errors
        signal = _PROPORTIONAL * self._error + _INTEGRAL * self._errors + _DIFFERENTIAL * change
        interest: FloatArray = np.clip(np.abs(signal) / _USUAL, _LEAST, _MOST)
        return interest / self._scheme.window
