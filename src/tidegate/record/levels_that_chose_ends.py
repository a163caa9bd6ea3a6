"""The levels of the values that chose both caps, where values below 0 count.

A choice of ends is made from a warm-up or a window. While the level stays among those of its
values, hardly more values lie beyond the ends than the choice aimed at, although the level moves:
it moved as far when the ends were chosen. The next choice is made from values of this very phase;
where it does not widen an end, that end had cut few of them, and their levels count as well.

Levels are means of released sums, drawn in by a standard error of the noise so that chance does
not stretch them. Positions, layouts, released sums: public, and free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from tidegate.record.segments.segment import Segment
from tidegate.stages import Block, BlockBudgets

_PIECES = 16  # of a block: its levels are means over at most these; each must have a standard error
_KNOWN, _SURE = 1 / 32, 1.0  # of the scale; extreme levels are drawn in by this many of them
_SAME_END = 1.02  # a cap that is at most this many times as far away has not been widened


class LevelBand(NamedTuple):
    """The lowest and the highest level of some values, in lattice units; NaN: unknown."""

    lowest: float = math.nan
    highest: float = math.nan

    def with_lower(self, other: LevelBand) -> LevelBand:
        """Extend the band down to the lowest level of another."""
        return self if not other.lowest < self.lowest else self._replace(lowest=other.lowest)

    def with_higher(self, other: LevelBand) -> LevelBand:
        """Extend the band up to the highest level of another."""
        return self if not other.highest > self.highest else self._replace(highest=other.highest)


UNKNOWN = LevelBand()


def levels_that_chose(
    segments: Sequence[Segment], trees: BlockBudgets, until: int
) -> list[LevelBand]:
    """The band of levels at which the caps of each segment were chosen or kept.

    `until`: by what was released up to there. A segment that is not measured has none.
    """
    found: list[LevelBand] = []
    window = UNKNOWN  # of the phase before: what the choice of the next one read
    for number, segment in enumerate(segments):
        if not (segment.below and segment.measured and segment.blocks and segment.start < until):
            found.append(UNKNOWN)
            window = UNKNOWN
            continue
        first = segment.blocks[0]
        if (
            _part_of_level_sums(segment, first, trees) < 0 and first.start == segment.origin
        ):  # a warm-up
            band = _levels_of(segment, [first], until)
        elif math.isnan(window.lowest):  # no window was open: the ends stayed
            band = found[-1] if found else UNKNOWN
        else:
            band = window
            before = segments[number - 1]
            if segment.below <= _SAME_END * before.below:
                found[-1] = found[-1].with_lower(window)
            if _level_above(segment) <= _SAME_END * _level_above(before):
                found[-1] = found[-1].with_higher(window)
        found.append(band)
        open_at_end = [
            one for one in segment.blocks if 0 < _part_of_level_sums(segment, one, trees) < 1
        ]
        window = _levels_of(segment, open_at_end, until)
    return found


def _level_above(segment: Segment) -> int:
    return segment.threshold - segment.below


def _part_of_level_sums(segment: Segment, block: Block, trees: BlockBudgets) -> float:
    """The share of ε for the sums of a block; below 0: the block is a warm-up."""
    ceiling = segment.method.ceiling + segment.below
    return float(trees.part_of(block.choice, block.layout.length, segment.threshold, ceiling))


def _levels_of(segment: Segment, blocks: Sequence[Block], until: int) -> LevelBand:
    """The band of the levels of these blocks."""
    pieces = [one for block in blocks for one in _level_pieces(segment, block, until)]
    if not pieces:
        return UNKNOWN
    low, high = min(sum(piece) for piece in pieces), max(level - doubt for level, doubt in pieces)
    if low > high:  # noise could explain all of their differences
        low = high = min(pieces, key=itemgetter(1))[0]
    return LevelBand(low, high)


def _level_pieces(segment: Segment, block: Block, until: int) -> list[tuple[float, float]]:
    """Mean levels of parts of a block, each long enough to be precise, and their errors."""
    layout, leaves = block.layout, segment.leaves
    done = layout.leaves_by(min(until, segment.end) - block.start)
    if done <= 0 or block.first < leaves.oldest:
        return []
    error = math.sqrt(layout.variances[-1])  # of a leaf, and of the mean of all that are done
    scale = max(_level_above(segment), segment.below)
    whole = error * math.sqrt(done) / layout.edge(done)
    count = min(_PIECES, done, max(1, int((_KNOWN * scale / max(whole, 1e-300)) ** 2)))
    places = np.unique(np.linspace(0, done, count + 1).astype(np.int64))
    edges = [layout.edge(at) for at in places.tolist()]
    sums = leaves.sums(block.first + places)
    widths, sizes = np.diff(edges), np.diff(places)
    levels, doubts = np.diff(sums) / widths, _SURE * error * np.sqrt(sizes) / widths
    return list(zip(levels.tolist(), doubts.tolist(), strict=True))
