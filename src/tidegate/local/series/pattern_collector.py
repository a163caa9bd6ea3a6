"""What the server of `Patterns` does: reports in, lines and means out. Never imports the devices.

Everything here is computed from reports and public coins: no privacy depends on it.
"""

from __future__ import annotations

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.local.series.randomized_response import Bits, picked
from tidegate.local.series.schemes import Patterns
from tidegate.randomness import WordSource

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
    """The lines of users, by a Kalman filter of level and slope for each; and the mean of users.

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
        """Where each user's line is at this step."""
        found: FloatArray = np.clip(self._level, 0.0, 1.0)
        return found

    def begin(self) -> IntArray:
        """A step begins: lines go on. Gives whom to ask."""
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
        """What they said: a new mean, and lines that bend."""
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
        """Who reports at this step, whatever was reported."""
        return np.asarray(self._step % self._scheme.window == self._turns)

    def _chances(self) -> FloatArray:
        """Of a report of interest: higher where reports lie off the line on one side."""
        change = self._error - self._errors
        signal = _PROPORTIONAL * self._error + _INTEGRAL * self._errors + _DIFFERENTIAL * change
        interest: FloatArray = np.clip(np.abs(signal) / _USUAL, _LEAST, _MOST)
        return interest / self._scheme.window
