"""Tails with two scales: for example, one value in fifty has a scale ten times larger.

Such a tail is long where a tail of one scale has decayed. To expect one always would raise every
threshold, so it counts only where answers can show it (decision 0089).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.local.tail.tail_bits import TailBits

SECOND_CHANCE = 0.2
# The share of values of the second scale, in standard deviations of a share; its largest, in parts
# of the top rung's; how far out they lie, in parts of the anchor.
_VISIBLE, _LARGEST, _REACHES = (3.0, 6.0), 0.4, (8.0, 20.0)
_FALL = 1.5  # how they fall: between an exponential and a normal distribution
_UNLIKELY = 7.0  # nats below the likeliest, by the prior


def visible_second_scales(bits: TailBits, top_share: float) -> list[float]:
    """Shares that the answers about the upper half of the levels can distinguish from 0."""
    upper = np.argsort(bits.level, kind="stable")[bits.level.size // 2 :]
    told = float((4 * bits.count[upper] * np.square(1 - 2 * bits.lie[upper])).sum())
    shares = [times / math.sqrt(told) for times in _VISIBLE] if told else []
    return [share for share in shares if share < _LARGEST * top_share]


def with_second_scale(
    first: FloatArray, part: FloatArray | float, distances: FloatArray
) -> FloatArray:
    """S with a second scale: `distances` are levels divided by its reach."""
    both: FloatArray = np.minimum(1.0, first + part * np.exp(-(distances**_FALL)))
    return both


@dataclass(frozen=True)
class SecondScales:
    """Indices of first scales in the grid; shares and reaches of second ones; log weights."""

    first: IntArray
    share: FloatArray
    reach: FloatArray
    log_weights: FloatArray


def tails_of_two_scales(
    bits: TailBits,
    ratios: FloatArray,
    shares: FloatArray,
    prior: FloatArray,
    parts: Sequence[float],
) -> SecondScales:
    """Each first scale with each second one that could be seen.

    Args:
        ratios: levels that were asked about, over the anchor.
        shares: S at these of every first scale, by itself.
        prior: of first scales, over their grid.
    """
    # Every second one in each direction, without the least likely, stands for the whole grid.
    chosen = np.zeros(prior.shape, dtype=np.bool_)
    chosen[::2, ::2, ::2] = True
    some = np.flatnonzero(chosen & (prior > prior.max() - _UNLIKELY))
    pairs = [(part, reach) for part in parts for reach in _REACHES]
    kept = prior.ravel()[some]
    each = math.log(np.exp(prior).sum() / np.exp(kept).sum() * SECOND_CHANCE / len(pairs))
    likely = [
        kept + each + bits.log_likelihood(with_second_scale(shares[some], part, ratios / reach))
        for part, reach in pairs
    ]
    second, reaches = np.repeat(np.array(pairs), some.size, axis=0).T
    return SecondScales(np.tile(some, len(pairs)), second, reaches, np.concatenate(likely))
