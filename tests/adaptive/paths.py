"""Noise and models as dense matrices, and blocks to look back on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import tidegate as tg
from tidegate.estimate.mixture.kalman_filter.block_cells import cells_of
from tidegate.estimate.mixture.kalman_filter.leaf_noise import NoisyLeaf
from tidegate.estimate.mixture.kalman_filter.state_space_models import (
    LEVEL_MEAN,
    LEVEL_VARIANCE,
    Models,
)
from tidegate.estimate.mixture.smoother.block_batches import MeasuredBlock

HORIZON, THETA = 2048 + 5, 50


def covariance_of(path: Sequence[NoisyLeaf]) -> np.ndarray:
    """Leaves, and the noise left in the open nodes, as linear maps of independent unit draws."""
    draws = 3 * len(path)
    outer, inner = np.zeros(draws), np.zeros(draws)
    rows = []
    for index, leaf in enumerate(path):
        fresh = np.eye(draws)[3 * index : 3 * index + 3]
        if leaf.inner is not None:
            if leaf.outer is not None:
                outer = fresh[0] * leaf.outer**0.5
            inner = leaf.inner_share * outer + fresh[1] * leaf.inner**0.5
            outer = outer - inner if leaf.inner_share else outer
        noise = leaf.share * inner + fresh[2] * leaf.variance**0.5
        inner = inner - noise
        rows.append(noise)
    return np.array(rows) @ np.array(rows).T


def blocks_of(epsilon: str, cut: int) -> list[MeasuredBlock]:
    """Two horizons of blocks, of all kinds, on changing cap steps; the last is still open."""
    stage = tg.perturb.AdaptiveTrees(epsilon=epsilon, horizon=HORIZON)
    random = np.random.default_rng(len(epsilon) + cut)
    found, at = [], 100
    for length in (*stage.lengths(0), *stage.lengths(1)):
        options = [tree for tree in stage.layouts(length, THETA, 400) if tree.cap_step < 3]
        tree = options[int(random.integers(len(options)))]
        sums = random.integers(0, THETA * length // tree.leaves, size=tree.leaves)
        found.append(MeasuredBlock(at, cells_of(tree, THETA), sums, at + length))
        at += length
    last = found.pop()
    done = last.cells.tree.leaves_by(cut)
    found.append(MeasuredBlock(last.start, last.cells, last.sums[:done], last.start + cut))
    return found


def least_squares_covariance(shape: tuple[int, ...], variances: list[float]) -> np.ndarray:
    leaves = shape[-1]
    design = np.concatenate([np.kron(np.eye(n), np.ones(leaves // n)) for n in shape])
    weight = np.concatenate([np.full(n, 1 / v) for n, v in zip(shape, variances, strict=True)])
    return np.linalg.inv(design.T @ (design * weight[:, None]))


def dense(one: Models, lengths: list[int], swing_start: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the sums of consecutive cells, from covariance functions."""
    walk, variance, tau = (float(part[0]) for part in (one.walk, one.variance, one.relaxation))
    edges = np.concatenate(([0], np.cumsum(lengths)))
    middles, widths = (edges[:-1] + edges[1:]) / 2, np.array(lengths, dtype=float)
    levels = LEVEL_VARIANCE + walk * np.minimum.outer(middles, middles)
    covariance = np.outer(widths, widths) * levels + np.diag(one.scatter[0] * widths)
    if variance:
        fine = np.arange(edges[-1] * 8) / 8 + 1 / 16
        cell = np.searchsorted(edges, fine, side="right") - 1
        kernel = variance * np.exp(-np.abs(fine[:, None] - fine) / tau) / 64
        pick = np.eye(len(lengths))[cell]
        covariance = covariance + pick.T @ kernel @ pick
    return LEVEL_MEAN * widths, covariance
