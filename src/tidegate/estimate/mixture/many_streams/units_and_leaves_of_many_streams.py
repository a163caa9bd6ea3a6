"""Shared by the modules for many streams: units, leaves that end together, grouping."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.kalman_filter.state_space_models import (
    Models,
    StateTransition,
    models,
)
from tidegate.lattice import FloatArray, IntArray

_EXACT = 1 << 53  # whole numbers below are exact as floats


@dataclass(frozen=True)
class FilterUnit:
    """The unit of filters: θ in lattice units; and what truncation takes from a value.

    One for all streams, or one for each.
    """

    threshold: int | IntArray
    truncated: float | FloatArray


@dataclass(frozen=True)
class EndedLeaves:
    """Leaves that end together, one for each stream; their cells have equal widths.

    Attributes:
        widths: of the cells of a leaf.
        share, contrast: how much of the inner noise each gets, and the variance on top.
        noisy: their sums, in θ.
    """

    widths: tuple[int, ...]
    share: FloatArray
    contrast: FloatArray
    noisy: FloatArray


def alike_in_many_streams(kinds: NDArray[np.signedinteger]) -> list[IntArray]:
    """Group the indices of equal entries."""
    if not kinds.size:
        return []
    if (kinds == kinds[0]).all():
        return [np.arange(kinds.size)]
    order = np.argsort(kinds, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(kinds[order])) + 1)


def grouped_streams(*columns: list[int]) -> list[tuple[tuple[int, ...], list[int]]]:
    """Group rows with equal numbers in all columns: the numbers, and the rows."""
    found: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for row, each in enumerate(zip(*columns, strict=True)):
        found[each].append(row)
    return list(found.items())


def ratios_of_streams(numerators: IntArray, denominators: int | IntArray) -> FloatArray:
    """Quotients of integers, correctly rounded, as Python's division gives them."""
    if numerators.size and max(-int(numerators.min()), int(numerators.max())) >= _EXACT:
        below = np.broadcast_to(denominators, numerators.shape).tolist()
        pairs = zip(numerators.tolist(), below, strict=True)
        return np.array([above / each for above, each in pairs])
    found: FloatArray = numerators / denominators
    return found


def tiled_for_streams(several: Models, times: int) -> Models:
    """Repeat the models for each of many streams."""
    return Models(*(np.tile(part, times) for part in several.parts))


@lru_cache(maxsize=32)
def transition_of_many(horizon: int, width: int, times: int) -> StateTransition:
    """The transition of all models over a cell, repeated for each stream."""
    return StateTransition(tiled_for_streams(models(horizon), times), width)
