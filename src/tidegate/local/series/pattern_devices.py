"""What users of `Patterns` do: values in, reports out. Never imports the server's side."""

from __future__ import annotations

import numpy as np

from tidegate.errors import InputError, RefusedError
from tidegate.lattice import IntArray
from tidegate.local.series.devices import each_once
from tidegate.local.series.randomized_response import Bits
from tidegate.local.series.schemes import REPORTS, Patterns
from tidegate.randomness import WordSource


class PatternDevices:
    """Users of `Patterns`, in one array. Each counts the reports of its window."""

    def __init__(self, scheme: Patterns, users: int, words: WordSource) -> None:
        self._scheme, self._words, self._question = scheme, words, scheme.question()
        self._question.check(scheme.report_epsilon)  # in integers: a device need not trust a table
        # Whether each user reported in each of the last `window` steps, by step modulo window.
        self._reported = np.zeros((scheme.window, users), dtype=np.bool_)
        self._values = np.zeros(users, dtype=np.int64)
        self._step = -1

    def push(self, values: IntArray | Bits) -> None:
        """The values of one step."""
        array = np.asarray(values)
        whole = array.dtype == np.bool_ or np.issubdtype(array.dtype, np.integer)
        if array.shape != self._values.shape or not whole:
            raise InputError(f"values must be {self._values.size} whole numbers, one for each user")
        self._values = array.astype(np.int64)  # the question clamps them
        self._step += 1
        self._reported[self._step % self._scheme.window] = False  # that step has left the window

    def report(self, users: IntArray) -> IntArray:
        """The reports of the users that were asked: columns of the table.

        Raises:
            RefusedError: one of them would have reported too often.
        """
        now = self._reported[self._step % self._scheme.window]
        if (
            not each_once(users, self._values.size)
            or np.any(now[users])
            or np.any(self._reported[:, users].sum(axis=0) >= REPORTS)
        ):
            raise RefusedError(
                f"a user may report {REPORTS} times in {self._scheme.window} steps, once in each: "
                "ask another one"
            )
        now[users] = True
        return self._question.answers(self._values[users], self._words)
