"""What perturbers share that decide, value by value, whether to measure.

blocks   |--------------|--------------|     a leaf ends with a measured value, or with its block
leaves   |---●|--●|-----|●|---------●|-|     ● measured; the others have mark 0
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np

from tidegate.errors import SettingError
from tidegate.lattice import IntArray
from tidegate.noise import one_discrete_laplace
from tidegate.perturb.one_layout import OneLayoutRun
from tidegate.randomness import Keystream
from tidegate.sealing import State, restore, state_of
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

    def lengths(self, chunk: int) -> tuple[int, ...]: ...

    def layouts(self, length: int, threshold: int, ceiling: int) -> tuple[Layout, ...]: ...

    def sampler(self, threshold: int, keystream: Keystream) -> Sampler: ...


class IrregularStage:
    """A perturber whose run says how long each number holds, and marks it."""

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


class SampledStage(IrregularStage):
    """A perturber that measures some values, and marks each sum with the scale of its noise."""

    def start(
        self: _Stage, threshold: int, ceiling: int, keystream: Keystream, state: State | None = None
    ) -> SampledRun:
        """Begin to release, or continue from `state`."""
        return SampledRun(self, threshold, ceiling, keystream, state)


def check_scale(scale: int) -> None:
    """Refuse noise that might not fit 64 bits."""
    if scale > _MOST_SCALE:
        raise SettingError(
            "resolution",
            f"too fine: noise of scale {scale:.3g} steps could overflow 64-bit numbers; choose a "
            "coarser resolution, a smaller bound or a larger epsilon",
        )


class SampledRun(OneLayoutRun):
    """Releases a noisy value wherever the sampler wants one; its noise is addressed by position.

    Privacy: values are truncated at θ here. What is released of a value is whether it was measured
    and, if so, value + discrete Laplace noise of the sampler's scale. The argument is the
    sampler's.
    """

    STATE: ClassVar[tuple[str, ...]] = ("position", "filled", "place", "blocks")

    def __init__(
        self, stage: _Stage, threshold: int, ceiling: int, keystream: Keystream, state: State | None
    ) -> None:
        super().__init__(stage, threshold, ceiling, keystream)
        self._sampler = sampler = stage.sampler(threshold, keystream)
        self.position = 0  # values taken
        self.filled = 0  # of them in the open leaf
        self.place = 0  # of them in this block
        self.blocks = 0  # blocks completed in this horizon
        if state is not None:
            restore(self, state["run"])
            restore(sampler, state["sampler"])

    def __repr__(self) -> str:
        return f"<SampledRun at {self.position}>"  # public: the position

    def state(self) -> dict[str, Any]:
        """All that is needed to continue."""
        return {"run": state_of(self), "sampler": state_of(self._sampler)}

    @property
    def number(self) -> int:
        """Blocks completed in this horizon."""
        return self.blocks

    def push(self, values: IntArray) -> Noisy:
        """Take raw units, not beyond the block's end; give what was measured of them."""
        released: list[tuple[int, int, int]] = []  # number, span, mark
        sampler = self._sampler
        for value in np.minimum(values, self._threshold).tolist():
            scale = sampler.push(value, self.position)
            self.filled += 1
            self.place += 1
            ends = self.place == self._lengths[self.blocks]
            if scale or ends:
                number = value + self._noise(scale) if scale else 0
                released.append((number, self.filled, scale))
                sampler.measured(*released[-1])
                self.filled = 0
            self.position += 1
            if ends:
                self.place = 0
                self.blocks = (self.blocks + 1) % len(self._lengths)
        columns = np.array(released, dtype=np.int64).reshape(-1, 3).T
        return Noisy(*(np.ascontiguousarray(column) for column in columns))

    def push_one(self, value: int) -> int | None:
        """Not used: irregular spans come in arrays."""
        raise AssertionError("an irregular perturber says more than a number")

    def _noise(self, scale: int) -> int:
        words = self._keystream.at(
            chunk=self.position >> _CHUNK_BITS, tree=self.position & ((1 << _CHUNK_BITS) - 1)
        )
        return one_discrete_laplace(words, Fraction(scale))
