"""The base of perturbers that decide, value by value, whether to measure.

blocks   |--------------|--------------|     a leaf ends with a measured value, or with its block
leaves   |---●|--●|-----|●|---------●|-|     ● measured; the others have mark 0
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np

from tidegate.lattice import IntArray
from tidegate.noise import discrete_laplace_of_word, one_discrete_laplace
from tidegate.perturb.irregular_spans import DRAWS, IrregularRun, IrregularStage, check_scale
from tidegate.perturb.one_layout import Blocks
from tidegate.randomness import Keystream
from tidegate.sealing import State, restore, state_of
from tidegate.stages import Noisy

_CHUNK_BITS = 20  # of a position: what the address of noise calls a tree, the rest is its chunk


class Sampler(Protocol):
    """Sees raw values, one at a time, and says which of them are measured, with what noise.

    STATE names its attributes that change. A sampler may also have

        find(values: list[int], start: int, stop: int, position: int) -> tuple[int, int]

    which does what `push` does for values[start], values[start + 1], …, the first of which is at
    `position`, up to and including the first that is to be measured, and gives its index and scale;
    or (stop, 0) if none is. It is faster, and must leave the same state.
    """

    STATE: ClassVar[tuple[str, ...]]

    def push(self, value: int, position: int) -> int:
        """The scale of the noise to measure this value with; 0: do not measure it."""
        ...

    def measured(self, number: int, span: int, scale: int) -> None:
        """What was released: a noisy number for the last `span` values; scale 0: none."""
        ...


class _Sampling(Blocks, Protocol):
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
        self._find = getattr(self._sampler, "find", self._one_by_one)
        self._words: tuple[int, list[int]] = (-1, [])  # of which group of positions
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
        released: list[tuple[int, int, int]] = []  # number, span, mark
        sampler, find = self._sampler, self._find
        raw: list[int] = np.minimum(values, self._threshold).tolist()
        at = 0
        while at < len(raw):
            length = self._lengths[self.blocks]
            stop = min(len(raw), at + length - self.place)
            found, scale = find(raw, at, stop, self.position)
            passed = found - at + 1 if scale else stop - at
            self.position += passed
            self.filled += passed
            self.place += passed
            at += passed
            ends = self.place == length
            if scale or ends:
                number = raw[found] + self._noise(self.position - 1, scale) if scale else 0
                released.append((number, self.filled, scale))
                sampler.measured(number, self.filled, scale)
                self.filled = 0
            if ends:
                self.place = 0
                self.blocks = (self.blocks + 1) % len(self._lengths)
        columns = np.array(released, dtype=np.int64).reshape(-1, 3).T
        return Noisy(*(np.ascontiguousarray(column) for column in columns))

    def _one_by_one(
        self, values: list[int], start: int, stop: int, position: int
    ) -> tuple[int, int]:
        """What a sampler without a `find` of its own finds."""
        for at in range(start, stop):
            if scale := self._sampler.push(values[at], position + at - start):
                return at, scale
        return stop, 0

    def _noise(self, position: int, scale: int) -> int:
        """The noise of a position: from its first word, which is known, if one word decides."""
        chunk, tree = position >> _CHUNK_BITS, position & ((1 << _CHUNK_BITS) - 1)
        group, index = divmod(position, DRAWS)
        if self._words[0] != group:
            first = self._keystream.first_words(chunk=chunk, tree=tree - index, count=DRAWS)
            self._words = group, first
        noise = discrete_laplace_of_word(self._words[1][index], scale)
        if noise is None:
            words = self._keystream.at(chunk=chunk, tree=tree)
            noise = one_discrete_laplace(words, Fraction(scale))
        return noise
