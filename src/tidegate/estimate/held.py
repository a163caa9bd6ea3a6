"""Estimators that publish a level until the next measurement: what sampling methods share.

    published   ───level 0───┐●──level 1──┐●────level 2──── …      ● a measured value
    leaves      |            ●|           ●|                       it ends its leaf

Which values are measured is decided by the perturber (`Perturber.irregular`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

from tidegate.errors import SettingError
from tidegate.estimate.held_posterior import HeldPosterior
from tidegate.estimate.spread import spread_widths
from tidegate.lattice import FloatArray
from tidegate.sealing import restore, state_of
from tidegate.stages import NO_NUMBERS, NO_SUMS, Cells, Layout, Noisy, Perturber, Recorded, Spans


class LevelFilter(Protocol):
    """From measured numbers to levels. STATE names its attributes that change."""

    STATE: ClassVar[tuple[str, ...]]
    level: float

    def push(self, number: int, span: int, mark: int) -> float:
        """The level after a leaf, in whole lattice units."""
        ...


class _Filtering(Protocol):
    """What a holding estimator must say about itself."""

    def level_filter(self, *, threshold: int, perturber: Perturber) -> LevelFilter: ...

    def level_variances(self, recorded: Recorded, spans: Spans) -> FloatArray: ...


class Holding:
    """An estimator for irregular perturbers: every value is published as the present level.

    A method says how a measurement moves the level, `level_filter`, and what variance noise leaves
    in each level, `level_variances`, counted so that errors of different levels may be added as if
    they were independent.
    """

    adds_up: ClassVar[bool] = False

    @property
    def allowance(self) -> float:
        """Nothing is added for truncation."""
        return 0.0

    def check(self, perturber: Perturber) -> None:
        """Spans and marks must come with the sums."""
        if not perturber.irregular:
            raise SettingError(
                "estimator", "must be a smoother such as tidegate.estimate.Recent() here"
            )

    def start(
        self: _Filtering,
        *,
        threshold: int,
        perturber: Perturber,
        state: Mapping[str, Any] | None = None,
        layout: Layout | None = None,
    ) -> HeldRun:
        """Begin with half the threshold, or continue from `state`."""
        return HeldRun(self.level_filter(threshold=threshold, perturber=perturber), state)

    def posterior(self: _Filtering, recorded: Recorded, until: int) -> HeldPosterior:
        """Sums of the published levels; later measurements do not change them."""
        return HeldPosterior(recorded, until, self.level_variances)

    def leaves_needed(self, recorded: Recorded) -> int:
        """Those of the open block."""
        return recorded.leaves.closed - recorded.blocks[-1].first

    def check_model_weights(self, model_weights: int) -> None:
        """It has none."""
        if model_weights:
            raise ValueError("this estimator has no models to choose from")


class HeldRun:
    """Publishes the level of the last measurement, in lattice units."""

    model_weights = 0

    def __init__(self, levels: LevelFilter, state: Mapping[str, Any] | None = None) -> None:
        self._filter = levels
        self._filled = 0  # values already published of the open leaf
        if state is not None:
            restore(levels, state["filter"])
            self._filled = state["filled"]
        self.prediction = levels.level

    def state(self) -> dict[str, Any]:
        """All that is needed to continue."""
        return {"filter": state_of(self._filter), "filled": self._filled}

    def choose(self, options: tuple[Layout, ...], first: bool) -> int:
        """There is one option."""
        return 0

    def begin(self, layout: Layout) -> int:
        """The block ends with its layout."""
        return layout.length

    def level(self, recorded: Recorded) -> float:
        """The present level."""
        return self.prediction

    def push(self, noisy: Noisy, out: FloatArray) -> Cells:
        """Fill `out`, one number per value."""
        if noisy.spans is None or noisy.marks is None:
            raise AssertionError("an irregular perturber gives spans and marks")
        if not noisy.sums.size:
            out[:] = self.prediction
            self._filled += out.size
            return Cells(NO_NUMBERS, NO_SUMS, NO_SUMS)
        rows = zip(noisy.sums.tolist(), noisy.spans.tolist(), noisy.marks.tolist(), strict=True)
        levels = np.array([self._filter.push(*row) for row in rows])
        before = np.concatenate(([self.prediction], levels[:-1]))
        totals = ((noisy.spans - 1) * before + levels).astype(np.int64)
        self.prediction, self._filled = spread_widths(
            out, self.prediction, self._filled, noisy.spans, totals, levels
        )
        return Cells(levels, totals, noisy.spans)

    def push_one(self, noisy: int | None) -> float:
        """Not used: an irregular perturber says more than a number."""
        raise AssertionError("irregular spans come in arrays")
