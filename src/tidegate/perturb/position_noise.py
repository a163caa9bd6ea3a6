"""Discrete Laplace noise that is found by position alone, for 1,024 positions at once."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tidegate.lattice import IntArray
from tidegate.noise import (
    USUAL_EDGE,
    USUAL_SCALES,
    discrete_laplace,
    edge,
    one_discrete_laplace,
    signed_logarithms,
)
from tidegate.randomness import Keystream

__all__ = ["BEYOND", "EDGE", "USUAL_SCALES", "MeasurementNoise", "PositionNoise"]

DRAWS = 1024  # positions whose noise is drawn at once; part of its identity
_CHUNK_BITS = 20  # of a position: what the address of noise calls a tree, the rest is its chunk

EDGE, BEYOND = USUAL_EDGE, 1 - USUAL_EDGE  # for loops that do what `scaled` does


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
        self._group = -1  # of positions: whose noise is kept
        self._drawn: list[IntArray] = []
        self._listed: tuple[int, list[int]] = (-1, [])

    def at(self, position: int) -> tuple[list[IntArray], int]:
        """Noise of each kind for the positions around this one, and the place of this one."""
        group, index = divmod(position, DRAWS)
        if self._group != group:
            chunk, tree = divmod(group, 1 << 32)
            self._drawn = [
                discrete_laplace(
                    self._keystream.at(chunk=self._first_chunk + chunk, tree=tree, level=level),
                    DRAWS,
                    scale,
                )
                for level, scale in self._scales.items()
            ]
            self._group = group
        return self._drawn, index

    def ahead(self, position: int) -> tuple[list[int], int]:
        """Noise of the first kind as numbers, and the place of this position among them."""
        (noise, *_), index = self.at(position)
        if self._listed[0] != self._group:
            self._listed = self._group, noise.tolist()
        return self._listed[1], index


class MeasurementNoise:
    """Discrete Laplace noise of any scale for any position, drawn from the words of that position.

    The scale of a measurement is known only when it is made, so what can be prepared is the
    logarithm of the first word (`ahead`). Scale times logarithm is the noise, up to rounding; where
    rounding could matter, integers decide (`of`), so the noise is `one_discrete_laplace`.
    """

    def __init__(self, keystream: Keystream) -> None:
        self._keystream = keystream
        self._group = -1  # of positions: whose logarithms are kept
        self._logarithms: list[float] = []

    def __repr__(self) -> str:
        return "<MeasurementNoise: secret>"

    def ahead(self, position: int) -> tuple[list[float], int]:
        """Signed logarithms of the positions around this one, and the place of this one.

        Scale times logarithm gives the noise, as `signed_logarithms` says, or else `of` does.
        """
        group, index = divmod(position, DRAWS)
        if self._group != group:
            chunk, tree = divmod(group * DRAWS, 1 << _CHUNK_BITS)
            words = self._keystream.first_words(chunk=chunk, tree=tree, count=DRAWS)
            found = signed_logarithms(words)
            self._logarithms, self._group = found.tolist(), group
        return self._logarithms, index

    def of(self, position: int, scale: int) -> int:
        """The noise of a measurement."""
        logarithms, index = self.ahead(position)
        return self.scaled(logarithms[index], scale, position)

    def scaled(self, logarithm: float, scale: int, position: int) -> int:
        """The same with the logarithm from `ahead`, for loops."""
        product = scale * logarithm
        noise = int(product)
        rest = product - noise
        if EDGE < rest < BEYOND or (noise and -BEYOND < rest < -EDGE):
            if scale < USUAL_SCALES:
                return noise
            doubt = edge(scale)
            if doubt < abs(rest) < 1 - doubt:
                return noise
        chunk, tree = divmod(position, 1 << _CHUNK_BITS)
        return one_discrete_laplace(self._keystream.at(chunk=chunk, tree=tree), Fraction(scale))
