"""The base of estimators that publish a level until the next measurement.

    published   ───level 0───┐●──level 1──┐●────level 2──── …      ● a measured value
    leaves      |            ●|           ●|                       it ends its leaf

Which values are measured is decided by the perturber (`Perturber.irregular`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

import numpy as np

from tidegate.errors import SettingError
from tidegate.estimate.defaults import EstimatorDefaults
from tidegate.estimate.published_values import fill_cells
from tidegate.estimate.sample_and_hold_posterior import SampleAndHoldPosterior
from tidegate.lattice import FloatArray, IntArray
from tidegate.sealing import State, restore, state_of
from tidegate.stages import NO_CELLS, Cells, Layout, Noisy, Perturber, Recorded, Saved, Spans


class LevelFilter(Protocol):
    """From measured numbers to levels. STATE names its attributes that change."""

    STATE: ClassVar[tuple[str, ...]]
    level: float

    def push(self, numbers: IntArray, spans: IntArray, marks: IntArray) -> FloatArray:
        """The level after each leaf, in whole lattice units. A mark of 0: nothing was measured."""
        ...


class SampleAndHold(EstimatorDefaults, ABC):
    """An estimator for irregular perturbers: every value is published as the present level.

    A method says how a measurement moves the level, `level_filter`, and what variance noise leaves
    in each level, `level_variances`, counted so that errors of different levels may be added as if
    they were independent.
    """

    adds_up: ClassVar[bool] = False

    @abstractmethod
    def level_filter(self, *, threshold: int, perturber: Perturber) -> LevelFilter:
        """How measurements move the level, from the beginning."""

    @abstractmethod
    def level_variances(self, recorded: Recorded, spans: Spans) -> FloatArray:
        """What noise leaves in each level."""

    def check(self, perturber: Perturber) -> None:
        """Spans and marks must come with the sums."""
        if not perturber.irregular:
            raise SettingError(
                "estimator", "must be a smoother such as tidegate.estimate.Recent() here"
            )

    def start(
        self, *, threshold: int, perturber: Perturber, saved: Saved | None = None, below: int = 0
    ) -> SampleAndHoldRun:
        """Begin with half the threshold, or continue."""
        levels = self.level_filter(threshold=threshold, perturber=perturber)
        return SampleAndHoldRun(levels, saved and saved.state, below)

    def posterior(self, recorded: Recorded, until: int) -> SampleAndHoldPosterior:
        """Sums of the published levels; later measurements do not change them."""
        return SampleAndHoldPosterior(recorded, until, self.level_variances)


class SampleAndHoldRun:
    """Publishes the level of the last measurement, in lattice units.

    The filter counts from the lowest value that counts, −`below`.
    """

    model_weights = 0

    def __init__(self, levels: LevelFilter, state: State | None = None, below: int = 0) -> None:
        self._filter, self._below = levels, below
        self._filled = 0  # values already published of the open leaf
        if state is not None:
            restore(levels, state["filter"])
            self._filled = state["filled"]
        self.prediction = levels.level - below

    @property
    def filled(self) -> int:
        """Values that were published of the open leaf."""
        return self._filled

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
            return NO_CELLS
        numbers = np.where(noisy.marks, noisy.sums + self._below, 0)
        levels = self._filter.push(numbers, noisy.spans, noisy.marks) - self._below
        before = np.concatenate(([self.prediction], levels[:-1]))
        totals = ((noisy.spans - 1) * before + levels).astype(np.int64)
        self.prediction, self._filled = fill_cells(
            out, self.prediction, self._filled, noisy.spans, totals, levels
        )
        return Cells(levels, totals, noisy.spans)

    def push_one(self, noisy: int | None) -> float:
        """Not used: an irregular perturber says more than a number."""
        raise AssertionError("irregular spans come in arrays")
