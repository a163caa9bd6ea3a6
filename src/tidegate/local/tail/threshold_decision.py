"""Choose the threshold from the tail; and its best share before anything is known about the data.

Third: the threshold with the least expected error, and what to add to reports cut at it.
"""

from __future__ import annotations

import math

import numpy as np

from tidegate.lattice import FloatArray
from tidegate.local.survey import SurveyDecision
from tidegate.local.tail.tail_bits import weighted_tail_quantiles
from tidegate.local.tail.tail_location_and_posterior import Tails

_HIGHEST_TOP = 0.12
_VISIBLE = 2.0  # standard deviations from which on a share can be told from none
_MIDDLE = 0.5


def best_share_above_threshold(variance: float, horizon: int) -> float:
    """s*: the share of values above the best threshold.

    With a mean excess of θ/3, a share s of values above θ costs (r²/6)·(sθ/3)², and reports of
    variance V on [−1, 1] cost (r/3)·V·θ²/4. As θ moves out, s falls as θ^(−k), and the sum is
    least near s* = sqrt(3V/(2r)), for any tail that thins out about like θ^(−3).

    >>> round(best_share_above_threshold(100.7, 2**20), 4)  # ε = 0.2
    0.012
    """
    return min(0.25, math.sqrt(1.5 * variance / horizon))


def shares_to_decide_threshold(best: float, seen: float = 0.0) -> tuple[float, ...]:
    """The shares whose levels are worth asking about: from where a bit still tells something, down
    to three times the best share.

    The last is asked about twice as often: nearest to the threshold, and the least known. Where a
    round has few answers, only larger shares can be told from none: `seen` is the standard
    deviation of a small share.

    >>> [round(share, 4) for share in shares_to_decide_threshold(0.0025)]
    [0.075, 0.0237, 0.0075, 0.0075]
    >>> [round(share, 2) for share in shares_to_decide_threshold(0.1, seen=0.2)]
    [0.4, 0.3, 0.3]
    """
    top = min(max(min(30 * best, _HIGHEST_TOP), _VISIBLE * seen), _MIDDLE)
    bottom = max(3 * best, seen / 2)
    if bottom >= top:
        return (top,)
    if top / bottom < 5:
        return (top, bottom, bottom)
    return (top, math.sqrt(top * bottom), bottom, bottom)


_PER_OCTAVE = 16
_FARTHEST = 1.6  # times what tails of one scale say: a second one moves θ no farther
_ADDED = 0.8  # of the median excess: all of it would be too much if reports were cut too late
_UNKNOWN = 0.5  # of the median excess: what the family of tails does not know of itself


def decide_threshold(
    tails: Tails,
    top: int,
    *,
    horizon: int,
    variance: float,
    location_span: float = 1.0,
    other: int = 0,
) -> SurveyDecision:
    """The threshold θ with the least posterior mean of the root of the root mean squared error.

    A range sum over up to r values cut at θ misses Σ excess: ex(θ) = ∫_θ^B S(x) dx a value, of
    which d = 0.8 of its posterior median is added back. Its mean squared error is
    (r/3)·V·θ²/4 + (r²/6)·[(ex − d)² + (0.5·median)²]; the last term is what the family of tails
    does not know of itself. Its fourth root is averaged: in the mean of the error or of its square
    the farthest tails of the prior would rule, and they push the threshold out on every stream.

    Second scales move θ to at most 1.6 times what tails of one scale say: where there is one, that
    is most of the gain; where there is none, noise grows by no more than 2.6 in the square.

    The range of the best threshold is that of each tail's own best one. As far as the bits left the
    share at the anchor open, the anchor itself is no better known than the first round knew it:
    the range is widened by that part of `location_span`.
    """
    levels = candidates_for_decision(tails, top)
    excess = excesses_above_thresholds(tails, levels)
    median = weighted_tail_quantiles(excess, tails.weights, (0.5,))[0]
    offset = _ADDED * median
    noise = horizon / 3 * variance * (levels + other) ** 2 / 4
    unknown = np.square(excess - offset) + np.square(_UNKNOWN * median)
    errors = tails.weights @ np.sqrt(np.sqrt(noise + horizon**2 / 6 * unknown))
    chosen = int(np.argmin(errors))
    if (simple := tails.of_one_scale()) is not tails:
        usual = decide_threshold(
            simple, top, horizon=horizon, variance=variance, other=other
        ).threshold
        far = int(np.searchsorted(levels, _FARTHEST * usual, side="right")) - 1
        chosen = min(chosen, max(far, 0))
    own = np.argmin(noise + horizon**2 / 6 * np.square(excess), axis=1)
    low, high = weighted_tail_quantiles(levels[own][:, None], tails.weights, (0.05, 0.95))[:, 0]
    widened = location_span ** (tails.unknown_anchor / 2)
    return SurveyDecision(
        threshold=max(1, round(levels[chosen])),
        offset=float(offset[chosen]),
        low=float(low / widened),
        high=min(float(high * widened), float(top)),
    )


def candidates_for_decision(tails: Tails, top: int) -> FloatArray:
    """16 per octave, from half the level where the tail begins to the bound."""
    lowest = min(max(1.0, tails.anchor / 2), float(top))
    octaves = math.log2(top / lowest)
    return np.geomspace(lowest, top, math.ceil(_PER_OCTAVE * octaves) + 1).clip(max=top)


def excesses_above_thresholds(tails: Tails, levels: FloatArray) -> FloatArray:
    """∫_level^B S for each tail and level, by trapezoids between the levels."""
    shares = tails.shares_above(levels)
    cells = (shares[:, 1:] + shares[:, :-1]) / 2 * np.diff(levels)
    beyond = np.cumsum(cells[:, ::-1], axis=1)[:, ::-1]
    return np.hstack((beyond, np.zeros((len(shares), 1))))
