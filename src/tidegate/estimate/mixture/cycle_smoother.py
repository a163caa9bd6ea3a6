"""What all released sums together say about the past, if the stream has a cycle.

Given the coefficients β of the cycle, what is left of the sums after taking away Cβ follows a model
without a cycle, and its smoother is linear in the sums: it gives s − R·β, R the smoothed harmonics.
So the innovations e − E·β of that model, of variance v, have all that is known about β,

    B = (1/prior + Σ E·Eᵀ/v)⁻¹,    b = B·Σ E·e/v,

and a sum has the posterior mean s + (C − R)·b, and beyond the variance given β that of (C − R)·β.
Post-processing of released sums: it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tidegate.estimate.mixture.block_batches import Measured
from tidegate.estimate.mixture.fixed_interval_smoother import ModelSmoother
from tidegate.estimate.mixture.harmonics import Harmonics
from tidegate.lattice import FloatArray, IntArray


class CycleResponses:
    """What the smoother `without` a cycle, of these blocks, makes of each harmonic."""

    def __init__(
        self, blocks: Sequence[Measured], harmonics: Harmonics, without: ModelSmoother
    ) -> None:
        self.harmonics, self.without = harmonics, without
        self._blocks = [block for block in blocks if block.end > block.start]
        self._sums = [block.cells.unit * _leaf_sums(block, harmonics) for block in self._blocks]
        each = [self._response(at) for at in range(harmonics.count)]
        self.sums: FloatArray = np.array([one.sums for one in each]).T  # R
        self.told: FloatArray = np.array([one.innovations for one in each])  # E, a row for each

    def _response(self, at: int) -> ModelSmoother:
        blocks = [
            replace(block, sums=sums[:, at])
            for block, sums in zip(self._blocks, self._sums, strict=True)
        ]
        return ModelSmoother(blocks, self.without.horizon, self.without.model, like=self.without)

    def left(self, coefficients: FloatArray) -> ModelSmoother:
        """The smoother of what is left after the cycle with these coefficients."""
        blocks = [
            replace(block, sums=block.sums - weighted(sums, coefficients))
            for block, sums in zip(self._blocks, self._sums, strict=True)
        ]
        return ModelSmoother(blocks, self.without.horizon, self.without.model)

    def smoother(self, prior: FloatArray) -> CycleSmoother:
        """With these variances of the coefficients before anything is known, in θ²."""
        return CycleSmoother(self, prior)


class CycleSmoother:
    """`ModelSmoother` of one model with a cycle: the same attributes, in units of θ.

    `coefficients` is b.
    """

    def __init__(self, responses: CycleResponses, prior: FloatArray) -> None:
        harmonics, without = responses.harmonics, responses.without
        self.coefficients, self._covariance = _posterior(
            prior, responses.told, without.innovations, without.innovation_variances
        )
        self._left = left = responses.left(self.coefficients)
        self.edges: IntArray = without.edges
        before = harmonics.before(self.edges)
        before -= before[0]
        self._response: FloatArray = before - responses.sums
        self.sums: FloatArray = left.sums + weighted(before, self.coefficients)
        level = weighted(harmonics.at(self.edges), self.coefficients)
        self.levels: FloatArray = left.levels + level

    def variances(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """Posterior variance of sums between edges `starts` and `ends` (indices), in θ²."""
        found = self._left.variances(starts, ends)
        response = self._response[ends] - self._response[starts]
        for row, weights in zip(response.T, self._covariance, strict=True):
            found += row * weighted(response, weights)
        return found


def _leaf_sums(block: Measured, harmonics: Harmonics) -> FloatArray:
    """The sums of all harmonics over each leaf that was measured."""
    tree = block.cells.tree
    edges = np.array([tree.edge(leaf) for leaf in range(block.sums.size + 1)], dtype=np.int64)
    return np.diff(harmonics.before(block.start + edges), axis=0)


def weighted(parts: FloatArray, weights: FloatArray) -> FloatArray:
    """Σ weight·column, one after the other."""
    total: FloatArray = np.zeros(len(parts))
    for column, weight in zip(parts.T, weights.tolist(), strict=True):
        total += weight * column
    return total


def _posterior(
    prior: FloatArray, told: FloatArray, innovations: FloatArray, variances: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of the coefficients."""
    scaled = told / variances
    information = np.array([[(one * two).sum() for two in told] for one in scaled])
    information += np.diag(1.0 / prior)
    covariance = _inverse(information)
    return weighted(covariance, (scaled * innovations).sum(axis=1)), covariance


def _inverse(matrix: FloatArray) -> FloatArray:
    """The inverse of a symmetric positive definite matrix, by elimination in a fixed order."""
    size = len(matrix)
    work = np.concatenate((matrix, np.eye(size)), axis=1)
    for at in range(size):
        work[at] /= work[at, at]
        for row in range(size):
            if row != at:
                work[row] -= work[row, at] * work[at]
    return work[:, size:]
