"""The algebra of trees of noise: from independent nodes to leaves whose sums agree.

Both functions take the nodes of complete `fanout`-ary trees, level by level, leaves first, as
int64 arrays, and give one integer per leaf. Both are *equivariant*: adding a stream u to the
leaves and its node sums to the inner nodes moves the result by exactly u. Hence

    leaves(true sums + noise) = true leaf sums + leaves(noise)            bit for bit,

so running them on noise alone, before any value arrives (online), publishes exactly what running
them on the noisy tree (offline) would: post-processing of a noisy tree. That is the paper's
theorem `thm:online_consist`, made true for computers too: no float ever touches a value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tidegate.lattice import FloatArray, IntArray

Fanouts = int | Sequence[int]  # one for all levels, or one for each inner level, lowest first


def _per_level(fanout: Fanouts, levels: int) -> Sequence[int]:
    return [fanout] * (levels - 1) if isinstance(fanout, int) else fanout


def own_weights(fanout: Fanouts, variances: Sequence[float]) -> tuple[float, ...]:
    """Least-squares weight of a node's own draw against its children's estimates, per level.

    The least-squares estimate of a node from below combines its draw (variance σ²) with the sum of
    its children's estimates (variance V = fanout·v): weight V/(V + σ²) for the draw, and the result
    has variance v' = Vσ²/(V + σ²). For equal variances this is the paper's (b^l − b^(l−1))/(b^l −
    1).

    >>> own_weights(2, [1.0, 1.0, 1.0])[0] == (4 - 2) / (4 - 1)
    True
    """
    weights = []
    below = variances[0]
    fanouts = _per_level(fanout, len(variances))
    for variance, children_each in zip(variances[1:], fanouts, strict=True):
        children = children_each * below
        weights.append(children / (children + variance))
        below = children * variance / (children + variance)
    return tuple(weights)


def consistent_leaves(
    nodes: Sequence[IntArray], fanout: Fanouts, weights: Sequence[float], carry: float = 0.0
) -> tuple[IntArray, float]:
    """Least-squares leaves of noisy trees, rounded to integers on running sums.

    Let R_v = node v − sum of the leaf draws below it: exact integers that do not move when a stream
    is added to the tree. The result is leaf draw + φ(R) with φ = weighted least squares in floats,
    up then down (the paper's `eq:bottom_up` and `eq:top_down`, in terms of R). Whatever rounding φ
    suffers, equivariance is exact, because φ never sees anything but R.

    Rounding is done on the running sum of the corrections, so that every prefix is within ½ of the
    exact least-squares answer and every range within 1. (Rounding leaves one by one would add up:
    all siblings share one fractional part.)

    Args:
        nodes: integer node values, leaves first, of one or more complete trees side by side.
        fanout: children per inner node; one number, or one per inner level, lowest first.
        weights: `own_weights` of the level variances.
        carry: what the rounding of the trees to the left still owes.

    Returns:
        The integer leaves and the carry for the trees to the right.
    """
    found, carries = consistent_groves(nodes, fanout, weights, np.array([carry]))
    return found[0], float(carries[0])


def consistent_groves(
    nodes: Sequence[IntArray], fanout: Fanouts, weights: Sequence[float], carries: FloatArray
) -> tuple[IntArray, FloatArray]:
    """`consistent_leaves` of many groves at once, bit for bit: one row and one carry for each.

    Trees do not know of each other but by the carry, so the groves' nodes stand side by side.
    """
    leaves = nodes[0].reshape(carries.size, -1)
    if len(nodes) == 1:
        return leaves.copy(), carries
    fanouts = _per_level(fanout, len(nodes))
    estimates, below = residuals_from_below(nodes, fanouts, weights)
    # Down: spread what a parent knows better evenly over its children.
    final = estimates[-1]
    for level in range(len(weights) - 1, 0, -1):
        surplus = (final - below[level - 1]) / fanouts[level]
        final = estimates[level - 1] + np.repeat(surplus, fanouts[level])
    return _rounded_on_prefixes(leaves, final.reshape(carries.size, -1), fanouts[0], carries)


def residuals_from_below(
    nodes: Sequence[IntArray], fanout: Fanouts, weights: Sequence[float]
) -> tuple[list[FloatArray], list[FloatArray]]:
    """The upward pass: estimates of inner nodes from their own draws and those below.

    In terms of the residuals R of `consistent_leaves`: the estimate of a node is the sum of the
    leaf draws below it plus what is given here.

    Returns:
        One array per inner level, lowest first; and the sums of siblings that the levels from the
        second inner one on have seen. (The leaves' own residual is 0.)
    """
    below: list[FloatArray] = []
    estimates: list[FloatArray] = []
    sums = nodes[0]
    fanouts = _per_level(fanout, len(nodes))
    for level, weight in enumerate(weights, start=1):
        sums = sums.reshape(-1, fanouts[level - 1]).sum(axis=1)
        residual = (nodes[level] - sums).astype(np.float64)
        if level == 1:
            estimates.append(weight * residual)
        else:
            children = _sum_of_siblings(estimates[-1], fanouts[level - 1])
            below.append(children)
            estimates.append(weight * residual + (1.0 - weight) * children)
    return estimates, below


def prefix_leaves(nodes: Sequence[IntArray], fanout: int) -> IntArray:
    """Leaves whose running sum at any point is the sum of the fewest noisy nodes that cover it.

    This is how a hierarchy without consistency (Dwork et al., Chan et al., PAK) is published as a
    stream: value t is the estimate of prefix t minus that of prefix t − 1. Integer arithmetic only.
    """
    # Prefix of t leaves = for each level, the left siblings (at that level) of the node where t
    # lies.
    prefix = nodes[-1][:, np.newaxis]  # the estimate at the END of each node, relative to its start
    for level in range(len(nodes) - 2, -1, -1):
        inside = nodes[level].reshape(-1, fanout).cumsum(axis=1)
        inside[:, -1] = prefix.reshape(-1)  # a complete parent is taken whole
        # What a child adds to the running sum; the running sum restarts with each parent.
        prefix = np.diff(inside, axis=1, prepend=0).reshape(-1, 1)
    return prefix.reshape(-1)


def _sum_of_siblings(values: FloatArray, fanout: int) -> FloatArray:
    """Sums in a fixed order: numpy's pairwise summation differs between machines."""
    table = values.reshape(-1, fanout)
    total = table[:, 0].copy()
    for child in range(1, fanout):
        total += table[:, child]
    return total


def _rounded_on_prefixes(
    leaves: IntArray, corrections: FloatArray, fanout: int, carries: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Spread each parent's correction evenly over its leaves, rounding running sums."""
    # Sequential: the same everywhere.
    ends = np.cumsum(np.concatenate((carries[:, np.newaxis], corrections), axis=1), axis=1)
    starts, each = ends[:, :-1], corrections / fanout
    targets: NDArray[np.int64] = np.empty((*corrections.shape, fanout), dtype=np.int64)
    for child in range(fanout - 1):
        targets[:, :, child] = np.floor(starts + (child + 1) * each + 0.5)
    targets[:, :, fanout - 1] = np.floor(ends[:, 1:] + 0.5)
    running = targets.reshape(leaves.shape)
    # `carry` lies in [−½, ½), where the rounded running sum is 0: the first leaf subtracts nothing.
    result = leaves + running
    result[:, 1:] -= running[:, :-1]
    return result, ends[:, -1] - running[:, -1]
