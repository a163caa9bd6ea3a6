"""**Offline**: the most likely consistent tree under Laplace noise, by a linear program.

Lee, Wang, Kifer, *Maximum Likelihood Postprocessing for Differential Privacy under Consistency
Constraints*, KDD 2015: given noisy nodes of a tree, publish the leaves that make them most likely.
Under Laplace noise that minimises Σ |noisy node − sum of its leaves|/scale instead of the squares
of least squares. (The paper solves it by an iterative method; here a solver for linear programs
does, which is exact and slower. Whether leaves may be negative is a setting: the paper has both.)

Post-processing of released nodes: free. It needs every node before the first leaf, so it is no
method for streams. Least squares has the least variance of all linear estimates that are unbiased;
this one is neither linear nor, with `non_negative`, unbiased, and may have less error.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import eye_array, hstack, kron, vstack

Floats = NDArray[np.float64]


def most_likely_leaves(
    nodes: list[Floats], scales: list[float], *, non_negative: bool = False
) -> Floats:
    """Leaves that minimise Σ |node − its leaves|/scale; `nodes` has leaves first, then parents.

    >>> float(most_likely_leaves([np.array([1.0, 2.0]), np.array([9.0])], [1.0, 0.1]).sum())
    9.0
    """
    leaves = nodes[0].size
    sums = vstack([_sums(leaves, level.size) for level in nodes])
    noisy = np.concatenate(nodes)
    prices = np.concatenate(
        [np.full(level.size, 1 / scale) for level, scale in zip(nodes, scales, strict=True)]
    )
    count = noisy.size
    each = eye_array(count)
    # node = leaves + above − below, with above and below at least 0 and priced alike.
    found = linprog(
        np.concatenate((np.zeros(leaves), prices, prices)),
        A_eq=hstack([sums, each, -each]).tocsr(),
        b_eq=noisy,
        bounds=[(0 if non_negative else None, None)] * leaves + [(0, None)] * (2 * count),
    )
    if not found.success:
        raise AssertionError("this program always has a solution")
    return np.asarray(found.x[:leaves])


def least_squares_leaves(nodes: list[Floats], scales: list[float]) -> Floats:
    """The same by weighted least squares, for comparison."""
    leaves = nodes[0].size
    weights = np.concatenate(
        [np.full(level.size, 1 / scale) for level, scale in zip(nodes, scales, strict=True)]
    )
    sums = vstack([_sums(leaves, level.size) for level in nodes]).toarray()
    found = np.linalg.lstsq(weights[:, None] * sums, weights * np.concatenate(nodes), rcond=None)
    return np.asarray(found[0])


def _sums(leaves: int, nodes: int) -> eye_array:
    """Which leaves each node of a level has below it."""
    return kron(eye_array(nodes), np.ones((1, leaves // nodes)))
