"""Which blocks and leaves of a record may have been cut nearly everywhere: for upper ends.

A jump fills a cap before the smoothed level knows. What was measured says so: a block, or a single
leaf, whose released sum is near the sum of its caps. A leaf counts if its mean looks full beside
the level when θ was new, as in `outgrown_cap`, and surely lies above that level. A new warm-up must
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
    edges, shares, doubts, expected = ([np.zeros(0)] for _ in range(4))
    for at, block in enumerate(blocks):
        layout = block.layout
        done = layout.leaves_by(until - block.start)
        if done <= 0 or block.first < leaves.oldest or not layout.cap:
            continue
        sums = leaves.sums(np.arange(block.first, block.first + done + 1))
        complete = done == layout.leaves
        variance = layout.nodes[0] * layout.variances[0] if complete else done * layout.variances[-1]
        total = int(sums[-1] - sums[0])
        whole[at] = (total + math.sqrt(variance)) / (layout.edge(done) * layout.cap)
        ends = np.array([layout.edge(leaf) for leaf in range(done + 1)])
        full = np.diff(ends) * float(layout.cap)
        edges.append(block.start + ends)
        shares.append(np.append(np.diff(sums) / full, 0.0))
        doubts.append(np.append(math.sqrt(layout.variances[-1]) / full, 0.0))
        expected.append(np.full(done + 1, min(_MOST_HOME, home * recorded.threshold / layout.cap)))
    share, doubt, usual = (np.concatenate(part) for part in (shares, doubts, expected))
    sure = math.sqrt(2.0 * float(log(np.array([_RARE * max(1, share.size)]))[0]))
    looks_full = (share > FULL + GROWN * usual) & (share - sure * doubt > usual)
    found = np.where(looks_full, share + doubt, 0.0)
    # A leaf in which a jump lies is not full itself: the one after it says how far it went.
    found[:-1] = np.where(found[:-1] > 0, np.maximum(found[:-1], found[1:]), 0.0)
    if not share.size:
        return MeasuredShares(whole, np.zeros(1, dtype=np.int64), np.zeros(1))
    return MeasuredShares(whole, np.concatenate(edges).astype(np.int64), found)
