"""How far both ends of intervals reach for truncated values, where values below 0 count.

`truncated_tail` says when. Constants were chosen on `signed` of `benchmarks.coverage` and on a
season of the tests (decision 0091). Post-processing: free.
"""

from __future__ import annotations

import numpy as np

from tidegate.estimate.mixture.upper_ends import LEAST_HOME, upper_end_weight
from tidegate.lattice import FloatArray

UNAIMED = 5.0  # U where nothing is known of the tail
# U where values below 0 count: of an end at the scale, of a narrowed one (below this part of it),
# and how much more on the level's side, from this home·ln(1/t) on.
_WHOLE, _NARROW, _LEANING = 2.1, 3.1, 0.9
_NARROWED, _LEANS = 0.7, 0.3
# By which part of the scale a level has left the place where ends were chosen; and up to where.
_STILL, _AWAY = 0.06, 0.15


def signed_share_beyond(distances: FloatArray, home: float, aimed: float) -> FloatArray:
    """The share of values beyond a cap, from the level's distance to it now and when it was chosen.

    Home: the level nearest to it among those of the values that chose it.
    """
    nearer = max(home, LEAST_HOME) / np.maximum(distances, LEAST_HOME)
    nearer *= nearer
    found: FloatArray = np.minimum(aimed * np.maximum(nearer * nearer, 1.0), 0.5)
    return found


def signed_upper_end(ends: FloatArray, ratio: float, moved: float) -> FloatArray:
    """U of a cap, from its part of the scale and the level's distance on its side."""
    side = min(max(ratio / _LEANS, -1.0), 1.0)
    calm = np.where(ends < _NARROWED, _NARROW, _WHOLE) + _LEANING * side
    found: FloatArray = calm + moved * (UNAIMED - calm)
    return found


def moved_level_of_signed_values(
    levels: FloatArray, widths: FloatArray, lowest: float, highest: float, scale: FloatArray
) -> float:
    """How far levels are from where they were when the caps were chosen: 0 to 1.

    `lowest` and `highest` are levels of the values that chose them. Where levels have left these,
    they tell little about what lies beyond an end.
    """
    squares = np.square((levels - np.clip(levels, lowest, highest)) / scale) * widths
    return float(upper_end_weight(np.sqrt(squares.sum() / widths.sum()), _STILL, _AWAY))
