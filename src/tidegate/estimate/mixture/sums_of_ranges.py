"""Range sums of many streams at once, from what was smoothed.

At the end of a cell a range sum is the posterior mean given all leaf sums. Inside a cell all values
are estimated as equal; the variance of that is the largest that independent values could have.

The cells of all streams stand one after the other, and so do their ranges. Everything is
elementwise: a stream gets the bits that it has alone, and hundreds of streams take hardly more
calls of numpy than one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tidegate.estimate.mixture.smoother.mixture_smoother import variances_of_each
from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import Ranges

if TYPE_CHECKING:
    from tidegate.estimate.mixture.mixture_posterior import PosteriorSums

# Variance of a part of a cell whose sum is known: by the level of the cell, the number of its
# values, which share of them, and facts about the stream.
Spread = Callable[..., FloatArray]


class SumsOfRanges(NamedTuple):
    """Of the ranges of one stream, in units of its models.

    Attributes:
        estimate: the sums.
        noise: their variances at the edges of cells.
        spread: what is added inside of cells.
        cells: those in which ranges start, and those in which they end.
    """

    estimate: FloatArray
    noise: FloatArray
    spread: FloatArray
    cells: tuple[IntArray, IntArray]


def sums_of_each(
    streams: Sequence[PosteriorSums],
    ranges: Sequence[Ranges],
    spread: Spread,
    facts: Sequence[tuple[float, ...]],
) -> list[SumsOfRanges]:
    """The sums over [start, end) of each stream; `facts` of each are what `spread` needs."""
    sizes = [starts.size for starts, _ in ranges]
    counts = [one.edges.size for one in streams]
    firsts = [0, *accumulate(counts[:-1])]
    edges, sums, levels = (
        _joined([getattr(one, name) for one in streams]) for name in ("edges", "sums", "levels")
    )
    begun, beyond = _of_each(firsts, sizes), _of_each([*accumulate(counts)], sizes)
    # Here and below the first row is where ranges start, the second where they end.
    pairs = [np.stack(pair) for pair in ranges]
    every = zip(streams, pairs, strict=True)
    cells = [np.searchsorted(one.edges, pair, side="right") for one, pair in every]
    within = _joined(cells) + (begun - 1)
    after = np.minimum(within + 1, beyond - 1)
    widths = np.maximum(edges[after] - edges[within], 1)
    shares = (_joined(pairs) - edges[within]) / widths
    before = sums[within] + shares * (sums[after] - sums[within])
    known = [_of_each(each, sizes) for each in zip(*facts, strict=True)]
    at_level = levels[after]
    scatter = spread(at_level, widths, shares, *known).sum(axis=0)
    # The nearer edge of a cell stands for a position inside it; a range inside one cell has its
    # share of the cell.
    near, factor = within + (shares >= 0.5), None
    same, share = within[0] == within[1], shares[1] - shares[0]
    if same.any():
        near[0] = np.where(same, within[0], near[0])
        near[1] = np.where(same, within[0] + (share > 0), near[1])
        factor = np.where(same, np.square(share), 1.0)
        inside = [one[same] if isinstance(one, np.ndarray) else one for one in known]
        scatter[same] = spread(at_level[0, same], widths[0, same], share[same], *inside)
    np.maximum(near[0], near[1], out=near[1])
    near -= begun
    cells_of, estimate, cuts = within - begun, before[1] - before[0], [0, *accumulate(sizes)]
    places = [slice(*pair) for pair in zip(cuts, cuts[1:], strict=False)]
    noise = variances_between(streams, [near[:, at] for at in places])
    if factor is not None:
        noise *= factor
    found = []
    for one, at, pair in zip(streams, places, pairs, strict=True):
        here, total = cells_of[:, at], estimate[at]
        if one.cycles:
            start, end = (one.inside(*of) for of in zip(pair, here, shares[:, at], strict=True))
            total = total + end - start
        found.append(SumsOfRanges(total, noise[at], scatter[at], (here[0], here[1])))
    return found


def variances_between(streams: Sequence[PosteriorSums], edges: Sequence[IntArray]) -> FloatArray:
    """Of sums between edges (indices): the law of total variance over the models of a stream."""
    asked = [
        (view, *near) for one, near in zip(streams, edges, strict=True) for _, view in one.models
    ]
    each = iter(variances_of_each(asked))
    return _joined([
        one.mixed_variances(*near, [next(each) for _ in one.models])
        for one, near in zip(streams, edges, strict=True)
    ])


def _joined(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)


def _of_each(numbers: Sequence[float], sizes: Sequence[int]) -> Any:
    """A number of each stream, for each of its ranges."""
    return numbers[0] if len(sizes) == 1 else np.repeat(np.array(numbers), sizes)
