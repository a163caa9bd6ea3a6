"""The base of perturbers that release irregular spans: stage, run, and noise by position."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import ClassVar, Protocol

import numpy as np

from tidegate.errors import SettingError
from tidegate.exact_numbers import roughly
from tidegate.lattice import IntArray
from tidegate.noise import discrete_laplace
from tidegate.noise.laplace_from_words import discrete_laplace_from, words_for
from tidegate.perturb.one_layout import Blocks, OneLayoutRun, OneLayoutStage
from tidegate.randomness import Keystream
from tidegate.stages import Layout

_BLOCK = 1024  # values: a record is kept and forgotten by blocks
_MOST_SCALE = 1 << 48  # of noise: 64 scales, and a few values, fit 64 bits
DRAWS = 1024  # positions whose noise is drawn at once; part of its identity
_GROUPS = 4  # of so many positions are drawn at once, of a stream that is pushed in bulk


class _Stage(Protocol):
    @property
    def horizon(self) -> int: ...


class IrregularStage(OneLayoutStage):
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


class IrregularRun(OneLayoutRun):
    """Counts the values that were taken."""

    def __init__(self, stage: Blocks, threshold: int, ceiling: int, keystream: Keystream) -> None:
        super().__init__(stage, threshold, ceiling, keystream)
        self.position = 0  # values taken

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {self.position}>"  # public: the position

    def push_one(self, value: int) -> int | None:
        """Not used: irregular spans come in arrays."""
        raise AssertionError("an irregular perturber says more than a number")


class PositionNoise:
    """Discrete Laplace noise that is found by position alone, for 1,024 positions at a time.

    `scales` are those of each kind of draw, by the level of its address; `first_chunk` keeps
    addresses apart from those of other noise of the same keystream.
    """

    def __init__(
        self, keystream: Keystream, scales: Mapping[int, int], first_chunk: int = 0
    ) -> None:
        self._keystream, self._first_chunk = keystream, first_chunk
        self._scales = {level: Fraction(scale) for level, scale in scales.items()}
        self._words = {level: words_for(DRAWS, scale) for level, scale in self._scales.items()}
        self._first = self._end = 0  # positions whose noise is kept
        self._drawn: list[IntArray] = []
        self._listed: tuple[int, list[int]] = (-1, [])

    def at(self, position: int) -> tuple[list[IntArray], int]:
        """Noise of each kind for the positions around this one, and the place of this one.

        More is drawn at once where positions follow each other: for speed alone.
        """
        if not self._first <= position < self._end:
            group = position // DRAWS
            groups = _GROUPS if 0 < self._end == group * DRAWS else 1
            self._drawn = [self._draw(group, groups, level) for level in self._scales]
            self._first, self._end = group * DRAWS, (group + groups) * DRAWS
        return self._drawn, position - self._first

    def ahead(self, position: int) -> tuple[list[int], int]:
        """Noise of the first kind as numbers, and the place of this position among them."""
        (noise, *_), place = self.at(position)
        group, index = divmod(position, DRAWS)
        if self._listed[0] != group:
            self._listed = group, noise[place - index : place - index + DRAWS].tolist()
        return self._listed[1], index

    def _draw(self, first: int, groups: int, level: int) -> IntArray:
        """The noise of one kind, of some groups of positions."""
        scale = self._scales[level]
        places = [divmod(group, 1 << 32) for group in range(first, first + groups)]
        sources = [
            partial(self._keystream.at, chunk=self._first_chunk + chunk, tree=tree, level=level)
            for chunk, tree in places
        ]
        words = np.stack([source().take(self._words[level]) for source in sources])
        drawn = discrete_laplace_from(words, DRAWS, scale)
        return np.concatenate(
            [
                discrete_laplace(source(), DRAWS, scale) if row is None else row
                for source, row in zip(sources, drawn, strict=True)
            ]
        )


def check_scale(scale: int) -> None:
    """Refuse noise that might not fit 64 bits."""
    if scale > _MOST_SCALE:
        raise SettingError(
            "resolution",
            f"too fine: noise of scale {roughly(scale)} steps could overflow 64-bit numbers; "
            "choose a coarser resolution, a smaller bound or a larger epsilon",
        )
