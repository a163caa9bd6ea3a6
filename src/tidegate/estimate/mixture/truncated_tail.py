"""Estimate what truncation removed, from public facts and released data only.

Nothing that was released says how far above the cap values lie. What is known is the share t of
values above θ that the choice of θ could aim at (`Aim`), and the released level, now and when θ was
new (`home`), as shares of the cap. The excess of a value is estimated as

    F · t · light · min(g, 4)³ · cap,    light = min(1, (L/(home·ln(1/t)))²),

where `light` tells light tails: values crowd below a cap that few of them exceed. (For exponential
values home·ln(1/t) is 1.) A level that has grown by g since leaves more values above the cap, as
far as it can bear it: of values with this level and a tail between an exponential one and a power
law, (1 + cap/(8·level))^−8 lie above the cap. (A cycle that was low when θ was new comes back to
where θ was chosen, and cuts nothing more.)

It is a rough estimate: streams differ in their tails, and a stream without a tail has no excess. So
intervals reach down to no excess, and up to U/F times the estimate. U grows with home·ln(1/t) as
long as tails are not light: a θ that lies far above the level has cut little, whatever the tail,
and one that lies low, for a share t above it, may have come out too low. But a θ so far above the
level that only a heavy tail puts it there has cut more (`upper_ends`). And U grows with
ln(bound/θ), as the excess of a tail of index 1 below the bound; with its square if the bound is far
(40 times θ and more): nothing that is released tells a second scale, few values that are hundreds
of times as large, from an ordinary tail, but the bound says how far they may lie. Ends reach
further where more is known, or less:

- A level that has grown until it fills its cap says nothing about how far it has grown. Up to half
  of the cap that is what exponential values would hide, and at the cap it is open: up to the bound.
  A leaf or the newest block that has jumped says so before the level does (`full_leaves`).
  If a new warm-up has followed, its level is taken for what was hidden; unless that lies below
  the level: then values had fallen again, and it says nothing.
- A first choice by the bulk leaves fewer values above θ than it could see (`Aim.left`).
- A later phase with the same warm-up and a higher cap has seen part of what this cap took away.

No more values can lie above the cap than the level has caps: that bounds all of it, and with all of
them at the bound it is the most that can be said without assuming a tail (`Excess.most`). (Where
all of the level may come from values that are cut, ends are open:
`tidegate.record.unseen_values`.)
Where values below 0 count, the scale was chosen by the rule, from the sizes of values, and then the
shape of both ends. So what lies beyond an end is measured in scales, and not in what the end is: an
end that is narrower than the scale by chance cuts as much as the other. The upper end is U scales
for each value beyond, more on the side of 0 on which the level lies and at a narrowed end. It is
less where the level is a large part of the scale, as values crowd around it. Where the level has
left those of the values that chose the ends (`Aim.lowest`), none of that is known: U as if nothing
were. The share beyond an end grows with the fourth power as the level comes nearer to it than it
was then. An end at its bound cuts nothing.

F, L, U are chosen so that intervals hold on the streams of `choose`, `signed` and `heavy` in
`benchmarks.coverage`. Some have seen more: the least U `heavy_fresh` and one stream of `report`,
how far a level may move a season in the tests (decision 0091), how near bounds count one stream of
`bounds_fresh`, and the size of U the median width of `report` and `unseen` (decision 0094).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tidegate.estimate.mixture.ends_of_signed_values import (
    UNAIMED,
    moved_level_of_signed_values,
    signed_share_beyond,
    signed_upper_end,
)
from tidegate.estimate.mixture.full_leaves import full_leaf_shares
from tidegate.estimate.mixture.upper_ends import (
    LEAST_HOME,
    upper_end,
    upper_end_logarithm,
    upper_end_weight,
)
from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import Aim, Block, Excess, Recorded

# t over the share of θ that is added to every published value for truncation, where no `Aim` is.
_EXCEEDING = 15.0
# F, and L for light tails.
_SCALE, _LIGHT = 0.1, 1.2
_LEAST_LIGHT = 0.1
# The level when θ was new is that of the first values, this part of a horizon.
_HOME = 32
_LEAST_LEVEL = 0.002
_MOST_GROWTH = 4.0
# The mean square of an excess over the square of its mean: 2 for an exponential tail, more for
# heavier ones.
_SQUARE = 4.0
# From which growth on, and above which share of the cap, a level fills its cap; and up to where.
_GROWN, _GROWN_UP = 1.25, 1.75
_FULL, _FULL_UP = 0.5, 0.7
_CROWDED = 0.8  # at home, of the cap, at most
# Above which share of the cap nearly all values must have been cut, and up to where.
_CUT, _CUT_UP = 0.92, 0.99
# Upper ends: of what a full cap hides, of what followed it, and of what a higher cap saw later.
_HIDDEN, _FOLLOWED, _SEEN = 2.0, 3.0, 1.5
# L of signed values, with its least factor.
_CALM, _LEAST_CALM = 0.85, 0.2
# By how much the level may be wrong, where it bounds how many values lie above the cap.
_MARGIN = 1.5


class TailLevels(Protocol):
    """Cells and the posterior mean of the sums before them, in θ."""

    @property
    def edges(self) -> IntArray:
        """The beginnings of the cells, and the end of the last one."""

    @property
    def sums(self) -> FloatArray:
        """The posterior mean of the sum before each edge."""


# Where ranges start, and where they end: positions, and the cell in which each lies.
Places = tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]]


class Tail(Protocol):
    """An estimate of what truncation took from the sums of ranges."""

    def between(self, places: Places, unit: float) -> Excess:
        """The excess of the values of ranges; `unit` is the models' unit in the data's."""
        ...


class TruncatedTail:
    """The expected excess over the caps before any position, with its ends, in units of θ."""

    def __init__(
        self,
        known: TailLevels,
        recorded: Recorded,
        blocks: Sequence[Block],
        truncated: float,
        aim: Aim,
    ) -> None:
        threshold, below = recorded.threshold, recorded.below
        edges = known.edges
        widths: FloatArray = np.maximum(edges[1:] - edges[:-1], 1).astype(np.float64)
        if not widths.size:
            edges, widths = np.array([0, 1]), np.ones(1)
        sums = known.sums
        levels = (sums[1:] - sums[:-1]) / widths if sums.size > 1 else np.zeros(1)
        begun = np.array([block.start for block in blocks] or [0])
        caps = np.array([block.layout.cap - below for block in blocks] or [threshold]) / threshold
        block_of = np.maximum(np.searchsorted(begun, edges[:-1], side="right") - 1, 0)
        caps = caps[block_of]
        # 0: nothing is truncated at the bound.
        room = np.maximum(recorded.ceiling / threshold - caps, 0.0)
        aimed = aim.share or min(1.0, _EXCEEDING * truncated)
        young = edges[:-1] < edges[0] + max(1, recorded.perturber.horizon // _HOME)
        home = float((levels * widths)[young].sum() / widths[young].sum())
        fallen = lower = np.zeros_like(caps)
        if below:
            floor = below / threshold
            scale = np.maximum(caps, floor)
            beneath = max(recorded.depth / threshold - floor, 0.0)  # 0: the floor is the bound
            ratio = home / float(scale[0]) * upper_end_logarithm(aimed)
            light = min(max((_CALM / max(abs(ratio), LEAST_HOME)) ** 2, _LEAST_CALM), 1.0)
            lowest = float(np.fmin(home, aim.lowest / threshold))
            highest = float(np.fmax(home, aim.highest / threshold))
            moved = moved_level_of_signed_values(levels, widths, lowest, highest, scale)
            light += moved * (1.0 - light)
            over = signed_share_beyond(caps - levels, float(caps[0]) - highest, aimed)
            under = signed_share_beyond(levels + floor, lowest + floor, aimed)
            share, each = over + under, _SCALE * light * scale
            expected, fallen = over * each, np.minimum(under * each, beneath)
            wider = math.sqrt(aim.wider)
            reach = light * (wider + moved * (aim.wider - wider)) * scale
            above = np.clip(_MARGIN * (levels + floor) / (caps + floor), 0.0, 1.0)
            upper = over * reach * signed_upper_end(caps / scale, ratio, moved)
            lower = under * reach * signed_upper_end(floor / scale, -ratio, moved)
            lower = np.minimum(lower, beneath)
        else:
            level, home = home, max(home, LEAST_HOME)
            rarity = home * upper_end_logarithm(aimed)
            light = max(min(1.0, _LIGHT / rarity) ** 2, _LEAST_LIGHT)
            growth = np.maximum(levels, _LEAST_LEVEL) / (home * caps)
            share = _share_in_tail(levels / caps, np.minimum(growth, _MOST_GROWTH), aimed)
            each = _SCALE * light * caps
            expected = share * each
            times = UNAIMED * light * share
            if aim.share:
                left = min(aimed, aim.left)
                times = upper_end(level, left, recorded.ceiling / threshold) * share * left / aimed
                times *= light
            upper = times * aim.wider * caps
            full = upper_end_weight(levels / caps, _FULL, _FULL_UP)
            grown = upper_end_weight(growth, _GROWN, _GROWN_UP) * full
            # A jump fills a cap before the smoothed level knows: what was measured says so.
            measured = full_leaf_shares(recorded, blocks, int(edges[-1]), home)
            leaves = measured.of_leaves(edges[:-1])
            unknown = np.maximum(grown, leaves > 0)
            if aim.following:
                hidden = np.maximum(aim.following / threshold - levels, 0.0)
                # A calm level that happens to lie near its cap hid nothing before it grew.
                grown = np.maximum(grown, upper_end_weight(levels / caps, _CUT, _CUT_UP))
                expected = np.maximum(expected, grown * hidden)
                upper = np.maximum(upper, _FOLLOWED * full * hidden)
                # Where nothing is hidden it was higher than what followed.
                unknown = np.where(hidden > 0, 0.0, np.maximum(grown, leaves > 0))
            filled = np.maximum(np.maximum(levels / caps, measured.blocks[block_of]), leaves)
            upper = np.maximum(upper, _HIDDEN * unknown * caps * _exponential_tail(filled))
            # Or a jump lies inside the leaf, and all that came after it may be at the bound.
            usual = np.minimum(home / caps, _CROWDED)
            upper = np.maximum(upper, room * np.minimum((leaves - usual) / (1.0 - usual), 1.0))
            if aim.later:
                mean = float((levels * widths).sum() / widths.sum())
                gap = max(aim.later / threshold - mean, 0.0)
                upper = np.maximum(upper, _SEEN * gap * min(1.0, max(mean, 0.0) / aimed))
            above = np.minimum(_MARGIN * np.maximum(np.maximum(levels / caps, leaves), aimed), 1.0)
            upper = np.minimum(upper, above * room)
        expected, most = np.minimum(expected, room), above * room
        upper = np.minimum(np.maximum(upper, expected), room)
        self._edges = edges
        squares = np.where(room > 0, _SQUARE * share * each * each, 0.0)
        kinds = np.array((expected, fallen, squares, most, upper, lower))
        self._before = tail_before_edges(kinds * widths)

    def between(self, places: Places, unit: float) -> Excess:
        """The excess of the values of ranges; `unit` is θ in the unit of the data."""
        parts = tail_between_places(places, self._edges, self._before)
        found = Excess(*(part * unit for part in parts))
        return found._replace(variance=found.variance * unit)


def tail_between_places(places: Places, edges: IntArray, before: FloatArray) -> FloatArray:
    """Sums over ranges from the sums `before` each edge, interpolated linearly.

    A row for each kind.

    As `np.interp` of each, which would look for the same positions again and again.
    """
    widths: IntArray = np.ones_like(edges)  # and one beyond the last edge
    np.maximum(edges[1:] - edges[:-1], 1, out=widths[:-1])
    inside = []
    for at, within in places:
        cell = np.maximum(within, 0)
        inside.append((cell, np.minimum(np.maximum(at - edges[cell], 0), widths[cell])))
    slopes: FloatArray = np.zeros_like(before)
    np.divide(before[:, 1:] - before[:, :-1], widths[:-1], out=slopes[:, :-1])
    first, after = (
        before.take(cell, axis=1) + slopes.take(cell, axis=1) * part for cell, part in inside
    )
    found: FloatArray = after - first
    return found


def _share_in_tail(levels: FloatArray, growth: FloatArray, aimed: float) -> FloatArray:
    """The share of values above the cap, by the level in caps, and its growth since θ was new."""
    thinned = 1.0 + 1.0 / (8 * np.maximum(levels, _LEAST_LEVEL))
    thinned *= thinned  # to the eighth power, with the same bits on every machine
    thinned *= thinned
    bearable = np.maximum(1.0 / (thinned * thinned), aimed)
    found: FloatArray = np.minimum(aimed * growth * growth * growth, bearable)
    return found


def _exponential_tail(levels: FloatArray) -> FloatArray:
    """The loss of exponential values above a cap, if their capped mean is this share of the cap.

    With x caps in a mean, it is (1 − e^−x)/x, and 1/x less that part is lost; to within 0.02 for
    parts of a half and more.
    """
    full = np.minimum(np.maximum(levels, _FULL), 0.999)
    found: FloatArray = 0.5 / (1.0 - full) - 0.36 - full
    return found


def tail_before_edges(each: FloatArray) -> FloatArray:
    """The sums before each edge, from those of each cell: one row for each kind."""
    found: FloatArray = np.zeros((len(each), each.shape[1] + 1))
    np.cumsum(each, axis=1, out=found[:, 1:])
    return found
