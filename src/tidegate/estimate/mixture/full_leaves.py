"""Which blocks and leaves of a record may have been cut nearly everywhere: for upper ends.

A jump fills a cap before the smoothed level knows. What was measured says so: a block, or a single
leaf, whose released sum is near the sum of its caps. A leaf counts if its mean looks full beside
the level when θ was new, as in `outgrown_cap`, and surely lies above that level, alone or with the next one. A new warm-up must
be surer: it costs accuracy, and an end that is open without need costs width. Post-processing.
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
# One chance in so many that noise makes any leaf of a record look full: standard errors that a leaf
# must lie above home are √(2·ln(this · leaves)).
_RARE = 5
# The newest block has risen if its mean is so many times the usual one, and higher by this part of
# the cap, surely so (standard errors): nothing tells yet whether a jump lies inside it.
_RISEN, _ROSE, _NEWEST_SURE = 1.5, 0.15, 2.5


class MeasuredShares(NamedTuple):
    """What was released, as a share of what it would be if all values were cut; 0: not known.

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
        """The share of the full leaf in which each position lies; 0: in none."""
        at = np.searchsorted(self.edges, positions, side="right") - 1
        found: FloatArray = np.where(at >= 0, self.leaves[np.maximum(at, 0)], 0.0)
        return found


def measured_shares(
    recorded: Recorded, blocks: Sequence[Block], until: int, home: float
) -> MeasuredShares:
    """Of blocks and full leaves, by what was released `until` then.

    `home`: the level when θ was new, as a part of θ.
    """
    whole, leaves = np.zeros(max(1, len(blocks))), recorded.leaves
    edges, found = [np.zeros(0)], [np.zeros(0)]
    count = sum(block.layout.leaves for block in blocks)
    sure = math.sqrt(2.0 * float(log(np.array([_RARE * max(1.0, float(count))]))[0]))
    known = [at for at, one in enumerate(blocks) if one.layout.leaves_by(until - one.start) > 0]
    newest = known[-1] if known else -1
    for at, block in enumerate(blocks):
        layout = block.layout
        done = layout.leaves_by(until - block.start)
        if done <= 0 or block.first < leaves.oldest or not layout.cap:
            continue
        sums = np.diff(leaves.sums(np.arange(block.first, block.first + done + 1)))
        variance = layout.variances[-1]
        whole_variance = done * variance
        if done == layout.leaves:
            whole_variance = layout.nodes[0] * layout.variances[0]
        ends = np.array([layout.edge(leaf) for leaf in range(done + 1)])
        usual = min(_MOST_HOME, home * recorded.threshold / layout.cap)
        whole[at] = (sums.sum() + math.sqrt(whole_variance)) / (int(ends[-1]) * layout.cap)
        full = _full(sums, np.diff(ends) * float(layout.cap), usual, variance, sure)
        if at == newest:
            share = float(sums.sum()) / (int(ends[-1]) * layout.cap)
            doubt = math.sqrt(whole_variance) / (int(ends[-1]) * layout.cap)
            if share - _NEWEST_SURE * doubt > usual and share > max(_RISEN * usual, usual + _ROSE):
                full = np.maximum(full, share + doubt)
        edges.append(block.start + ends)
        found.append(np.append(full, 0.0))
    if len(edges) == 1:
        return MeasuredShares(whole, np.zeros(1, dtype=np.int64), np.zeros(1))
    return MeasuredShares(whole, np.concatenate(edges).astype(np.int64), np.concatenate(found))


def _full(
    sums: IntArray, caps: FloatArray, usual: float, variance: float, sure: float
) -> FloatArray:
    """The share of each leaf of a block that is surely full, alone or with a neighbour; or 0.

    `caps`: what it would be if all values were cut; `usual`: the share when θ was new.
    """
    found = np.zeros(sums.size)
    for together in (1, 2):
        if sums.size < together:
            break
        kernel = np.ones(together)
        several = np.convolve(caps, kernel, "valid")
        share = np.convolve(sums, kernel, "valid") / several
        doubt = math.sqrt(together * variance) / several
        looks_full = (share > FULL + GROWN * usual) & (share - sure * doubt > usual)
        share = np.where(looks_full, share + doubt, 0.0)
        for first in range(together):
            here = slice(first, first + share.size)
            found[here] = np.maximum(found[here], share)
    # A leaf in which a jump lies is not full itself: the one after it says how far it went.
    found[:-1] = np.where(found[:-1] > 0, np.maximum(found[:-1], found[1:]), 0.0)
    return found
