"""The constants of the prototype for short streams, and its choice of θ as a simulation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rules:
    """The constants that were tried."""

    warm_up: float = 5.0  # values, in (horizon/ε²)^⅓
    longest: float = 1 / 4  # of the horizon
    warm_share: Fraction = Fraction(3, 4)  # of ε, for the choice of θ in a warm-up
    wanted: float = 25.0  # values of the horizon above θ, in 1/ε
    certain: float = 3.0  # the least count above θ to be aimed at, in 1/(the selection's ε)
    most: float = 0.25  # the highest, as a share of the window
    kink: bool = True  # counts below the one aimed at are all as good
    price: float = 1.0  # of a factor e in θ, in counts aimed at
    affordable: float = 0.5  # the price of the bound, in values of the window
    tail: float = 5.0  # index by which θ is extrapolated
    ratios: tuple[tuple[float, float], ...] = ((100.0, 1.25), (30.0, 1.5), (0.0, 2.0))
    growth: float = 2.0  # of information from one choice to the next
    early_share: Fraction = Fraction(1, 2)  # of ε for the next θ, in the first sixteenth
    late_share: Fraction = Fraction(1, 4)  # later
    until: float = 1 / 3  # windows are open up to here, as a part of the horizon
    lasting_share: Fraction = Fraction(1, 16)  # of ε, in the windows after that; 0: none
    lasting: float = 100.0  # share × ε × values that such a window needs
    lasting_certain: float = 6.0  # as `certain`: these windows can only raise θ
    lasting_step: float = 1.0  # θ is raised if it grows by this factor at least
    restart: bool = True
    full: float = 0.45  # share of its cap at which a leaf is full
    grown: float = 0.5  # and more by this part of the share at home
    again: float = 5.0  # the same for a later warm-up
    sure: float = 6.0  # standard errors of a leaf
    block_sure: float = 3.0  # of a whole block: there are fewer of them
    above_full: float = 1.0  # the lowest θ after a full cap, in caps
    keep: float = 1.2  # a cap is kept if the quantile seen after it was full is below this
    again_share: Fraction = Fraction(1, 2)  # of ε, for the choice of θ in a later warm-up
    backfill: bool = True
    watch: float = 256.0  # values of a watched leaf, times ε; 0: four leaves
    centred: bool = False  # after the warm-up the running sum is right for ranges, not for totals
    near: float = 1 / 16


@lru_cache(maxsize=64)
def grid_of(bound: int, ratio: float) -> Values:
    steps = int(math.log(bound) / math.log(ratio)) + 1
    return np.unique(np.rint(bound ** (np.arange(steps + 1) / steps))).astype(np.int64)


def counted(ordered: Values, grid: Values, near: float) -> Floats:
    """Values above each of the grid; those hardly above it count in part."""
    sums = np.concatenate(([0], np.cumsum(ordered)))
    first = np.searchsorted(ordered, grid, side="right")
    last = np.searchsorted(ordered, grid * (1 + near), side="right")
    between = (sums[last] - sums[first] - grid * (last - first)) / (near * grid)
    return between + ordered.size - last


def selected(
    rules: Rules,
    values: Values,
    *,
    bound: int,
    horizon: int,
    epsilon: float,
    budget: float,
    floor: float,
    random: np.random.Generator,
    certain: float | None = None,
) -> tuple[int, float]:
    """θ, and the quantile that it was extrapolated from, as `TailQuantile` chooses them.

    By the best score after exponential noise, which has the law of permute-and-flip.
    """
    least_count = (rules.certain if certain is None else certain) / budget
    information = budget * values.size
    ratio = next(ratio for least, ratio in rules.ratios if information >= least)
    grid = grid_of(bound, ratio)
    wanted = rules.wanted * values.size / horizon / epsilon
    count = min(max(wanted, least_count), rules.most * values.size)
    beyond = max(1.0, count / wanted) ** (1 / rules.tail)
    grid = grid[grid >= min(floor, bound) / beyond]
    # The smallest candidate, which everything exceeds, must never look cheap.
    affordable = rules.affordable * (values.size - count) / math.log(max(2, bound))
    price = min(rules.price * count, max(least_count, affordable))
    above = counted(np.sort(values), grid, rules.near)
    scores = -np.maximum(above, count if rules.kink else 0.0) - price * np.log(grid)
    chosen = float(grid[np.argmax(scores + random.exponential(1 / budget, grid.size))])
    return max(1, min(bound, round(chosen * beyond))), chosen
