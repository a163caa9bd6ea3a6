"""From noisy leaf sums and predictions to one published number per value: post-processing.

Inside a leaf every value is published as the prediction; the last value of the leaf is published as
the noisy sum minus what was already published, so that every completed leaf adds up to its noisy
sum. (The paper's Algorithm 1 forgets the division: it must read cur_node − u·(16^s − 1)/16^s.) A
stream that stops inside a leaf leaves predictions only for that leaf.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

from tidegate.errors import SettingError
from tidegate.estimate.block_posterior import RESIDUALS, BlockPosterior
from tidegate.lattice import FloatArray, IntArray
from tidegate.sealing import restore, state_of
from tidegate.stages import ENDLESS, NO_NUMBERS, NO_SUMS, Cells, Layout, Noisy, Perturber, Recorded


class Predictor(Protocol):
    """Predicts the next leaf from those before it. STATE names its attributes that change."""

    STATE: ClassVar[tuple[str, ...]]

    @property
    def first(self) -> float:
        """The prediction for the first leaf, before anything was released."""
        ...

    def push(self, noisy: Noisy) -> FloatArray:
        """For each new leaf sum, the prediction of one value of the leaf that follows."""
        ...


class _Predicting(Protocol):
    """What a smoother must say about itself."""

    def predictor(self, *, threshold: int, block: int, blocks: int) -> Predictor: ...


class Smoother:
    """An estimator that predicts inside leaves of one size, and chooses nothing.

    A method says how it predicts: `predictor(threshold=, block=, blocks=)`; values lie in
    [0, threshold], `blocks` leaves of `block` values make a horizon.
    """

    adds_up: ClassVar[bool] = True

    @property
    def allowance(self) -> float:
        """Nothing is added for truncation."""
        return 0.0

    def check(self, perturber: Perturber) -> None:
        """Leaves must have one size."""
        if perturber.noise_law(1) is None:
            raise SettingError(
                "estimator",
                "must choose how blocks are measured, such as tidegate.estimate.Mixture(): "
                "this perturber has several options",
            )

    def start(
        self: _Predicting,
        *,
        threshold: int,
        perturber: Perturber,
        state: Mapping[str, Any] | None = None,
        layout: Layout | None = None,
    ) -> SmootherRun:
        """Begin with the first prediction, or continue from `state`."""
        block = perturber.block
        blocks = -(-perturber.horizon // block)
        predictor = self.predictor(threshold=threshold, block=block, blocks=blocks)
        return SmootherRun(predictor, block, state)

    def posterior(self, recorded: Recorded, until: int) -> BlockPosterior:
        """Exact noise between leaves, a line through the sums inside them."""
        return BlockPosterior(recorded, until)

    def leaves_needed(self, recorded: Recorded) -> int:
        """The last leaves, whose prediction errors say how good predictions are."""
        return RESIDUALS

    def check_model_weights(self, model_weights: int) -> None:
        """Refuse any weights: a smoother has no models."""
        if model_weights:
            raise ValueError("a smoother has no models to choose from")


class SmootherRun:
    """Spreads noisy leaf sums over the values of their leaves, in lattice units."""

    model_weights = 0

    def __init__(
        self, predictor: Predictor, block: int, state: Mapping[str, Any] | None = None
    ) -> None:
        self._predictor = predictor
        self._block = block
        self.prediction = predictor.first
        self._filled = 0  # values already published of the open leaf
        if state is not None:
            restore(predictor, state["predictor"])
            self.prediction, self._filled = state["prediction"], state["filled"]

    def state(self) -> dict[str, Any]:
        """All that is needed to continue."""
        predictor = state_of(self._predictor)
        return {"predictor": predictor, "prediction": self.prediction, "filled": self._filled}

    def choose(self, options: tuple[Layout, ...], first: bool) -> int:
        """There is one option."""
        return 0

    def begin(self, layout: Layout) -> int:
        """No further choice is ever due: all leaves are measured alike."""
        return ENDLESS

    def level(self, recorded: Recorded) -> float:
        """The mean of the last leaves."""
        leaves = recorded.leaves
        since = max(leaves.closed - RESIDUALS, leaves.oldest)
        if since == leaves.closed:
            return recorded.threshold / 2
        before, now = leaves.sums(np.array([since, leaves.closed])).tolist()
        return float(now - before) / ((leaves.closed - since) * self._block)

    def push(self, noisy: Noisy, out: FloatArray) -> Cells:
        """Fill `out`, one number per value."""
        if self._block == 1:  # every value ends its leaf: nothing to predict
            out[:] = noisy.sums
            return Cells(NO_NUMBERS, NO_SUMS, NO_SUMS)
        following = self._predictor.push(noisy)
        self.prediction, self._filled = spread(
            out, self.prediction, self._filled, self._block, noisy.sums, following
        )
        return Cells(following, NO_SUMS, NO_SUMS)

    def push_one(self, noisy: int | None) -> float:
        """Publish one value: the prediction, or at a leaf's end what completes its noisy sum."""
        before = self.prediction
        if noisy is None:
            self._filled += 1
            return before
        if self._block == 1:
            return float(noisy)
        self._filled = 0
        self.prediction = self._predictor.push(Noisy(np.array([noisy]))).item()
        return noisy - (self._block - 1) * before


def spread(
    out: FloatArray,
    prediction: float,
    filled: int,
    width: int,
    totals: IntArray,
    following: FloatArray,
) -> tuple[float, int]:
    """Fill `out` with the values of cells of one width.

    Args:
        out: takes one number per value.
        prediction: for the values of the open cell, of which `filled` were published before.
        filled: see `prediction`.
        width: values in a cell.
        totals: of the cells that these values complete.
        following: the prediction after each of these.

    Returns:
        The same two facts about the cell that is open afterwards.
    """
    completed, head = totals.size, width - filled
    if not completed:  # no cell ended: the open one continues
        out[:] = prediction
        return prediction, filled + out.size
    if width == 1:  # every value is a cell, and the total of it
        out[:] = totals
        return prediction, 0
    predictions = np.concatenate(([prediction], following))
    corrections = totals - (width - 1) * predictions[:-1]
    out[: head - 1] = prediction
    out[head - 1] = corrections[0]
    body = out[head : head + (completed - 1) * width].reshape(-1, width)
    body[:] = predictions[1:-1, np.newaxis]
    body[:, -1] = corrections[1:]
    tail = out[head + (completed - 1) * width :]
    tail[:] = predictions[-1]
    return float(predictions[-1]), tail.size


def spread_widths(
    out: FloatArray,
    prediction: float,
    filled: int,
    widths: IntArray,
    totals: IntArray,
    following: FloatArray,
) -> tuple[float, int]:
    """The same for cells of any width."""
    if not totals.size:
        out[:] = prediction
        return prediction, filled + out.size
    predictions = np.concatenate(([prediction], following))
    ends = np.cumsum(widths) - filled
    last = int(ends[-1])
    out[:] = np.repeat(predictions, np.diff(ends, prepend=0, append=out.size))
    out[ends - 1] = totals - (widths - 1) * predictions[:-1]
    return float(predictions[-1]), out.size - last
