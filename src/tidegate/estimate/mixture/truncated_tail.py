"""What truncation took away, estimated from public knowledge alone: it costs no privacy.

Nothing that was released says how far above the cap values lie. What is known is the rule that
chose θ, which aims at a share p of values above θ, and the released level, now and when θ was new
(`home`). For a tail of index κ a value above θ exceeds it by θ/(κ − 1) on average, and a level that
has grown by g leaves g^κ times as many above the cap. So the excess of a value is estimated as

    F · p · min(1, (L/t)²) · min(g, 4)³ · cap,    t = home · ln(1/p),

where t > L tells light tails: values crowd below a cap that few of them exceed. (For exponential
values t is 1.) Growth counts only as far as the released level can bear it: of values with this
level and a tail between an exponential one and a power law, (1 + cap/(8·level))^−8 lie above the
cap. (A cycle that was low when θ was new comes back to where θ was chosen, and cuts nothing more.)
It is a rough estimate: streams differ in their tails, and a stream without a tail
has no excess. So intervals reach down to no excess, and up by a log-normal factor. F and `DOUBT`
are chosen so that the estimate is best and that intervals hold, on the streams of `choose` in
`benchmarks.coverage` and on no others.

More could be known only for more of ε: a node a horizon for the excess up to four caps, bought with
an eighth of ε, has noise of 34 cap/ε, as much as there is to learn (the median of those streams is
20 cap/ε), and would make all else worse.

Where values below 0 count, both ends have been chosen by the rule and each has its own excess, F·p
of its distance from 0: the released level says nothing about either tail then.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np

from tidegate.estimate.mixture.portable_math import log
from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import Block, Excess

# p over the share of θ that is added to every published value for truncation.
_EXCEEDING = 8.0
# F, and L for light tails.
_SCALE, _LIGHT = 0.5, 1.6
# The level when θ was new is that of the first values, this part of a horizon; at least this in θ.
_HOME, _LEAST_HOME = 32, 0.01
_LEAST_LEVEL = 0.002
_MOST_GROWTH = 4.0
# The mean square of an excess over the square of its mean: 2 for an exponential tail, more for
# heavier ones.
_SQUARE = 4.0
# Standard deviation of the logarithm of the factor, upwards. (A larger one where the level has
# moved, and a smaller one elsewhere, made intervals wider for the same coverage.)
DOUBT = 1.4


class Levels(Protocol):
    """Cells and the posterior mean of the sums before them, in θ."""

    edges: IntArray
    sums: FloatArray


class Tail(Protocol):
    """What truncation took away from the sums of ranges."""

    def between(self, starts: IntArray, ends: IntArray, unit: float) -> Excess:
        """The excess of the values of [start, end); `unit`: that of the models, in the data's."""
        ...


class TruncatedTail:
    """The expected excess over the caps before any position, in units of θ."""

    def __init__(
        self,
        known: Levels,
        blocks: Sequence[Block],
        *,
        threshold: int,
        ceiling: int,
        horizon: int,
        below: int,
        truncated: float,
    ) -> None:
        edges = known.edges
        widths: FloatArray = np.maximum(np.diff(edges), 1).astype(np.float64)
        if not widths.size:
            edges, widths = np.array([0, 1]), np.ones(1)
        levels = np.diff(known.sums) / widths if known.sums.size > 1 else np.zeros(1)
        begun = np.array([block.start for block in blocks] or [0])
        caps = np.array([block.layout.cap - below for block in blocks] or [ceiling]) / threshold
        caps = caps[np.maximum(np.searchsorted(begun, edges[:-1], side="right") - 1, 0)]
        room = np.maximum(ceiling / threshold - caps, 0.0)  # 0: nothing is truncated at the bound
        exceeding = min(1.0, _EXCEEDING * truncated)
        young = edges[:-1] < edges[0] + max(1, horizon // _HOME)
        home = max(float((levels * widths)[young].sum() / widths[young].sum()), _LEAST_HOME)
        light = min(1.0, _LIGHT / (home * _rarity(exceeding))) if exceeding else 0.0
        growth = np.minimum(np.maximum(levels, _LEAST_LEVEL) / (home * caps), _MOST_GROWTH)
        if below:
            light, growth = 1.0, np.ones_like(caps)
        thinned = 1.0 + caps / (8 * np.maximum(levels, _LEAST_LEVEL))
        thinned *= thinned  # to the eighth power, with the same bits on every machine
        thinned *= thinned
        bearable = np.maximum(1.0 / (thinned * thinned), exceeding)
        share = np.minimum(exceeding * growth * growth * growth, bearable)
        each = _SCALE * light * light * caps  # by which a value above the cap exceeds it
        expected = np.minimum(share * each, room)
        self._edges = edges
        self._sums = _before(expected * widths)
        self._fallen = _before(exceeding * _SCALE * (below / threshold) * widths)
        self._squares = _before(np.where(room > 0, _SQUARE * share * each * each, 0.0) * widths)
        self._room = _before(room * widths)

    def between(self, starts: IntArray, ends: IntArray, unit: float) -> Excess:
        """The excess of the values of [start, end), θ being `unit` in the unit of the data."""
        sums, fallen, squares, room = (
            np.interp(ends, self._edges, before) - np.interp(starts, self._edges, before)
            for before in (self._sums, self._fallen, self._squares, self._room)
        )
        return Excess(sums * unit, fallen * unit, squares * unit**2, room * unit, DOUBT)


def _before(each: FloatArray) -> FloatArray:
    return np.concatenate(([0.0], np.cumsum(each)))


@lru_cache(maxsize=64)
def _rarity(share: float) -> float:
    """ln(1/share), at least 1."""
    return max(1.0, -float(log(np.array([share]))[0]))
