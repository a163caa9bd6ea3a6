"""The mixture at work: which tree, and what is published for each value."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from tidegate.estimate.mixture.cap_steps import Ladder, moved
from tidegate.estimate.mixture.grid import Cells as BlockCells
from tidegate.estimate.mixture.grid import cells_of
from tidegate.estimate.mixture.kalman import MISSES_PER_HALVING, Beliefs, Cell, mixed
from tidegate.estimate.mixture.models import SECOND_CHANCE, models
from tidegate.estimate.mixture.tree_choice import tree_costs
from tidegate.estimate.mixture.weights import packed
from tidegate.lattice import FloatArray
from tidegate.sealing import restore, state_of
from tidegate.stages import Cells, Layout, Noisy, Perturber, Recorded

# Forecasts are published as multiples of this part of a lattice step, running sums as whole steps.
_FORECAST_GRAIN = float(1 << 16)


class MixtureRun:
    """The state: every model's belief, and where in the block the release is."""

    def __init__(
        self,
        threshold: int,
        truncated: float,
        perturber: Perturber,
        state: Mapping[str, Any] | None = None,
        layout: Layout | None = None,
    ) -> None:
        self._threshold = threshold
        self._share = truncated
        self._truncated = truncated * threshold  # units per value
        self._perturber = perturber
        self._models = models(perturber.horizon)
        self._beliefs = Beliefs(self._models)
        self._ladder = Ladder()
        self._cell = 0  # cells completed in this block
        self._filled = 0  # values of the present cell
        self._age = 0  # values published before the present cell; a horizon at most
        self.prediction = 0.0  # of one value of the present cell, in units
        self._total = 0  # of the released sums of this block
        self._measured = 0.0  # the mean of the block before, in units; 0: none was measured
        self._doubt = 0.0  # its standard error
        if state is not None:
            self._restore(state)
        self._weights = self._beliefs.weights()
        self._cells = None if layout is None else cells_of(layout, threshold)
        self._width = 0 if self._cells is None else self._cells.widths[self._cell]
        self._movement = _moving(perturber.horizon, self._width or 1)  # over the present cell

    def state(self) -> dict[str, Any]:
        """All that is needed to continue."""
        beliefs = self._beliefs
        return {
            "cell": self._cell,
            "filled": self._filled,
            "age": self._age,
            "prediction": self.prediction,
            "total": self._total,
            "measured": self._measured,
            "doubt": self._doubt,
            "ladder": state_of(self._ladder),
            "beliefs": beliefs.table.reshape(-1).copy(),
            "misses": beliefs.misses.copy(),
            "spread": beliefs.spread.copy(),
            "doublings": beliefs.doublings.astype(np.int64),
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        beliefs = self._beliefs
        beliefs.table[:] = state["beliefs"].reshape(beliefs.table.shape)
        beliefs.misses[:] = state["misses"]
        beliefs.spread[:] = state["spread"]
        beliefs.doublings[:] = state["doublings"]
        restore(self._ladder, state["ladder"])
        self._cell, self._filled, self._age = state["cell"], state["filled"], state["age"]
        self._total, self.prediction = state["total"], state["prediction"]
        self._measured, self._doubt = state["measured"], state["doubt"]

    # -- which tree ------------------------------------------------------------------------------

    def choose(self, options: tuple[Layout, ...], first: bool) -> int:
        """The option with the least posterior mean of the log relative error."""
        if first:
            self._reconsider()
        before, ladder = self._ladder.rung, self._ladder
        if self._measured:
            highest = options[-1].rung
            ladder.observe(self._measured / self._threshold, self._doubt / self._threshold, highest)
        if ladder.rung != before:
            self._beliefs.unsettle(moved(before, ladder.rung))
        ladder.rung = min(ladder.rung, options[-1].rung)
        here = [index for index, option in enumerate(options) if option.rung == ladder.rung]
        if len(here) == 1:
            return here[0]
        costs = tree_costs(self._perturber, self._threshold, options[0].length, age=self._age)
        expected = [mixed(self._weights, costs[options[index].nodes].tolist()) for index in here]
        return here[expected.index(min(expected))]

    @property
    def opinion(self) -> int:
        """The models' weights, in one number."""
        return packed(self._weights)

    def _reconsider(self) -> None:
        """A new horizon: every model gets a second chance."""
        beliefs = self._beliefs
        halvings = beliefs.halvings()
        least = min(halvings)
        for model, times in enumerate(halvings):
            beliefs.misses[model] = min(times - least, SECOND_CHANCE) * MISSES_PER_HALVING
        beliefs.doublings[:] = 0
        self._weights = beliefs.weights()

    # -- what to publish -------------------------------------------------------------------------

    def begin(self, layout: Layout) -> int:
        """A block begins; the next choice is due at its end."""
        self._cells = cells = cells_of(layout, self._threshold)
        self._cell = 0
        self._begin_cell(cells)
        return layout.length

    def level(self, recorded: Recorded) -> float:
        """What is forecast for the open cell."""
        return self.prediction

    def push(self, noisy: Noisy, out: FloatArray) -> Cells:
        """Fill `out`, one number per value, in units; not beyond the end of the block."""
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
        """The same for one value."""
        self._filled += 1
        if self._filled < self._width:
            return self.prediction
        before = (self._width - 1) * self.prediction
        return self._end_cell(iter(() if noisy is None else (noisy,))) - before

    def _end_cell(self, sums: Iterator[int]) -> int:
        """What the values of a cell add up to: what sets the running sum right."""
        cells, beliefs, threshold = self._open_cells(), self._beliefs, self._threshold
        beliefs.fade(self._width / (self._age + self._width))
        beliefs.advance(self._movement)
        leaf = cells.closes[self._cell]
        if leaf is not None:
            noisy = next(sums)
            self._total += noisy
            beliefs.measure(leaf, noisy / threshold)
            self._weights = beliefs.weights()
        self._cell += 1
        added = self._truncated * self._width
        whole = math.floor(beliefs.running(self._weights) * threshold + added + 0.5)
        beliefs.count_from((whole - added) / threshold)
        self._age = min(self._age + self._width, self._perturber.horizon)
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
            self._beliefs.open_leaf(leaf)
        self._filled = 0
        self._width = width = cells.widths[self._cell]
        if self._movement.width != width:
            self._movement = _moving(self._perturber.horizon, width)
        forecast = self._beliefs.forecast(self._movement, self._weights)
        each = forecast * self._threshold / width + self._truncated
        self.prediction = math.floor(each * _FORECAST_GRAIN + 0.5) / _FORECAST_GRAIN

    def _open_cells(self) -> BlockCells:
        if self._cells is None:
            raise AssertionError("no block is open")
        return self._cells


@lru_cache(maxsize=256)
def _moving(horizon: int, width: int) -> Cell:
    """How beliefs move over a cell; kept, since a horizon has few widths."""
    return Cell(models(horizon), width)
