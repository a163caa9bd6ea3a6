"""The base of smoothers: estimators that predict the values inside leaves of one size.

The cells that are published are the leaves, and their totals the noisy sums
(`published_values_of_cells`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from tidegate.errors import SettingError
from tidegate.estimate.estimator_defaults import RESIDUALS, EstimatorDefaults
from tidegate.estimate.published_values_of_cells import fill_equal_published_cells
from tidegate.lattice import FloatArray
from tidegate.stages import (
    ENDLESS,
    NO_CELLS,
    NO_SUMS,
    Cells,
    Layout,
    Noisy,
    Perturber,
    Recorded,
    Saved,
)
from tidegate.state_as_bytes import State, restore, state_of

if TYPE_CHECKING:
    from tidegate.estimate.block_posterior import BlockPosterior

_MOST_DOUBLINGS = 10  # a level is the mean of 1,024 leaves at most: they are part of the state


class Predictor(Protocol):
    """Predicts the next leaf from earlier ones. STATE names the attributes that change."""

    STATE: ClassVar[tuple[str, ...]]

    @property
    def first(self) -> float:
        """The prediction for the first leaf, before anything was released."""
        ...

    def push(self, noisy: Noisy) -> FloatArray:
        """Predict, for each new leaf sum, one value of the leaf that follows."""
        ...


class Smoother(EstimatorDefaults, ABC):
    """An estimator that predicts inside leaves of one size, and has no choices to make.

    A method says how it predicts: `predictor(threshold=, block=, blocks=)`; values lie in
    [0, threshold], `blocks` leaves of `block` values make a horizon.
    """

    adds_up: ClassVar[bool] = True
    predicts: ClassVar[bool] = True  # values inside a leaf; False: they are published as 0

    @abstractmethod
    def predictor(self, *, threshold: int, block: int, blocks: int) -> Predictor:
        """A new predictor."""

    def check(self, perturber: Perturber) -> None:
        """Require leaves of one size."""
        if perturber.noise_law(1) is None:
            raise SettingError(
                "estimator",
                "must choose how blocks are measured, such as tidegate.estimate.Mixture(): "
                "this perturber has several options",
            )

    def start(
        self, *, threshold: int, perturber: Perturber, saved: Saved | None = None, below: int = 0
    ) -> SmootherRun:
        """Begin with the first prediction, or resume."""
        block = perturber.block
        blocks = -(-perturber.horizon // block)
        predictor = self.predictor(threshold=threshold, block=block, blocks=blocks)
        return SmootherRun(predictor, block, saved and saved.state, below)

    def posterior(self, recorded: Recorded, until: int) -> BlockPosterior:
        """The posterior: exact noise between leaves, sums inside them interpolated linearly."""
        from tidegate.estimate.block_posterior import BlockPosterior  # on demand: queries need it

        return BlockPosterior(recorded, until)

    def leaves_needed(self, recorded: Recorded) -> int:
        """How many of the last leaves measure the prediction error, or make the level."""
        return max(RESIDUALS, self.level_leaves(recorded.perturber, recorded.threshold))

    def level_leaves(self, perturber: Perturber, threshold: int) -> int:
        """0: the level is the prediction; or, without predictions, the number of leaves to average.

        Their number is a power of two, so large that noise moves the mean by a sixteenth of θ only.
        """
        if self.predicts and perturber.block > 1:
            return 0
        return _leaves_against_noise(perturber, threshold)


@lru_cache(maxsize=64)
def _leaves_against_noise(perturber: Perturber, threshold: int) -> int:
    law = perturber.noise_law(threshold)
    if law is None:
        return 0
    counts = 1 << np.arange(_MOST_DOUBLINGS + 1)
    places = 61 * np.arange(64)  # a tree measures some ranges better than others: the worst counts
    starts, ends = np.tile(places, counts.size), np.add.outer(counts, places).reshape(-1)
    variances = law.range_variance(starts, ends).reshape(counts.size, -1)
    enough = np.sqrt(variances.max(axis=1)) <= counts * (perturber.block * threshold / 16)
    return int(counts[np.argmax(enough)] if enough.any() else counts[-1])


class SmootherRun:
    """Spreads noisy leaf sums over the values of their leaves, in lattice units.

    The predictor counts values from the lowest that counts, −`below`.
    """

    model_weights = 0

    def __init__(
        self, predictor: Predictor, block: int, state: State | None = None, below: int = 0
    ) -> None:
        self._predictor = predictor
        self._block, self._below = block, below
        self.prediction = predictor.first - below
        self.filled = 0  # values already published of the open leaf
        if state is not None:
            restore(predictor, state["predictor"])
            self.prediction, self.filled = state["prediction"], state["filled"]

    def state(self) -> dict[str, Any]:
        """The state to resume from."""
        predictor = state_of(self._predictor)
        return {"predictor": predictor, "prediction": self.prediction, "filled": self.filled}

    def choose(self, options: tuple[Layout, ...], first: bool) -> int:
        """Choose the only option."""
        return 0

    def begin(self, layout: Layout) -> int:
        """Begin the only block: it has no end, so no further choice is due."""
        return ENDLESS

    def level(self, recorded: Recorded) -> float:
        """The mean of the last leaves."""
        leaves = recorded.leaves
        since = max(leaves.closed - RESIDUALS, leaves.oldest)
        if since == leaves.closed:
            return recorded.threshold / 2 - recorded.below
        most = float(self._block * recorded.threshold)
        newest = leaves.between(np.array([since]), np.array([leaves.closed]), most)
        return newest.item() / ((leaves.closed - since) * self._block)

    def push(self, noisy: Noisy, out: FloatArray) -> Cells:
        """Fill `out` with one number per value."""
        if self._block == 1:  # every value ends its leaf: nothing to predict
            out[:] = noisy.sums
            return NO_CELLS
        following = self._following(noisy)
        self.prediction, self.filled = fill_equal_published_cells(
            out, self.prediction, self.filled, self._block, noisy.sums, following
        )
        return Cells(following, NO_SUMS, NO_SUMS)

    def push_one(self, noisy: int | None) -> float:
        """Publish one value: the prediction, or at a leaf's end what completes its noisy sum."""
        if noisy is None:
            self.filled += 1
            return self.prediction
        if self._block == 1:
            return float(noisy)
        before, self.filled = self.prediction, 0
        self.prediction = self._following(Noisy(np.array([noisy]))).item()
        return noisy - (self._block - 1) * before

    def _following(self, noisy: Noisy) -> FloatArray:
        if not self._below:
            return self._predictor.push(noisy)
        counted = Noisy(noisy.sums + self._below * self._block)
        return self._predictor.push(counted) - self._below
