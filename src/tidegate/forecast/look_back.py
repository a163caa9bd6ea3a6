"""The past as all trusted models together see it, given everything that was released."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidegate.forecast.beliefs import Weights
from tidegate.forecast.opinions import unpacked
from tidegate.forecast.retrospect import Retrospect
from tidegate.forecast.stretches import Measured
from tidegate.lattice import FloatArray, IntArray


class LookBack:
    """The posterior mean and variance of sums under a mixture of models, in units of θ.

    `edges[k]` is a position, `sums[k]` the posterior mean of the sum before it, `levels[k]` the
    expected level there. `opinion` says how far each model is trusted.
    """

    def __init__(self, blocks: Sequence[Measured], horizon: int, opinion: int) -> None:
        weights: Weights = unpacked(opinion)
        self._views = [(weight, Retrospect(blocks, horizon, model)) for model, weight in weights]
        self.edges: IntArray = self._views[0][1].edges
        self.sums = self._mixed([view.sums for _, view in self._views])
        self.levels = self._mixed([view.levels for _, view in self._views])

    def variances(self, starts: IntArray, ends: IntArray) -> FloatArray:
        """Of sums between edges `starts` and `ends` (indices): within models and between them."""
        expected = self.sums[ends] - self.sums[starts]
        return self._mixed(
            [
                view.variances(starts, ends)
                + np.square(view.sums[ends] - view.sums[starts] - expected)
                for _, view in self._views
            ]
        )

    def _mixed(self, parts: Sequence[FloatArray]) -> FloatArray:
        """The weighted mean, summed in a fixed order."""
        total: FloatArray = np.zeros_like(parts[0])
        for (weight, _), part in zip(self._views, parts, strict=True):
            total += weight * part
        return total
