"""The least θ that a choice may return, from public settings and released data."""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from tidegate.lattice import COARSE, Lattice
from tidegate.threshold.bulk_of_values import LEAST_KNOWN, sees_bulk
from tidegate.threshold.price_of_thresholds import LEAST_PRICE
from tidegate.threshold.tail_quantile import SURE, VISIBLE, TailQuantile

# A first θ starts at most this many lattice steps high, where there are more steps than a default
# resolution makes of a bound (`tidegate.lattice.COARSE`): they are a unit of the data then.
_HIGHEST, _ARTIFICIAL = 16, 10 * COARSE
# ε × values of a stream from which on noise at the bound leaves something of an ordinary stream.
_USEFUL = 2048
# e-folds that a later choice must be able to climb for its least θ to be raised; and if the present
# one has fallen, which is so up to this many times where it began.
_LIFTED, _FALLEN, HARDLY = 7, Fraction(1, 2), 4
# The same where released levels are below this part of θ: most values are 0 then.
STRAYED, MOSTLY_ZERO = 64, 0.1
CLIMB = 16  # the factor by which θ climbs at a time, by released sums (`refinement_level_phases`)


def least_threshold(choice: TailQuantile, lattice: Lattice) -> int:
    """The least θ that a first choice may return, in lattice units.

    1 where it looks for the bulk of the values (`bulk_of_values`), or surely climbs to the bound.

    Where it knows less than that, bound/exp((ε·(values − target) − 5)/3): θ cannot climb far from
    the smallest candidate, and would stay there: a small sum that is sure of itself. It starts
    where it can get away from instead (`TailQuantile.reach`), as if all values lay above 0. The
    bound is public, and so is this; a θ that is too high costs noise, which intervals show. Later
    choices know more and may go below it. Where a step of the lattice is a unit of the data, and no
    part of the bound, it is at most 16 steps: a bound that is far away must not decide.

    And it is at most bound·ε·n/2048 for a stream of n values. Noise of scale θ/ε, through a tree,
    puts about 6·θ/ε on a range, whose values sum to n·mean/3: with θ above ε·n·mean/18 what is
    published is noise. Means of real streams lie around a hundredth of their public bound. Where
    ε·n is that small, θ is too low rather than far too high: an error like that of publishing
    zeros, with an upper end that reaches as far as values may lie (`unseen`).
    """
    if sees_bulk(choice, lattice):
        return 1
    budget = choice.stream_epsilon or choice.epsilon
    drowned = max(1, math.floor(lattice.grains * budget * choice.horizon / _USEFUL))
    reach = choice.reach(choice.holdout, choice.visible)
    return min(
        lattice.top, lattice.grain * min(drowned, _part_of_threshold_bound(lattice.grains, reach))
    )


def lifted_threshold(
    choice: TailQuantile, lattice: Lattice, positive: int, *, fallen: bool = False
) -> int:
    """The least θ that a later choice may return, in lattice units; 1: no limit.

    `positive` of its values surely lie above 0, by what was released. If they can pay for the climb
    over e⁷ and more, θ starts where they can: values that are mostly 0 would leave it at the
    smallest candidate otherwise, although there are enough of the others by now. If the present θ
    has `fallen`, which shows that most are 0, less will do.
    """
    lift = _lifted_threshold(choice, lattice.grains, positive, fallen)
    return 1 if lift == 1 else min(lattice.top, lift * lattice.grain)


@lru_cache(maxsize=1024)
def _lifted_threshold(choice: TailQuantile, top: int, positive: int, fallen: bool) -> int:
    reach = choice.reach(positive, LEAST_PRICE)
    return _part_of_threshold_bound(top, reach) if reach >= (_FALLEN if fallen else _LIFTED) else 1


@lru_cache(maxsize=256)  # every phase of every key asks
def threshold_has_fallen(
    theta: int, top: int, information: Fraction, times: int = HARDLY, *, first: bool = False
) -> bool:
    """Whether θ stayed at or near its start because too few values could pay for the climb.

    `information` is ε × values of its choice: the smallest candidate follows from it, as for a
    first one (`least_threshold`). `theta` and the bound `top` in grains. `first`: it was one.
    """
    if first and information >= LEAST_KNOWN:
        return theta <= times
    reach = max(Fraction(0), information - VISIBLE - SURE) / VISIBLE
    return theta <= times * _part_of_threshold_bound(top, reach)


def how_fallen_threshold(
    home: float, theta: int, top: int, information: Fraction, *, first: bool = False
) -> int:
    """How θ has fallen: 0 if it has not, 1 if it stayed where it began, which is public.

    2: it stayed there or left it by chance only, and the level, a share `home` of θ, is so small
    that most values are 0.
    """
    kind, times = (2, STRAYED) if home < MOSTLY_ZERO else (1, HARDLY)
    return kind * threshold_has_fallen(theta, top, information, times, first=first)


@lru_cache(maxsize=256)
def _part_of_threshold_bound(top: int, reach: Fraction) -> int:
    with localcontext(Context(prec=30)):
        # From here on the least θ is 1, however large ε is; an exponential has limits.
        reach = min(reach, Fraction(top.bit_length()))
        steps = (Decimal(reach.numerator) / Decimal(reach.denominator)).exp()
        least = max(1, math.floor(top / min(steps, Decimal(top))))
        return least if top <= _ARTIFICIAL else min(_HIGHEST, least)
