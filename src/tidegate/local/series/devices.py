"""The users' side of series: values in, reports out. Never imports the server's side."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tidegate.errors import InputError, RefusedError
from tidegate.lattice import IntArray
from tidegate.local.series.randomized_response import Bits, fair_response, picked, randomized_bits
from tidegate.local.series.schemes import REPORTS, Changes, Patterns, PopulationDivision, Updates
from tidegate.randomness import WordSource


class DeviceSigns(NamedTuple):
    """Who reports at a step, and whether their signs are +1."""

    users: IntArray
    plus: Bits


class ChangeDevices:
    """Users of `Changes`, in one array. `levels` is public, the rest of the state is not."""

    def __init__(self, scheme: Changes, users: int, words: WordSource) -> None:
        self._scheme, self._words = scheme, words
        self.levels = picked(users, scheme.levels, words)
        self._kept = picked(users, scheme.changes, words)  # which change, counted from 0
        self._seen = np.zeros(users, dtype=np.int64)  # changes so far
        self._last = np.zeros(users, dtype=np.bool_)
        self._node = np.zeros(users, dtype=np.int64)  # the kept change, if it is in the open node
        self._step = 0

    def push(self, values: Bits) -> DeviceSigns:
        """Take the bits of one step; return the signs of the nodes that end with it."""
        now = _bits_of_devices(values, self._last.size)
        changed = now != self._last
        kept = changed & (self._seen == self._kept)
        self._node[kept] = np.where(now[kept], 1, -1)
        self._seen += changed
        self._last = now
        self._step += 1
        users = np.flatnonzero(self._step % (1 << self.levels) == 0)
        change = self._node[users]
        plus = fair_response(users.size, self._words)
        held = np.flatnonzero(change)
        # Coins of users without a change are drawn too: how many words are read tells nothing.
        signed = randomized_bits(change > 0, self._scheme.epsilon, self._words)
        plus[held] = signed[held]
        self._node[users] = 0
        return DeviceSigns(users, plus)


class UpdateDevices:
    """Users of `Updates`, in one array."""

    def __init__(self, scheme: Updates, users: int, words: WordSource) -> None:
        self._scheme, self._words = scheme, words
        self._sums = np.zeros(users, dtype=np.int64)
        self._yes = np.zeros(users, dtype=np.int64)
        self._updates = 0
        self._steps = 0  # of this epoch

    def push(self, values: Bits) -> None:
        """Take the bits of one step.

        Raises:
            RefusedError: the epoch is over. A mean above 1 would name itself in an error.
        """
        if self._steps == self._scheme.epoch:
            raise RefusedError(f"an epoch has {self._steps} steps: close it before the next one")
        self._sums += _bits_of_devices(values, self._sums.size)
        self._steps += 1

    def vote(self, published: Fraction) -> Bits:
        """Randomized votes, at the end of an epoch, whether the published mean is outdated."""
        epoch = self._scheme.epoch
        far = np.array(
            [
                abs(Fraction(ones, epoch) - published) > self._scheme.moved
                for ones in range(epoch + 1)
            ]
        )
        yes = far[self._sums] & (self._yes < self._scheme.votes)
        self._yes += yes
        return randomized_bits(yes, self._scheme.vote_epsilon, self._words)

    def report(self) -> Bits:
        """Reports for an update: the epoch's mean, rounded at random, by randomized response."""
        epoch = self._scheme.epoch
        bits = picked(self._sums.size, epoch, self._words) < self._sums
        reports = randomized_bits(bits, self._scheme.report_epsilon, self._words)
        self._updates += 1
        if self._updates > self._scheme.updates:
            return fair_response(self._sums.size, self._words)
        return reports

    def close(self) -> None:
        """Begin the next epoch."""
        self._sums[:] = 0
        self._steps = 0


class PopulationDevices:
    """Users of `PopulationDivision`, in one array."""

    def __init__(self, scheme: PopulationDivision, users: int, words: WordSource) -> None:
        self._scheme, self._words = scheme, words
        self._asked = np.full(users, -scheme.window, dtype=np.int64)  # when each reported last
        self._values = np.zeros(users, dtype=np.bool_)
        self._step = -1

    def push(self, values: Bits) -> None:
        """Take the bits of one step."""
        self._values = _bits_of_devices(values, self._asked.size)
        self._step += 1

    def report(self, users: IntArray) -> Bits:
        """The reports of the users who were asked.

        Raises:
            RefusedError: one of them has reported within the window.
        """
        if not each_device_once(users, self._asked.size) or np.any(
            self._step - self._asked[users] < self._scheme.window
        ):
            raise RefusedError(
                f"a user may report once in {self._scheme.window} steps: ask another one"
            )
        self._asked[users] = self._step
        return randomized_bits(self._values[users], self._scheme.epsilon, self._words)


def each_device_once(asked: IntArray, users: int) -> bool:
    """Check that these are distinct users.

    An index of −1 would be the last user a second time. A two-dimensional column would draw coins
    for each pair of its rows: every user would report as often as there are users.
    """
    if asked.ndim != 1 or not np.issubdtype(asked.dtype, np.integer):
        return False
    known = (asked >= 0) & (asked < users)
    return bool(known.all()) and np.unique(asked).size == asked.size


def _bits_of_devices(values: Bits, users: int) -> Bits:
    """A copy of the bits: the caller may write the next step into the same array."""
    array = np.array(values)
    if array.shape != (users,) or array.dtype != np.bool_:
        raise InputError(f"values must be {users} booleans, one for each user")
    return array


class PatternDevices:
    """Users of `Patterns`, in one array. Each counts the reports in its window."""

    def __init__(self, scheme: Patterns, users: int, words: WordSource) -> None:
        self._scheme, self._words, self._question = scheme, words, scheme.question()
        self._question.check(scheme.report_epsilon)  # in integers: a device need not trust a table
        # Whether each user reported in each of the last `window` steps, by step modulo window.
        self._reported = np.zeros((scheme.window, users), dtype=np.bool_)
        self._values = np.zeros(users, dtype=np.int64)
        self._step = -1

    def push(self, values: IntArray | Bits) -> None:
        """Take the values of one step."""
        array = np.asarray(values)
        whole = array.dtype == np.bool_ or np.issubdtype(array.dtype, np.integer)
        if array.shape != self._values.shape or not whole:
            raise InputError(f"values must be {self._values.size} whole numbers, one for each user")
        self._values = array.astype(np.int64)  # the question clamps them
        self._step += 1
        self._reported[self._step % self._scheme.window] = False  # that step has left the window

    def report(self, users: IntArray) -> IntArray:
        """The reports of the users who were asked: columns of the table.

        Raises:
            RefusedError: one of them would have reported too often.
        """
        now = self._reported[self._step % self._scheme.window]
        if (
            not each_device_once(users, self._values.size)
            or np.any(now[users])
            or np.any(self._reported[:, users].sum(axis=0) >= REPORTS)
        ):
            raise RefusedError(
                f"a user may report {REPORTS} times in {self._scheme.window} steps, once in each: "
                "ask another one"
            )
        now[users] = True
        return self._question.answers(self._values[users], self._words)
