"""`MixtureRun`: choose a tree for each block, and publish a number for each value."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tidegate.estimate.mixture.cap_steps import CapSteps, moved_cap_step
from tidegate.estimate.mixture.catch_up import caught_up
from tidegate.estimate.mixture.kalman_filter.block_cells import BlockCells as BlockCells
from tidegate.estimate.mixture.kalman_filter.block_cells import cells_of
from tidegate.estimate.mixture.kalman_filter.cycle_filters import CycleFilters
from tidegate.estimate.mixture.kalman_filter.harmonics import Cycle
from tidegate.estimate.mixture.kalman_filter.kalman_filters import (
    DISTANCE_PER_HALVING,
    KalmanFilters,
    Weights,
    mixed_filters,
)
from tidegate.estimate.mixture.kalman_filter.model_weights import packed_weights
from tidegate.estimate.mixture.kalman_filter.state_space_models import (
    SCATTER,
    SECOND_CHANCE,
    StateTransition,
    models,
    state_transition_over,
)
from tidegate.estimate.mixture.tree_choice import tree_costs
from tidegate.lattice import FloatArray
from tidegate.stages import Cells, Layout, Noisy, Perturber, Recorded, Saved
from tidegate.state_as_bytes import State, restore, state_of

# Forecasts are published as multiples of this part of a lattice step, running sums as whole steps.
FORECAST_GRAIN = float(1 << 16)


class MixtureRun:
    """The state: a Kalman filter per model, and the position in the block."""

    def __init__(
        self,
        threshold: int,
        truncated: float,
        perturber: Perturber,
        saved: Saved | None = None,
        below: int = 0,
        scatter: float = SCATTER,
        cycle: Cycle = (),
        catch_up: float = 1.0,
    ) -> None:
        """Begin, or continue; values lie between −`below` and `threshold` − `below`."""
        self._catch_up = catch_up
        self._threshold = threshold
        self._share = truncated
        self._set_ends(below)
        self._perturber = perturber
        self._horizon = perturber.horizon
        self._scatter = scatter
        self._models = models(perturber.horizon, scatter=scatter)
        self._filters = KalmanFilters(self._models)
        self._cycle: CycleFilters | None = None
        if cycle:
            self._cycle = CycleFilters(cycle, self._models.count)
        self._cap_steps = CapSteps()
        self._cell = 0  # cells completed in this block
        self._filled = 0  # values of the present cell
        self._age = 0  # values published before the present cell; a horizon at most
        self.prediction = 0.0  # of one value of the present cell, in units
        self._total = 0  # of the released sums of this block
        self._measured = 0.0  # the mean of the block before, in units; 0: none was measured
        self._doubt = 0.0  # its standard error
        layout = None
        if saved is not None:
            self._restore(saved.state)
            layout = saved.layout
        self._weigh()
        self._cells = None if layout is None else cells_of(layout, threshold)
        self._width = 0 if self._cells is None else self._cells.widths[self._cell]
        self._transition = self._transition_over(self._width or 1)
        if self._cycle is not None:
            self._cycle.begin_cell(self._width)

    def _set_ends(self, below: int) -> None:
        """Set what is known about the caps, in addition to the distance between them."""
        self._above = self._threshold - below  # the highest value that counts, without rungs
        self._truncated = self._share * (self._above - below)  # units per value

    @property
    def _taken(self) -> float:
        """An estimate of what truncation takes from a value of the present cell, in units."""
        return self._truncated

    def state(self) -> dict[str, Any]:
        """The state to resume from."""
        filters = self._filters
        return {
            **({} if self._cycle is None else {"cycle": self._cycle.state()}),
            "cell": self._cell,
            "filled": self._filled,
            "age": self._age,
            "prediction": self.prediction,
            "total": self._total,
            "measured": self._measured,
            "doubt": self._doubt,
            "cap_steps": state_of(self._cap_steps),
            "augmented": filters.augmented.reshape(-1).copy(),
            "mahalanobis": filters.mahalanobis.copy(),
            "determinant": filters.determinant.copy(),
            "exponent": filters.exponent.astype(np.int64),
        }

    def _restore(self, state: State) -> None:
        filters = self._filters
        filters.augmented[:] = state["augmented"].reshape(filters.augmented.shape)
        filters.mahalanobis[:] = state["mahalanobis"]
        filters.determinant[:] = state["determinant"]
        filters.exponent[:] = state["exponent"]
        if self._cycle is not None:
            self._cycle.restore(state["cycle"])
        restore(self._cap_steps, state["cap_steps"])
        self._cell, self._filled, self._age = state["cell"], state["filled"], state["age"]
        self._total, self.prediction = state["total"], state["prediction"]
        self._measured, self._doubt = state["measured"], state["doubt"]

    @property
    def filled(self) -> int:
        """How many values of the open cell have been published."""
        return self._filled

    # -- which tree ------------------------------------------------------------------------------

    def choose(self, options: tuple[Layout, ...], first: bool) -> int:
        """The option with the least posterior mean of the log relative error."""
        if first:
            self._reconsider()
        before, steps = self._cap_steps.step, self._cap_steps
        if self._measured:
            highest = options[-1].cap_step
            # As a share of the upper end; a mean below 0 says nothing about that end.
            level = max(0.0, self._measured) if self._above < self._threshold else self._measured
            steps.observe(level / self._above, self._doubt / self._above, highest)
        if steps.step != before:
            self._filters.inflate_level(moved_cap_step(before, steps.step))
        # The lower caps of fine trees suit a tail above; they would cut into what ends near 0.
        least = int(self._above < self._threshold)
        steps.step = min(max(steps.step, least), options[-1].cap_step)
        here = [index for index, option in enumerate(options) if option.cap_step == steps.step]
        if len(here) == 1:
            return here[0]
        costs = tree_costs(self._perturber, self._threshold, options[0].length, age=self._age)
        weights = self._careful_weights
        expected = [mixed_filters(weights, costs[options[index].nodes].tolist()) for index in here]
        return here[expected.index(min(expected))]

    @property
    def _careful_weights(self) -> Weights:
        """The models' weights for choosing a tree."""
        return self._weights if self._cycle is None else self._cycle.careful(self._weights)

    @property
    def model_weights(self) -> int:
        """The models' weights, packed into one number."""
        return packed_weights(self._weights, () if self._cycle is None else self._cycle.shares)

    def _weigh(self) -> None:
        """Update the models' weights from their likelihoods, including those with a cycle."""
        if self._cycle is None:
            self._weights = self._filters.weights()
        else:
            self._weights = self._cycle.weights(self._filters)

    def _reconsider(self) -> None:
        """Limit how far models lag behind: at a new horizon every one gets a second chance."""
        both: list[KalmanFilters | CycleFilters] = (
            [self._filters] if self._cycle is None else [self._filters, self._cycle]
        )
        halvings = [filters.halvings() for filters in both]
        least = min(map(min, halvings))
        for filters, every in zip(both, halvings, strict=True):
            for model, times in enumerate(every):
                bounded = min(times - least, SECOND_CHANCE)
                filters.mahalanobis[model] = bounded * DISTANCE_PER_HALVING
            filters.exponent[:] = 0
        self._weigh()

    # -- what to publish -------------------------------------------------------------------------

    def begin(self, layout: Layout) -> int:
        """Begin a block; the next choice is due at its end."""
        self._cells = cells = cells_of(layout, self._threshold)
        self._cell = 0
        self._begin_cell(cells)
        return layout.length

    def level(self, recorded: Recorded) -> float:
        """The forecast for one value of the open cell."""
        return self.prediction

    def push(self, noisy: Noisy, out: FloatArray) -> Cells:
        """Fill `out` with one number per value, in units; not beyond the end of the block."""
        sums = iter(noisy.sums.tolist())
        predictions, totals, widths = [], [], []
        at, size = 0, out.size
        while at < size:
            end = at + self._width - self._filled
            if end > size:
                self._filled += size - at
                out[at:] = self.prediction
                break
            out[at:end] = before = self.prediction
            width = self._width
            total = self._end_cell(sums)
            out[end - 1] = total - (width - 1) * before
            predictions.append(self.prediction)
            totals.append(total)
            widths.append(width)
            at = end
        return Cells(
            np.array(predictions),
            np.array(totals, dtype=np.int64),
            np.array(widths, dtype=np.int64),
        )

    def push_one(self, noisy: int | None) -> float:
        """Publish one value: the forecast, or at a cell's end what corrects the running sum."""
        self._filled = filled = self._filled + 1
        if filled < self._width:
            return self.prediction
        before = (self._width - 1) * self.prediction
        return self._end_cell(iter(() if noisy is None else (noisy,))) - before

    def _end_cell(self, sums: Iterator[int]) -> int:
        """Predict, update if a leaf ends; return the cell's sum that corrects the running sum."""
        cells, filters, threshold = self._open_cells(), self._filters, self._threshold
        cycle, part = self._cycle, self._width / (self._age + self._width)
        filters.fade(part)
        filters.predict(self._transition)
        if cycle is not None:
            cycle.fade(part)
            cycle.predict(self._transition, self._width)
        leaf = cells.closes[self._cell]
        if leaf is not None:
            noisy = next(sums)
            self._total += noisy
            filters.update(leaf, noisy / threshold)
            if cycle is not None:
                cycle.update(leaf, filters)
            self._weigh()
        self._cell += 1
        added = self._taken * self._width
        expected = filters.expected_sum(self._weights)
        if cycle is not None:
            expected += cycle.expected_sum()
        known = expected * threshold + added
        if self._catch_up < 1.0 and cells.calm:
            known = caught_up(known, self._width * self.prediction, self._catch_up)
        whole = math.floor(known + 0.5)
        filters.subtract_published((whole - added) / threshold)
        self._age = min(self._age + self._width, self._horizon)
        if self._cell == cells.count:
            self._end_block(cells.tree)
        else:
            self._begin_cell(cells)
        return whole

    def _end_block(self, tree: Layout) -> None:
        self._measured = self._total / tree.length
        # The coarsest nodes alone would say as much; the finer ones can only help.
        self._doubt = math.sqrt(tree.nodes[0] * tree.variances[0]) / tree.length
        self._cells = None
        self._total = self._filled = self._width = 0

    def _begin_cell(self, cells: BlockCells) -> None:
        leaf = cells.opens[self._cell]
        if leaf is not None:
            self._filters.open_leaf(leaf)
            if self._cycle is not None:
                self._cycle.open_leaf(leaf)
        self._filled = 0
        self._width = width = cells.widths[self._cell]
        if self._transition.width != width:
            self._transition = self._transition_over(width)
        forecast = self._filters.forecast(self._transition, self._weights)
        if self._cycle is not None:
            self._cycle.begin_cell(width)
            forecast += self._cycle.forecast(self._transition)
        each = forecast * self._threshold / width + self._taken
        self.prediction = math.floor(each * FORECAST_GRAIN + 0.5) / FORECAST_GRAIN

    def _transition_over(self, width: int) -> StateTransition:
        return state_transition_over(self._horizon, width, self._scatter)

    def _open_cells(self) -> BlockCells:
        if self._cells is None:
            raise AssertionError("no block is open")
        return self._cells
