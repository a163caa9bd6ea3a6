"""What perturbers share that decide, value by value, whether to measure.

blocks   |--------------|--------------|     a leaf ends with a measured value, or with its block
leaves   |---●|--●|-----|●|---------●|-|     ● measured; the others have mark 0
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np

from tidegate.errors import SettingError
from tidegate.lattice import IntArray
from tidegate.noise import discrete_laplace
from tidegate.randomness import Keystream
from tidegate.sealing import restore, state_of
from tidegate.stages import Layout, Noisy

_BLOCK = 1024  # values: a record is kept and forgotten by blocks
_CHUNK_BITS = 20  # of a position: what the address of noise calls a tree, the rest is its chunk
_MOST_SCALE = 1 << 48  # of noise: 64 scales, and a few values, fit 64 bits


class Sampler(Protocol):
    """Sees raw values, one at a time, and says which of them are measured, with what noise.

    STATE names its attributes that change.
    """

    STATE: ClassVar[tuple[str, ...]]

    def push(self, value: int, position: int) -> int:
        """The scale of the noise to measure this value with; 0: do not measure it."""
        ...

    def measured(self, number: int, span: int, scale: int) -> None:
        """What was released: a noisy number for the last `span` values; scale 0: none."""
        ...


class _Stage(Protocol):
    @property
    def horizon(self) -> int: ...

    def sampler(self, threshold: int, keystream: Keystream) -> Sampler: ...


class SampledStage:
    """A perturber that measures some values, and marks each sum with the scale of its noise."""

    irregular: ClassVar[bool] = True

    @property
    def block(self) -> int:
        """1: a stream may be cut after any value."""
        return 1

    def lengths(self: _Stage, chunk: int) -> tuple[int, ...]:
        """Blocks of 1,024 values; they mean nothing but what a record forgets together."""
        whole, rest = divmod(self.horizon, _BLOCK)
        return (_BLOCK,) * whole + ((rest,) if rest else ())

    def layouts(self, length: int, threshold: int, ceiling: int) -> tuple[Layout, ...]:
        """One: at most a leaf a value, of noise that is not that of a tree."""
        return (Layout(length, (length,), min(threshold, ceiling), (), (), consistent=False),)

    def noise_law(self, threshold: int) -> None:
        """None: the noise depends on what is decided as it goes."""
        return

    def start(
        self: _Stage,
        threshold: int,
        ceiling: int,
        keystream: Keystream,
        state: Mapping[str, Any] | None = None,
    ) -> SampledRun:
        """Begin to release, or continue from `state`."""
        sampler = self.sampler(threshold, keystream)
        lengths = SampledStage.lengths(self, 0)
        options = {
            length: SampledStage.layouts(self, length, threshold, ceiling)  # type: ignore[arg-type]
            for length in {*lengths}
        }
        return SampledRun(sampler, threshold, keystream, lengths, options, state)


def check_scale(scale: int) -> None:
    """Refuse noise that might not fit 64 bits."""
    if scale > _MOST_SCALE:
        raise SettingError(
            "resolution",
            f"too fine: noise of scale {scale:.3g} steps could overflow 64-bit numbers; choose a "
            "coarser resolution, a smaller bound or a larger epsilon",
        )


class SampledRun:
    """Releases a noisy value wherever the sampler wants one; its noise is addressed by position.

    Privacy: values are truncated at θ here. What is released of a value is whether it was measured
    and, if so, value + discrete Laplace noise of the sampler's scale. The argument is the
    sampler's.
    """

    STATE: ClassVar[tuple[str, ...]] = ("position", "filled", "place", "number")

    def __init__(
        self,
        sampler: Sampler,
        threshold: int,
        keystream: Keystream,
        lengths: tuple[int, ...],
        options: Mapping[int, tuple[Layout, ...]],
        state: Mapping[str, Any] | None = None,
    ) -> None:
        self._sampler = sampler
        self._threshold = threshold
        self._keystream = keystream
        self._lengths = lengths
        self._options = options
        self.position = 0  # values taken
        self.filled = 0  # of them in the open leaf
        self.place = 0  # of them in this block
        self.number = 0  # blocks completed in this horizon
        if state is not None:
            restore(self, state["run"])
            restore(sampler, state["sampler"])

    def __repr__(self) -> str:
        return f"<SampledRun at {self.position}>"  # public: the position

    def state(self) -> dict[str, Any]:
        """All that is needed to continue."""
        return {"run": state_of(self), "sampler": state_of(self._sampler)}

    @property
    def options(self) -> tuple[Layout, ...]:
        """The one layout of the present block."""
        return self._options[self._lengths[self.number]]

    def begin(self, choice: int) -> None:
        """Nothing to be decided."""
        if choice != 0:
            raise AssertionError("there is one layout only")

    def push(self, values: IntArray) -> Noisy:
        """Take raw units, not beyond the block's end; give what was measured of them."""
        released: list[tuple[int, int, int]] = []  # number, span, mark
        sampler = self._sampler
        for value in np.minimum(values, self._threshold).tolist():
            scale = sampler.push(value, self.position)
            self.filled += 1
            self.place += 1
            ends = self.place == self._lengths[self.number]
            if scale or ends:
                number = value + self._noise(scale) if scale else 0
                released.append((number, self.filled, scale))
                sampler.measured(*released[-1])
                self.filled = 0
            self.position += 1
            if ends:
                self.place = 0
                self.number = (self.number + 1) % len(self._lengths)
        columns = np.array(released, dtype=np.int64).reshape(-1, 3).T
        return Noisy(*(np.ascontiguousarray(column) for column in columns))

    def push_one(self, value: int) -> int | None:
        """Not used: irregular spans come in arrays."""
        raise AssertionError("an irregular perturber says more than a number")

    def _noise(self, scale: int) -> int:
        words = self._keystream.at(
            chunk=self.position >> _CHUNK_BITS, tree=self.position & ((1 << _CHUNK_BITS) - 1)
        )
        return int(discrete_laplace(words, 1, Fraction(scale))[0])
