"""Scores of neighbouring inputs, and how far their laws are apart."""

import itertools
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any


def neighbour_ratios(
    laws: Mapping[tuple[int, ...], Any],
) -> Iterator[tuple[bool, float | Fraction]]:
    """For all scores that differ by at most 1 each: whether monotone, and the largest ratio."""
    for scores, law in laws.items():
        for step in itertools.product((-1, 0, 1), repeat=len(scores)):
            neighbour = tuple(score + move for score, move in zip(scores, step, strict=True))
            if neighbour in laws:
                monotone = min(step) >= 0 or max(step) <= 0
                yield monotone, max(p / q for p, q in zip(law, laws[neighbour], strict=True))
