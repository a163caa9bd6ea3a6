"""Blocks and leaves whose values may nearly all have been capped: for upper ends.

A jump fills a cap before the smoothed level knows. What was measured says so: a block, or a single
leaf, whose released sum is near the sum of its caps. A leaf counts if its mean looks full beside
the level when θ was new, as in `outgrown_cap`, and surely lies above that level, alone or with the
next one. A new warm-up must be surer: it costs accuracy. Post-processing: free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidegate.estimate.mixture.outgrown_cap import FULL, GROWN
from tidegate.estimate.mixture.portable_exp_and_log import log
from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import Block, Recorded

_MOST_HOME = 0.8  # of the cap
# Noise makes some leaf of a record look full with a probability of at most about 1/5: a leaf must
# lie √(2·ln(5·leaves)) standard errors above the level at which θ was chosen.
_RARE = 5
# The newest block has risen if its mean is 1.5 times the usual one, and exceeds it by 0.15 caps and
# by 2.5 standard errors: nothing tells yet whether a jump lies inside it.
_RISEN, _ROSE, _NEWEST_SURE = 1.5, 0.15, 2.5


class FullLeafShares(NamedTuple):
    """Released sums as shares of their largest possible value; 0: unknown.

    With a standard error more: noise must not close an end.

    Attributes:
        blocks: of each block.
        edges: where leaves begin that were looked at, and where the last one of a block ends.
        leaves: of each leaf that surely is full, from the edge of the same number on; 0: others.
    """

    blocks: FloatArray
    edges: IntArray
    leaves: FloatArray

    def of_leaves(self, positions: IntArray) -> FloatArray:
        """The share of the full leaf at each position; 0: no full leaf is there."""
        at = np.searchsorted(self.edges, positions, side="right") - 1
        found: FloatArray = np.where(at >= 0, self.leaves[np.maximum(at, 0)], 0.0)
        return found


def full_leaf_shares(
    recorded: Recorded, blocks: Sequence[Block], until: int, home: float
) -> FullLeafShares:
    """The shares of blocks and of full leaves, from what was released `until` then.

    `home`: the level when θ was new, as a part of θ.
    """
    whole, leaves = np.zeros(max(1, len(blocks))), recorded.leaves
    rows = []
    for at, block in enumerate(blocks):
        layout = block.layout
        measured = layout.leaves_by(until - block.start)
        if measured > 0 and block.first >= leaves.oldest and layout.cap:
            variance = measured * layout.variances[-1]
            if measured == layout.leaves:
                variance = layout.nodes[0] * layout.variances[0]
            counts = at, block.start, layout.length, layout.leaves, block.first, measured
            rows.append((*counts, layout.cap, variance, layout.variances[-1]))
    if not rows:
        return FullLeafShares(whole, np.zeros(1, dtype=np.int64), np.zeros(1))
    columns = np.array(rows).T
    caps, variances, each = columns[6:]
    known, starts, lengths, every, firsts, done = columns[:6].astype(np.int64)
    last = np.cumsum(done + 1) - 1
    # One entry for every leaf, and one for the end of the last leaf in a block.
    of = np.repeat(np.arange(known.size), done + 1)
    number = np.arange(of.size) - np.repeat(last - done, done + 1)
    inside = number * lengths[of] // every[of]
    before = leaves.sums(firsts[of] + number)
    usual = np.minimum(_MOST_HOME, home * recorded.threshold / caps)
    room = caps * inside[last]
    shares, doubts = (before[last] - before[last - done]) / room, np.sqrt(variances) / room
    whole[known] = shares + doubts
    found = np.zeros(of.size)
    sure = math.sqrt(2.0 * float(log(np.array([float(_RARE * max(1, every.sum()))]))[0]))
    for together in (1, 2):
        same = of[together:] == of[:-together]
        block_of = of[:-together]
        filled = np.maximum(inside[together:] - inside[:-together], 1) * caps[block_of]
        share = (before[together:] - before[:-together]) / filled
        doubt = np.sqrt(together * each[block_of]) / filled
        at_home = usual[block_of]
        looks_full = (share > FULL + GROWN * at_home) & (share - sure * doubt > at_home) & same
        share = np.where(looks_full, share + doubt, 0.0)
        for first in range(together):
            here = slice(first, first + share.size)
            found[here] = np.maximum(found[here], share)
    # A leaf in which a jump lies is not full itself: the one after it says how far it went.
    found[:-1] = np.where(found[:-1] > 0, np.maximum(found[:-1], found[1:]), 0.0)
    share, at_home = shares[-1], usual[-1]
    if share - _NEWEST_SURE * doubts[-1] > at_home and share > max(
        _RISEN * at_home, at_home + _ROSE
    ):
        newest = slice(last[-1] - done[-1], last[-1])
        found[newest] = np.maximum(found[newest], share + doubts[-1])
    return FullLeafShares(whole, starts[of] + inside, found)
