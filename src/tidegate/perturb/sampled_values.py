"""The base of perturbers that decide for each value whether to measure it.

blocks   |--------------|--------------|     a leaf ends with a measured value, or with its block
leaves   |---●|--●|-----|●|---------●|-|     ● measured; the others have mark 0
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.perturb.irregular_spans import IrregularRun, IrregularStage, check_scale_of_spans
from tidegate.perturb.one_layout import OneLayoutBlocks
from tidegate.perturb.position_noise import MeasurementNoise
from tidegate.randomness import Keystream
from tidegate.stages import Noisy
from tidegate.state_as_bytes import State, restore, state_of

# Indices of measured values, released numbers, scales of their noise. All are whole numbers; where
# a float is exact it may be one, and they may be arrays, which is faster.
Numbers = list[float] | FloatArray | IntArray
Measurements = tuple[list[int] | IntArray, Numbers, Numbers]


_AT_ONCE = 1 << 13  # values of a sweep: more are no faster, and take memory


class Stretch(NamedTuple):
    """units[start], …, units[stop − 1], to be decided together.

    The first of them is at `position`; `filled` values of the open leaf came before. A leaf that is
    open where a block ends is closed there: `ends` are the indices after the last values of blocks,
    up to and including `stop`.
    """

    units: IntArray
    start: int
    stop: int
    position: int
    filled: int
    ends: Sequence[int]
    noise: MeasurementNoise

    def __repr__(self) -> str:  # raw values
        return "<Stretch>"


class Sampler(Protocol):
    """Reads raw values, one at a time, and decides which are measured, with what noise.

    STATE names its attributes that change. A sampler may also have one of

        find(values: list[int], start: int, stop: int, position: int) -> tuple[int, int]

    which does what `push` does for values[start], values[start + 1], …, the first of which is at
    `position`, up to and including the first that is to be measured, and gives its index and scale;
    or (stop, 0) if none is; and

        sweep(stretch: Stretch) -> Measurements

    which does the same for all values of the stretch: it measures and does what `measured` does by
    itself, also where blocks end. Both are faster, and must leave the same state. With a filter of
    its own it may say what that has found in the last sweep: `filtered`.
    """

    STATE: ClassVar[tuple[str, ...]]

    def push(self, value: int, position: int) -> int:
        """The noise scale to measure this value with; 0: it is not measured."""
        ...

    def measured(self, number: int, span: int, scale: int) -> None:
        """Note what was released: a noisy number for the last `span` values; scale 0: none."""
        ...


def one_by_one(sampler: Sampler, stretch: Stretch) -> Measurements:
    """The reference implementation of `sweep`."""
    units, start, stop, position, filled, ends, noise = stretch
    places: list[int] = []
    numbers: list[float] = []
    scales: list[float] = []
    opened, shift, closing = start - filled, position - start, {*ends}
    for place, value in enumerate(units[start:stop].tolist(), start):
        if scale := sampler.push(value, place + shift):
            number = value + noise.of(place + shift, scale)
            sampler.measured(number, place + 1 - opened, scale)
            opened = place + 1
            places.append(place)
            numbers.append(number)
            scales.append(scale)
        elif place + 1 in closing:
            sampler.measured(0, place + 1 - opened, 0)
            opened = place + 1
    return places, numbers, scales


def _with_closed(found: Measurements, ends: Sequence[int]) -> tuple[IntArray, ...]:
    """The results as arrays of integers, including leaves that the ends of blocks closed."""
    places, numbers, scales = (np.asarray(each, dtype=np.int64) for each in found)
    last = np.array(ends, dtype=np.int64) - 1  # of each block
    at = np.searchsorted(places, last)
    still_open = np.append(places, -1)[at] != last
    if not still_open.any():
        return places, numbers, scales
    at, last = at[still_open], last[still_open]
    return np.insert(places, at, last), np.insert(numbers, at, 0), np.insert(scales, at, 0)


def _joined(parts: list[tuple[IntArray, ...]]) -> tuple[IntArray, ...]:
    if not parts:
        return tuple(np.zeros((3, 0), dtype=np.int64))
    return tuple(map(np.concatenate, zip(*parts, strict=True)))


class _Sampling(OneLayoutBlocks, Protocol):
    def sampler(self, threshold: int, keystream: Keystream) -> Sampler: ...


class SampledStage(IrregularStage):
    """A perturber that measures some values, and marks each sum with its noise scale.

    `scale` is that of a measurement, or the largest where they differ.
    """

    def check(self: _Scaled, ceiling: int) -> int:
        """Refuse settings that could overflow 64-bit integers."""
        return check_scale_of_spans(self.scale(ceiling))

    def run(self: _Sampling, threshold: int, ceiling: int, keystream: Keystream) -> SampledRun:
        """A new run, or one resumed from `state`."""
        return SampledRun(self, threshold, ceiling, keystream)


class _Scaled(Protocol):
    def scale(self, threshold: int) -> int: ...


class SampledRun(IrregularRun):
    """Releases a noisy value wherever the sampler asks for one; the noise is addressed by position.

    Privacy: values are truncated at θ here. What is released of a value is whether it was measured
    and, if so, value + discrete Laplace noise of the sampler's scale. The argument is the
    sampler's.
    """

    STATE: ClassVar[tuple[str, ...]] = ("position", "filled", "place", "blocks")

    def __init__(
        self, stage: _Sampling, threshold: int, ceiling: int, keystream: Keystream
    ) -> None:
        super().__init__(stage, threshold, ceiling, keystream)
        self._sampler = stage.sampler(threshold, keystream)
        self._noise = MeasurementNoise(keystream)
        self._find = getattr(self._sampler, "find", self._one_by_one)
        self._sweep = getattr(self._sampler, "sweep", self._by_finding)
        self.filled = 0  # of them in the open leaf
        self.place = 0  # of them in this block
        self.blocks = 0  # blocks completed in this horizon

    def state(self) -> dict[str, Any]:
        """The state of the run and of the sampler."""
        return {"run": state_of(self), "sampler": state_of(self._sampler)}

    def restore(self, state: State) -> None:
        """Restore a saved state."""
        restore(self, state["run"])
        restore(self._sampler, state["sampler"])

    @property
    def number(self) -> int:
        """The number of blocks completed in this horizon."""
        return self.blocks

    def push(self, values: IntArray) -> Noisy:
        """Take raw units; return the measured numbers."""
        units = np.minimum(values, self._threshold)
        parts: list[tuple[IntArray, ...]] = []  # last values of leaves, numbers, marks
        at, opened = 0, -self.filled
        while at < units.size:
            stop = min(units.size, at + _AT_ONCE)
            ends = self._block_ends(at, stop)
            stretch = Stretch(units, at, stop, self.position, at - opened, ends, self._noise)
            parts.append(_with_closed(self._sweep(stretch), ends))
            if parts[-1][0].size:
                opened = int(parts[-1][0][-1]) + 1
            self.position += stop - at
            at = stop
        if len(parts) != 1:
            parts = [_joined(parts)]
        lasts, numbers, marks = parts[0]
        spans = lasts.copy()
        spans[1:] -= lasts[:-1]
        spans[:1] += self.filled + 1
        self.filled = units.size - opened
        filtered = getattr(self._sampler, "filtered", None) if units.size <= _AT_ONCE else None
        return Noisy(numbers, spans, marks, filtered)

    def _block_ends(self, start: int, stop: int) -> list[int]:
        """The indices up to `stop` where blocks end; counts these blocks as completed."""
        ends = []
        begun = start - self.place
        while (end := begun + self._lengths[self.blocks]) <= stop:
            ends.append(end)
            begun = end
            self.blocks = (self.blocks + 1) % len(self._lengths)
        self.place = stop - begun
        return ends

    def _by_finding(self, stretch: Stretch) -> Measurements:
        """The sweep for a sampler without its own."""
        units, start, stop, position, filled, ends, noise = stretch
        values: list[int] = units[start:stop].tolist()
        places: list[int] = []
        numbers: list[float] = []
        scales: list[float] = []
        at, opened, closing = 0, -filled, {*ends}
        for end in [*ends, stop]:
            until = end - start
            while at < until:
                found, scale = self._find(values, at, until, at + position)
                if not scale:
                    break
                number = values[found] + noise.of(found + position, scale)
                places.append(found + start)
                numbers.append(number)
                scales.append(scale)
                self._sampler.measured(number, found + 1 - opened, scale)
                at = opened = found + 1
            at = until
            if opened < until and end in closing:
                self._sampler.measured(0, until - opened, 0)
                opened = until
        return places, numbers, scales

    def _one_by_one(
        self, values: list[int], start: int, stop: int, position: int
    ) -> tuple[int, int]:
        """`find` for a sampler without its own."""
        for at in range(start, stop):
            if scale := self._sampler.push(values[at], position + at - start):
                return at, scale
        return stop, 0
