"""Discrete Laplace noise addressed by position alone, drawn for 1,024 positions at once."""

from __future__ import annotations

from collections.abc import Container, Mapping
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tidegate.lattice import FloatArray, IntArray
from tidegate.noise import (
    USUAL_EDGE,
    USUAL_SCALES,
    discrete_laplace,
    edge,
    one_discrete_laplace,
    one_signed_logarithm,
    signed_logarithms,
)
from tidegate.noise.laplace_from_words import discrete_laplace_from, words_for
from tidegate.randomness import Keystream

__all__ = ["BEYOND", "EDGE", "USUAL_SCALES", "MeasurementNoise", "PositionNoise"]

DRAWS = 1024  # positions whose noise is drawn at once; part of its identity
_GROUPS = 4  # groups of positions are drawn at once, of a stream that is pushed in bulk
_CHUNK_BITS = 20  # of a position: what the address of noise calls a tree, the rest is its chunk

EDGE, BEYOND = USUAL_EDGE, 1 - USUAL_EDGE  # for loops that do what `scaled` does


class PositionNoise:
    """Discrete Laplace noise addressed by position alone, drawn for 1,024 positions at once.

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

    def __repr__(self) -> str:
        return f"PositionNoise({len(self._scales)} kinds of draws)"

    def at(self, position: int) -> tuple[list[IntArray], int]:
        """Noise of each kind for the positions around this one, and the index of this one.

        More is drawn at once where positions follow each other: for speed alone.
        """
        if not self._first <= position < self._end:
            group = position // DRAWS
            groups = _GROUPS if 0 < self._end == group * DRAWS else 1
            self._drawn = [self._draw(group, groups, level) for level in self._scales]
            self._first, self._end = group * DRAWS, (group + groups) * DRAWS
        return self._drawn, position - self._first

    def ahead(self, position: int) -> tuple[list[int], int]:
        """Noise of the first kind as numbers, and the index of this position in them."""
        (noise, *_), place = self.at(position)
        group, index = divmod(position, DRAWS)
        if self._listed[0] != group:
            self._listed = group, noise[place - index : place - index + DRAWS].tolist()
        return self._listed[1], index

    def _draw(self, first: int, groups: int, level: int) -> IntArray:
        """The noise of one kind for several groups of positions."""
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


class MeasurementNoise:
    """Discrete Laplace noise of any scale for any position, drawn from the words of that position.

    The scale of a measurement is known only when it is made, so what can be prepared is the
    logarithm of the first word (`ahead`). Scale times logarithm is the noise, up to rounding; where
    rounding could matter, integers decide (`of`), so the noise is `one_discrete_laplace`.
    """

    def __init__(self, keystream: Keystream) -> None:
        self._keystream = keystream
        self._first = self._end = 0  # positions whose logarithms are kept
        self._kept: FloatArray = np.zeros(0)
        self._second: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)  # words after a −0
        self._listed: tuple[int, list[float]] = (-1, [])

    def __repr__(self) -> str:
        return "<MeasurementNoise: secret>"

    def ahead(self, position: int) -> tuple[list[float], int]:
        """Signed logarithms for the positions around this one, and the index of this one.

        Scale times logarithm gives the noise, as `signed_logarithms` says, or else `of` does.
        """
        group, index = divmod(position, DRAWS)
        if self._listed[0] != group:
            self._listed = group, self.between(group * DRAWS, DRAWS).tolist()
        return self._listed[1], index

    def between(self, position: int, count: int) -> FloatArray:
        """Signed logarithms for `count` positions from this one on.

        They are kept until others are asked for, with the words that follow a −0.
        """
        if position < self._first or position + count > self._end:
            self._keep(position - position % DRAWS, position + count)
        return self._kept[position - self._first :][:count]

    def _keep(self, start: int, stop: int) -> None:
        """Draw what is missing for these positions; forget what lies before them."""
        follows = self._end > 0 and self._first <= start <= self._end
        old = slice(start - self._first, None) if follows else slice(0, 0)
        kept, second = [self._kept[old]], [self._second[old]]
        end = self._end if follows else start
        # More at once where positions follow each other: for speed alone.
        last = max(end + (_GROUPS if follows else 1) * DRAWS, stop + -stop % DRAWS)
        while end < last:
            chunk, tree = divmod(end, 1 << _CHUNK_BITS)
            count = min(last - end, (1 << _CHUNK_BITS) - tree)
            words = self._keystream.first_words(chunk=chunk, tree=tree, count=count, words=2)
            kept.append(signed_logarithms(words[:, 0]))
            second.append(words[:, 1])
            end += count
        self._kept, self._second = np.concatenate(kept), np.concatenate(second)
        self._first, self._end = start, end

    def right(
        self,
        draws: FloatArray,
        scales: FloatArray,
        logarithms: FloatArray,
        positions: IntArray,
        known: Container[int],
    ) -> bool:
        """Whether `scaled` surely gives these draws: those far from integers, and `known`."""
        rest = np.abs(np.abs(scales * logarithms) - np.abs(draws) - 0.5)
        doubt = edge(int(scales.max(initial=1.0)))
        return all(
            self.scaled(float(logarithms[at]), int(scales[at]), int(positions[at])) == draws[at]
            for at in np.flatnonzero(rest >= 0.5 - doubt).tolist()
            if at not in known
        )

    def regular(self, position: int, count: int, every: int, scale: int) -> IntArray:
        """The noise `of` every `every`-th of the positions from this one on, `count` in all."""
        logarithms = self.between(position, (count - 1) * every + 1)[::every]
        products = scale * logarithms
        found = products.astype(np.int64)  # towards 0
        rest = np.abs(products - found)
        sure = (rest > EDGE) & (rest < BEYOND) & (found != 0) & (scale < USUAL_SCALES)
        for at in np.flatnonzero(~sure).tolist():
            found[at] = self.scaled(float(logarithms[at]), scale, position + at * every)
        return found

    def of(self, position: int, scale: int) -> int:
        """The exact noise of a measurement."""
        logarithms, index = self.ahead(position)
        return self.scaled(logarithms[index], scale, position)

    def scaled(self, logarithm: float, scale: int, position: int) -> int:
        """The noise of a measurement from its logarithm in `ahead`, for loops."""
        product = scale * logarithm
        noise = int(product)
        rest = abs(product - noise)
        if EDGE < rest < BEYOND and noise and scale < USUAL_SCALES:
            return noise
        doubt = edge(scale)
        if doubt < rest < 1 - doubt:
            if noise or product > 0:
                return noise
            if self._first <= position < self._end:  # a −0 is thrown away: the next word decides
                word = int(self._second[position - self._first])
                product = scale * one_signed_logarithm(word)
                noise = int(product)
                if doubt < abs(product - noise) < 1 - doubt and (noise or product > 0):
                    return noise
        chunk, tree = divmod(position, 1 << _CHUNK_BITS)
        return one_discrete_laplace(self._keystream.at(chunk=chunk, tree=tree), Fraction(scale))
