"""Small models, weighted by how well they have predicted what was released so far."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tidegate.errors import SettingError
from tidegate.forecast.beliefs import MISSES_PER_HALVING, Beliefs, Cell, mixed
from tidegate.forecast.cells import Cells, cells_of
from tidegate.forecast.costs import tree_costs
from tidegate.forecast.ladder import Ladder, moved
from tidegate.forecast.models import SECOND_CHANCE, models
from tidegate.forecast.noise_path import MOST_LEVELS
from tidegate.forecast.opinions import packed
from tidegate.guided import GuidedPerturber, Tree
from tidegate.lattice import FloatArray
from tidegate.settings import Number, Setting, Spec, exact
from tidegate.stages import Noisy

# Forecasts are published as multiples of this part of a lattice step, running sums as whole steps.
_FORECAST_GRAIN = float(1 << 16)


class _Share(Setting[float, Number]):
    """A share of θ from 0 on, kept as a float: it is post-processing, nothing private."""

    def check(self, value: Number) -> float:
        """At least 0, below 1."""
        number = exact(self.name, value)
        if not 0 <= number < 1:
            raise SettingError(self.name, f"must lie between 0 and 1, not {value}")
        return float(number)


@dataclass(frozen=True, kw_only=True, repr=False)
class Mixture(Spec):
    """Publishes forecasts inside a cell, and at its end what sets the running sum right.

    Post-processing: it sees trees and released leaf sums, and costs no privacy. Every model is a
    Gaussian one (`tidegate.forecast.models`) and is conditioned on each leaf sum as it is released;
    the likelihoods give the weights, the weighted mean is published. Before a block begins, the
    tree with the least expected log error under the weighted models is chosen.

    The running sum is not set to its own expectation: users ask for ranges, and an error that all
    running sums have in common cancels there. With e_t the error of the published running sum, the
    mean squared error over all ranges of n values is 2/n·Σ (1 − 1/t)·(e_t − mean of e_1 … e_{t−1})²
    and each term can be made as small as what is known at t allows, whatever was published before:
    its expectation is made 0. So every running sum is published as far above the mean of the
    published ones before it as the true one is thought to be above the mean of the true ones. (Its
    own expectation would take back old noise late: 1.3 to 1.5 times the error on calm streams.)
    "Before" is a horizon: older running sums fade.

    Args:
        truncated: what truncation is thought to take from a value on average, as a share of θ; it
            is added to every published value. `tidegate.adaptive` fills it in.
    """

    KIND: ClassVar[str] = "forecast.Mixture"

    truncated: _Share = _Share(default=0)

    @property
    def allowance(self) -> float:
        """What is added to every value for truncation, as a share of θ."""
        return self.truncated

    def check(self, perturber: GuidedPerturber) -> None:
        """Refuse trees of more than three levels: `noise_path` follows no more."""
        for tree in perturber.trees(perturber.lengths(0)[0], 1, 1):
            if len(tree.nodes) > MOST_LEVELS:
                raise SettingError(
                    "levels",
                    f"must be at most {MOST_LEVELS} for a forecaster to follow the trees, not "
                    f"{len(tree.nodes)}: give levels={MOST_LEVELS}, or skip more",
                )

    def start_forecast(self, *, threshold: int, perturber: GuidedPerturber) -> MixtureRun:
        """Begin with equal weights."""
        return MixtureRun(threshold, self.truncated, perturber)


class MixtureRun:
    """The state: every model's belief, and where in the block the release is."""

    STATE: ClassVar[tuple[str, ...]] = (
        "beliefs", "misses", "spread", "doublings", "cell", "filled", "age", "prediction",
        "total", "measured", "doubt", "ladder",
    )  # fmt: skip

    def __init__(self, threshold: int, truncated: float, perturber: GuidedPerturber) -> None:
        self._threshold = threshold
        self._truncated = truncated * threshold  # units per value
        self._perturber = perturber
        self._models = models(perturber.horizon)
        self._beliefs = Beliefs(self._models)
        self._weights = self._beliefs.weights()
        self._ladder = Ladder()
        self._movements: dict[int, Cell] = {}
        self._movement = self._moving(1)  # over the present cell
        self._cells: Cells | None = None
        self._width = 0  # of the present cell
        self.room = 0  # values until the block ends
        self.cell = 0  # cells completed in this block
        self.filled = 0  # values of the present cell
        self.age = 0  # values published before the present cell; a horizon at most
        self.prediction = 0.0  # of one value of the present cell, in units
        self.total = 0  # of the released sums of this block
        self.measured = 0.0  # the mean of the block before, in units; 0: none was measured
        self.doubt = 0.0  # its standard error

    # -- which tree ------------------------------------------------------------------------------

    def choose(self, options: tuple[Tree, ...], first: bool) -> int:
        """The option with the least posterior mean of the log relative error."""
        if first:
            self._reconsider()
        before, ladder = self._ladder.rung, self._ladder
        if self.measured:
            highest = options[-1].rung
            ladder.observe(self.measured / self._threshold, self.doubt / self._threshold, highest)
        if ladder.rung != before:
            self._beliefs.unsettle(moved(before, ladder.rung))
        ladder.rung = min(ladder.rung, options[-1].rung)
        here = [index for index, option in enumerate(options) if option.rung == ladder.rung]
        if len(here) == 1:
            return here[0]
        costs = tree_costs(self._perturber, self._threshold, options[0].length, age=self.age)
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

    def begin(self, tree: Tree) -> None:
        """A block begins."""
        self._cells = cells = cells_of(tree, self._threshold)
        self.room = tree.length
        self.cell = 0
        self._begin_cell(cells)

    def resume(self, tree: Tree) -> None:
        """The state was restored; this is the tree of the open block."""
        self._cells = cells = cells_of(tree, self._threshold)
        self._width = cells.widths[self.cell]
        self._movement = self._moving(self._width)
        self.room = tree.length - cells.edges[self.cell] - self.filled

    def push(self, noisy: Noisy, out: FloatArray) -> None:
        """Fill `out`, one number per value, in units; not beyond the end of the block."""
        sums = iter(noisy.sums.tolist())
        at, size = 0, out.size
        while at < size:
            end = at + self._width - self.filled
            if end > size:
                self.filled += size - at
                out[at:] = self.prediction
                break
            out[at:end] = self.prediction
            out[end - 1] = self._end_cell(sums)
            at = end
        self.room -= size

    def push_one(self, noisy: int | None) -> float:
        """The same for one value."""
        self.room -= 1
        self.filled += 1
        if self.filled < self._width:
            return self.prediction
        return self._end_cell(iter(() if noisy is None else (noisy,)))

    def _end_cell(self, sums: Iterator[int]) -> float:
        """What the last value of a cell is published as: what sets the running sum right."""
        cells, beliefs, threshold = self._open_cells(), self._beliefs, self._threshold
        before = (self._width - 1) * self.prediction
        beliefs.fade(self._width / (self.age + self._width))
        beliefs.advance(self._movement)
        leaf = cells.closes[self.cell]
        if leaf is not None:
            noisy = next(sums)
            self.total += noisy
            beliefs.measure(leaf, noisy / threshold)
            self._weights = beliefs.weights()
        self.cell += 1
        added = self._truncated * self._width
        whole = math.floor(beliefs.running(self._weights) * threshold + added + 0.5)
        beliefs.count_from((whole - added) / threshold)
        self.age = min(self.age + self._width, self._perturber.horizon)
        if self.cell == cells.count:
            self._end_block(cells.tree)
        else:
            self._begin_cell(cells)
        return whole - before

    def _end_block(self, tree: Tree) -> None:
        self.measured = self.total / tree.length
        # The coarsest nodes alone would say as much; the finer ones can only help.
        self.doubt = math.sqrt(tree.nodes[0] * tree.variances[0]) / tree.length
        self._cells = None
        self.total = self.filled = self._width = 0

    def _begin_cell(self, cells: Cells) -> None:
        leaf = cells.opens[self.cell]
        if leaf is not None:
            self._beliefs.open_leaf(leaf)
        self.filled = 0
        self._width = width = cells.widths[self.cell]
        if self._movement.width != width:
            self._movement = self._moving(width)
        forecast = self._beliefs.forecast(self._movement, self._weights)
        each = forecast * self._threshold / width + self._truncated
        self.prediction = math.floor(each * _FORECAST_GRAIN + 0.5) / _FORECAST_GRAIN

    def _moving(self, width: int) -> Cell:
        if width not in self._movements:
            if len(self._movements) > 64:  # a horizon has few widths; do not gather for ever
                self._movements.clear()
            self._movements[width] = Cell(self._models, width)
        return self._movements[width]

    def _open_cells(self) -> Cells:
        if self._cells is None:
            raise AssertionError("no block is open")
        return self._cells

    # -- state -----------------------------------------------------------------------------------

    @property
    def ladder(self) -> list[float]:
        """Where the caps are."""
        return [getattr(self._ladder, name) for name in Ladder.STATE]

    @ladder.setter
    def ladder(self, state: list[float]) -> None:
        for name, value in zip(Ladder.STATE, state, strict=True):
            setattr(self._ladder, name, value)

    @property
    def beliefs(self) -> FloatArray:
        """The models' means and covariances, in one row."""
        return self._beliefs.table.reshape(-1)

    @beliefs.setter
    def beliefs(self, flat: FloatArray) -> None:
        self._beliefs.table[:] = flat.reshape(self._beliefs.table.shape)

    @property
    def misses(self) -> FloatArray:
        """The models' squared misses."""
        return self._beliefs.misses

    @misses.setter
    def misses(self, misses: FloatArray) -> None:
        self._beliefs.misses[:] = misses

    @property
    def spread(self) -> FloatArray:
        """The mantissa of what each model expected to miss."""
        return self._beliefs.spread

    @spread.setter
    def spread(self, spread: FloatArray) -> None:
        self._beliefs.spread[:] = spread

    @property
    def doublings(self) -> FloatArray:
        """Its exponent; the last to be restored."""
        return self._beliefs.doublings.astype(np.float64)

    @doublings.setter
    def doublings(self, doublings: FloatArray) -> None:
        self._beliefs.doublings[:] = doublings
        self._weights = self._beliefs.weights()
