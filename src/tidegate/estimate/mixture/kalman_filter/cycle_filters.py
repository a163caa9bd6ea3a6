"""`CycleFilters`: Bayesian regression of a cycle's coefficients on the models' innovations.

A cycle with coefficients β adds C·β to the stream, C the sums of harmonics over cells. Given β,
what is left follows the models as they are, with the same covariances P; and their means are linear
in β: m + M·β. So each model keeps, beside [P | m], the response M of its mean to β, and β has a
Gaussian posterior (b, B) of its own: Friedland's two-stage Kalman filter, exact for coefficients
that stay. With s and e a model's innovation variance and innovation without a cycle,

    predict   M ← F·M + C                                       (C: to the entries that are sums)
    update    u = hᵀM,  v = s + uᵀBu,  b ← b + Bu·(e − uᵀb)/v,  B ← B − (Bu)(Bu)ᵀ/v,  M ← M − K·uᵀ

Every model is there without a cycle, with a small one and with a large one (`AMPLITUDES`), and the
likelihoods decide between these too. Post-processing of released sums: no noise, no sensitivity and
no budget depends on it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tidegate.estimate.mixture.kalman_filter.filter_means import hand_means_on
from tidegate.estimate.mixture.kalman_filter.harmonics import Cycle, Harmonics
from tidegate.estimate.mixture.kalman_filter.kalman_filters import (
    DISTANCE_PER_HALVING,
    KalmanFilters,
    Weights,
    weigh_filters,
)
from tidegate.estimate.mixture.kalman_filter.leaf_noise import NoisyLeaf
from tidegate.estimate.mixture.kalman_filter.state_space_models import (
    GROWING,
    INNER,
    LEAF,
    LEVEL,
    OUTER,
    SIZE,
    SUM,
    SWING,
    StateTransition,
)
from tidegate.lattice import FloatArray
from tidegate.state_as_bytes import State

# Variance of a coefficient of the first harmonic, in θ²; that of harmonic h is this over h. Values
# with a long tail have a mean of a tenth of θ, and their cycle is a part of that; values without
# one have cycles of a third of θ.
AMPLITUDES = (3e-4, 1e-2)
# A cycle of each amplitude is less likely than none at first, by this many halvings: streams
# without one lose less, and a cycle makes up for it within a few leaves.
RARER = 3.0
# What looks like a cycle for days may end on the next, such as a weekend; a cycle that was learnt
# makes blocks coarse, and then everything published is off until the block ends. So the models
# without a cycle have this share in the choice of trees.
CAREFUL = 0.2


def prior_variances_of_cycle(harmonics: Harmonics) -> FloatArray:
    """Prior variances of the coefficients, in θ²: a row for each of `AMPLITUDES`."""
    found: FloatArray = np.array(AMPLITUDES)[:, np.newaxis] / harmonics.order
    return found


class CycleFilters:
    """The models' responses to a cycle, and posterior coefficients and likelihoods by `AMPLITUDES`.

    Attributes:
        shares: the posterior probability of a cycle, for each of `AMPLITUDES`.
        mahalanobis, determinant, exponent: as in `KalmanFilters`; one amplitude after the other.
    """

    _ARRAYS: ClassVar[tuple[str, ...]] = (
        "_response", "_mean", "_covariance", "mahalanobis", "determinant", "exponent"
    )  # fmt: skip

    def __init__(self, cycle: Cycle, models: int) -> None:
        self._harmonics = harmonics = Harmonics(cycle)
        self._models = models
        count, several = harmonics.count, len(AMPLITUDES)
        self._response: FloatArray = np.zeros((SIZE, count, models))
        self._mean: FloatArray = np.zeros((count, several, models))
        self._covariance: FloatArray = np.zeros((count, count, several, models))
        for at, variances in enumerate(prior_variances_of_cycle(harmonics).T):
            self._covariance[at, at] = variances[:, np.newaxis]
        self.mahalanobis: FloatArray = np.full(several * models, RARER * DISTANCE_PER_HALVING)
        self.determinant: FloatArray = np.ones(several * models)
        self.exponent = np.zeros(several * models, dtype=np.int32)
        self._position = 0  # values before the present cell
        self._weights: Weights = []
        self._plain: Weights = []
        self._adds: FloatArray = np.zeros((count, 1))  # C of the present cell
        self.shares = [0.0] * several

    def state(self) -> dict[str, Any]:
        """The state to resume from, without the width of the present cell."""
        parts = {name.lstrip("_"): getattr(self, name).reshape(-1) for name in self._ARRAYS}
        found = {name: part.copy() for name, part in parts.items()}
        return {**found, "exponent": self.exponent.astype(np.int64), "position": self._position}

    def restore(self, state: State) -> None:
        """Restore a saved state."""
        for name in self._ARRAYS:
            part = getattr(self, name)
            part[:] = state[name.lstrip("_")].reshape(part.shape)
        self._position = state["position"]

    def begin_at(self, position: int) -> None:
        """Let the next cell begin at this position: nothing before it was measured."""
        self._position = position

    # -- weights ---------------------------------------------------------------------------------

    def halvings(self) -> list[float]:
        """Like `KalmanFilters.halvings`."""
        found: list[float] = (
            self.mahalanobis / DISTANCE_PER_HALVING + self.exponent * 0.5
        ).tolist()
        return found

    def weights(self, filters: KalmanFilters) -> Weights:
        """Posterior probabilities of the models, with and without a cycle together."""
        count = self._models
        every = weigh_filters(
            filters.halvings() + self.halvings(),
            np.sqrt(np.concatenate((filters.determinant, self.determinant))).tolist(),
        )
        together, shares = [0.0] * count, [0.0] * len(AMPLITUDES)
        self._weights = []
        for index, weight in every:
            together[index % count] += weight
            if index >= count:
                self._weights.append((index - count, weight))
                shares[index // count - 1] += weight
        self.shares = shares
        self._plain = filters.weights()
        return [(model, weight) for model, weight in enumerate(together) if weight]

    def careful(self, weights: Weights) -> Weights:
        """Weights for choosing a tree: the models without a cycle keep a minimum."""
        mixed = dict.fromkeys(range(self._models), 0.0)
        for part, chosen in ((1.0 - CAREFUL, weights), (CAREFUL, self._plain)):
            for model, weight in chosen:
                mixed[model] += part * weight
        return [(model, weight) for model, weight in mixed.items() if weight]

    # -- what a cycle adds to what is expected ---------------------------------------------------

    def begin_cell(self, width: int) -> None:
        """Set the width of the present cell."""
        before = self._harmonics.before(np.array((self._position, self._position + width)))
        self._adds = (before[1] - before[0])[:, np.newaxis]

    def forecast(self, over: StateTransition) -> float:
        """The cycle's part of the forecast for the present cell's sum."""
        return self._mixed(self._growth(over))

    def expected_sum(self) -> float:
        """The cycle's part of the running sum."""
        return self._mixed(self._response[SUM])

    def level(self) -> float:
        """The cycle's part of the level."""
        here = self._harmonics.at(self._position)[:, np.newaxis]
        return self._mixed(self._response[LEVEL] + here)

    def _mixed(self, response: FloatArray) -> float:
        """The weighted mean of response·b over all models with a cycle."""
        each = _summed_cycles(response[:, np.newaxis] * self._mean).reshape(-1).tolist()
        total = 0.0
        for index, weight in self._weights:
            total += weight * each[index]
        return total

    # -- the filter ------------------------------------------------------------------------------

    def _growth(self, over: StateTransition) -> FloatArray:
        response = self._response
        growth: FloatArray = over.width * response[LEVEL] + over.swing_row * response[SWING]
        growth += self._adds
        return growth

    def predict(self, over: StateTransition, width: int) -> None:
        """M ← F·M + C over the present cell."""
        self._response[:GROWING] += self._growth(over)
        self._response[SWING] *= over.decay[SWING, 0]
        self._position += width

    def update(self, leaf: NoisyLeaf, filters: KalmanFilters) -> None:
        """Update the coefficients with the innovations of the leaf that the filters just took."""
        innovations, variances, gains = filters.last_update()
        response, mean, covariance = self._response, self._mean, self._covariance
        told = (1.0 - leaf.share) * response[LEAF] + leaf.share * response[INNER]
        response -= gains[:, np.newaxis] * told
        response[LEAF] = 0.0
        told = told[:, np.newaxis]  # u, the same for all amplitudes
        spread = _summed_cycles(covariance * told[:, np.newaxis])  # B·u; B is symmetric
        variance = variances + _summed_cycles(spread * told)
        left = innovations - _summed_cycles(told * mean)
        scaled = spread / variance
        mean += scaled * left
        covariance -= spread[:, np.newaxis] * scaled
        self.mahalanobis += (left * left / variance).reshape(-1)
        self.determinant *= variance.reshape(-1)
        self.determinant[:], more = np.frexp(self.determinant)
        self.exponent += more

    def open_leaf(self, leaf: NoisyLeaf) -> None:
        """Like `KalmanFilters.open_leaf`."""
        hand_means_on(self._response, leaf, leaf.inner_share)

    def join_open_nodes(self) -> None:
        """Like `KalmanFilters.join_open_nodes`."""
        self._response[INNER] += self._response[OUTER]
        self._response[OUTER] = 0.0

    def fade(self, part: float) -> None:
        """Like `KalmanFilters.fade`."""
        self._response[SUM] *= 1.0 - part

    def rescale(self, ratio: float) -> None:
        """Change the unit: multiply all coefficients by this factor."""
        self._mean *= ratio
        self._covariance *= ratio * ratio

    def forget_level(self) -> None:
        """Forget the level's response: the level is new, whatever the cycle."""
        self._response[LEVEL] = 0.0


def _summed_cycles(parts: FloatArray) -> FloatArray:
    """The sum over the first axis in a fixed order, independent of libraries."""
    total: FloatArray = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total
