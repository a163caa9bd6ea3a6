"""Which answers are confident and wrong: see `confident_wrong`, which draws the streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

import tidegate as tg

FloatArray = NDArray[np.float64]
Ask = Callable[[int, int], "tg.Answer"]
# What is asked of a release: its total, and ranges of at least this share of it.
RANGES, SHORTEST = 8, 0.05
MISSED, FAR, NARROW = 1.0, 0.3, 0.1


class Judged(NamedTuple):
    """One answer."""

    total: bool  # of all values
    holds: bool
    has_open_end: bool
    is_wrong: bool
    is_warned_of: bool  # with a warning, or said to be of capped values
    width: float  # half of the interval, over the sum


@dataclass
class Found:
    """What was found in one class."""

    releases: int = 0
    refused: int = 0
    answers: list[Judged] = field(default_factory=list)

    def add(self, answers: list[Judged], refused: bool) -> None:
        self.releases += 1
        self.refused += refused
        self.answers += answers

    @property
    def wrong(self) -> list[Judged]:
        return [one for one in self.answers if one.is_wrong]

    def __str__(self) -> str:
        asked, wrong = max(len(self.answers), 1), self.wrong
        held = sum(one.holds for one in self.answers) / asked
        open_ends = sum(one.has_open_end for one in self.answers) / asked
        width = np.median([one.width for one in self.answers] or [np.nan])
        totals, warned = sum(one.total for one in wrong), sum(one.is_warned_of for one in wrong)
        return (
            f"{self.releases:8}{self.refused:8}{len(self.answers):8}{held:6.3f}"
            f"{open_ends:6.2f}{width:12.3g}{len(wrong):7}{totals:8}{warned:8}"
        )


def judged(ask: Ask, truth: FloatArray, random: Generator, warned: bool) -> Iterator[Judged]:
    """Ask for the total and some ranges."""
    n = truth.size
    running = np.concatenate(([0.0], np.cumsum(truth)))
    shortest = max(1, int(SHORTEST * n))
    ranges = [(0, n)]
    for _ in range(RANGES):
        length = int(random.integers(shortest, n + 1))
        start = int(random.integers(0, n - length + 1))
        ranges.append((start, start + length))
    for start, end in ranges:
        true, answer = float(running[end] - running[start]), ask(start, end)
        half = (answer.high - answer.low) / 2
        missed = max(answer.low - true, true - answer.high)
        error = abs(answer.estimate - true)
        narrow = error > FAR * abs(true) and half < NARROW * abs(answer.estimate)
        yield Judged(
            total=(start, end) == (0, n),
            holds=missed <= 1e-9 * abs(true),
            has_open_end=answer.high - answer.estimate > 4 * (answer.estimate - answer.low),
            is_wrong=missed > max(MISSED * half, 1e-9 * abs(true)) or narrow,
            is_warned_of=warned or answer.capped,
            width=half / max(abs(true), 1e-300),
        )
