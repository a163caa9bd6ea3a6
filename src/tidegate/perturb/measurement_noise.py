"""Noise of single measurements, found by position: proposed for 1,024 positions at once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tidegate.lattice import FloatArray
from tidegate.noise import (
    USUAL_EDGE,
    USUAL_SCALES,
    edge,
    one_discrete_laplace,
    signed_logarithms,
)
from tidegate.perturb.irregular_spans import DRAWS
from tidegate.randomness import Keystream

__all__ = ["BEYOND", "EDGE", "USUAL_SCALES", "MeasurementNoise"]

_CHUNK_BITS = 20  # of a position: what the address of noise calls a tree, the rest is its chunk
_AHEAD = 4 * DRAWS  # positions whose words are read at once, of a stream that is pushed in bulk

EDGE, BEYOND = USUAL_EDGE, 1 - USUAL_EDGE  # for loops that do what `scaled` does


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
        self._listed: tuple[int, list[float]] = (-1, [])

    def __repr__(self) -> str:
        return "<MeasurementNoise: secret>"

    def ahead(self, position: int) -> tuple[list[float], int]:
        """Signed logarithms of the positions around this one, and the place of this one.

        Scale times logarithm gives the noise, as `signed_logarithms` says, or else `of` does.
        """
        group, index = divmod(position, DRAWS)
        if self._listed[0] != group:
            start = group * DRAWS
            if not self._first <= start < self._end:
                chunk, tree = divmod(start, 1 << _CHUNK_BITS)
                # More at once where positions follow each other: for speed alone.
                ahead = _AHEAD if start == self._end else DRAWS
                count = min(ahead, (1 << _CHUNK_BITS) - tree)
                words = self._keystream.first_words(chunk=chunk, tree=tree, count=count)
                self._kept = signed_logarithms(words)
                self._first, self._end = start, start + count
            place = start - self._first
            self._listed = group, self._kept[place : place + DRAWS].tolist()
        return self._listed[1], index

    def of(self, position: int, scale: int) -> int:
        """The noise of a measurement."""
        logarithms, index = self.ahead(position)
        return self.scaled(logarithms[index], scale, position)

    def scaled(self, logarithm: float, scale: int, position: int) -> int:
        """The same with the logarithm from `ahead`, for loops."""
        product = scale * logarithm
        noise = int(product)
        rest = abs(product - noise)
        if EDGE < rest < BEYOND and noise and scale < USUAL_SCALES:
            return noise
        doubt = edge(scale)
        if doubt < rest < 1 - doubt and (noise or product > 0):
            return noise
        chunk, tree = divmod(position, 1 << _CHUNK_BITS)
        return one_discrete_laplace(self._keystream.at(chunk=chunk, tree=tree), Fraction(scale))
