"""The base of perturbers that decide, value by value, whether to measure.

blocks   |--------------|--------------|     a leaf ends with a measured value, or with its block
leaves   |---●|--●|-----|●|---------●|-|     ● measured; the others have mark 0
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.perturb.irregular_spans import IrregularRun, IrregularStage, check_scale
from tidegate.perturb.one_layout import OneLayoutBlocks
from tidegate.perturb.position_noise import MeasurementNoise
from tidegate.randomness import Keystream
from tidegate.stages import Noisy
from tidegate.state_as_bytes import State, restore, state_of

# Indices of measured values, released numbers, scales of their noise. All are whole numbers; where
# a float is exact it may be one, and they may be arrays, which is faster.
Measurements = tuple[list[int] | IntArray, list[float] | FloatArray, list[float] | FloatArray]


# Added and taken away, they round a float to a whole number: one that is at least 0, and any.
WHOLE, CENTRE = 2.0**52, 1.5 * 2.0**52


class Stretch(NamedTuple):
    """units[start], …, units[stop − 1] of one block, to be seen at once.

    The first of them is at `position`; `filled` values of the open leaf came before.
    """

    units: IntArray
    start: int
    stop: int
    position: int
    filled: int
    noise: MeasurementNoise


class Sampler(Protocol):
    """Sees raw values, one at a time, and says which of them are measured, with what noise.

    STATE names its attributes that change. A sampler may also have one of

        find(values: list[int], start: int, stop: int, position: int) -> tuple[int, int]

    which does what `push` does for values[start], values[start + 1], …, the first of which is at
    `position`, up to and including the first that is to be measured, and gives its index and scale;
    or (stop, 0) if none is; and

        sweep(stretch: Stretch) -> Measurements

    which does the same for all values of the stretch: it measures and does what `measured` does by
    itself. Both are faster, and must leave the same state.
    """

    STATE: ClassVar[tuple[str, ...]]

    def push(self, value: int, position: int) -> int:
        """The scale of the noise to measure this value with; 0: do not measure it."""
        ...

    def measured(self, number: int, span: int, scale: int) -> None:
        """What was released: a noisy number for the last `span` values; scale 0: none."""
        ...


def one_by_one(sampler: Sampler, stretch: Stretch) -> Measurements:
    """The definition of `sweep`."""
    units, start, stop, position, filled, noise = stretch
    places: list[int] = []
    numbers: list[float] = []
    scales: list[float] = []
    opened, shift = start - filled, position - start
    for place, value in enumerate(units[start:stop].tolist(), start):
        if scale := sampler.push(value, place + shift):
            number = value + noise.of(place + shift, scale)
            sampler.measured(number, place + 1 - opened, scale)
            opened = place + 1
            places.append(place)
            numbers.append(number)
            scales.append(scale)
    return places, numbers, scales


def _together(found: list[Measurements]) -> tuple[IntArray, IntArray, IntArray]:
    """All of them in arrays of integers."""
    arrays = [
        [np.array(each, dtype=np.int64) for each in kind] for kind in zip(*found, strict=True)
    ]
    ends, numbers, marks = (
        (np.concatenate(kind) for kind in arrays) if arrays else np.zeros((3, 0), dtype=np.int64)
    )
    return ends, numbers, marks


def near_integers(rest: FloatArray, doubt: float) -> list[int]:
    """Where rounding left so little, or so nearly 1, that another number may be the right one."""
    rest = np.abs(rest - 0.5)
    if rest.max(initial=0.0) <= 0.5 - doubt:
        return []
    found: list[int] = np.flatnonzero(rest > 0.5 - doubt).tolist()
    return found


class _Sampling(OneLayoutBlocks, Protocol):
    def sampler(self, threshold: int, keystream: Keystream) -> Sampler: ...


class SampledStage(IrregularStage):
    """A perturber that measures some values, and marks each sum with the scale of its noise.

    `scale` is that of a measurement, or the largest where they differ.
    """

    def check(self: _Scaled, ceiling: int) -> None:
        """Refuse settings that could overflow 64-bit integers."""
        check_scale(self.scale(ceiling))

    def run(self: _Sampling, threshold: int, ceiling: int, keystream: Keystream) -> SampledRun:
        """Begin to release."""
        return SampledRun(self, threshold, ceiling, keystream)


class _Scaled(Protocol):
    def scale(self, threshold: int) -> int: ...


class SampledRun(IrregularRun):
    """Releases a noisy value wherever the sampler wants one; its noise is addressed by position.

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
        """That of the run, and the sampler's."""
        return {"run": state_of(self), "sampler": state_of(self._sampler)}

    def restore(self, state: State) -> None:
        """Continue from there."""
        restore(self, state["run"])
        restore(self._sampler, state["sampler"])

    @property
    def number(self) -> int:
        """Blocks completed in this horizon."""
        return self.blocks

    def push(self, values: IntArray) -> Noisy:
        """Take raw units, not beyond the block's end; give what was measured of them."""
        found: list[Measurements] = []  # where leaves end, as indices of values; numbers, marks
        units = np.minimum(values, self._threshold)
        at, opened = 0, -self.filled
        while at < units.size:
            length = self._lengths[self.blocks]
            stop = min(units.size, at + length - self.place)
            measured = self._sweep(
                Stretch(units, at, stop, self.position, at - opened, self._noise)
            )
            if len(measured[0]):
                found.append(measured)
                opened = int(measured[0][-1]) + 1
            self.position += stop - at
            self.place += stop - at
            at = stop
            if self.place == length:
                if opened < stop:
                    found.append(([stop - 1], [0], [0]))
                    self._sampler.measured(0, stop - opened, 0)
                    opened = stop
                self.place = 0
                self.blocks = (self.blocks + 1) % len(self._lengths)
        ends, numbers, marks = _together(found)
        spans = ends.copy()
        spans[1:] -= ends[:-1]
        spans[:1] += self.filled + 1
        self.filled = units.size - opened
        return Noisy(numbers, spans, marks)

    def _by_finding(self, stretch: Stretch) -> Measurements:
        """The sweep of a sampler that has none of its own."""
        units, start, stop, position, filled, noise = stretch
        values: list[int] = units[start:stop].tolist()
        places: list[int] = []
        numbers: list[float] = []
        scales: list[float] = []
        at, opened = 0, -filled
        while at < len(values):
            found, scale = self._find(values, at, len(values), at + position)
            if not scale:
                break
            number = values[found] + noise.of(found + position, scale)
            places.append(found + start)
            numbers.append(number)
            scales.append(scale)
            self._sampler.measured(number, found + 1 - opened, scale)
            at = opened = found + 1
        return places, numbers, scales

    def _one_by_one(
        self, values: list[int], start: int, stop: int, position: int
    ) -> tuple[int, int]:
        """What a sampler without a `find` of its own finds."""
        for at in range(start, stop):
            if scale := self._sampler.push(values[at], position + at - start):
                return at, scale
        return stop, 0
