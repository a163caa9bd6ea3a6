"""The mixtures of many streams in arrays: what `MixtureRun` does, bit for bit.

All have one θ, of which `below` lies below 0, and one perturber, and begin at position 0; they may
be at different positions. Options, borders of blocks and costs of trees are the same for all and
looked up. (`mixture_of_many_thresholds`: a θ for each.)
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.catch_up import CatchUp
from tidegate.estimate.mixture.kalman_filter.model_weights import mixed_rows
from tidegate.estimate.mixture.many_streams.cap_steps_of_many_streams import (
    FIRST_COUNTS,
    FIRST_LEVELS,
    STEP_COUNTS,
    STEP_LEVELS,
    observe_cap_steps,
)
from tidegate.estimate.mixture.many_streams.filters_of_many_streams import FiltersOfManyStreams
from tidegate.estimate.mixture.many_streams.layout_tables import NO_LEAF, shared_layout_tables
from tidegate.estimate.mixture.many_streams.units_and_leaves_of_many_streams import (
    EndedLeaves,
    FilterUnit,
    alike_in_many_streams,
    ratios_of_streams,
)
from tidegate.estimate.mixture.mixture_run import FORECAST_GRAIN
from tidegate.estimate.mixture.tree_choice import tree_costs
from tidegate.lattice import FloatArray, IntArray
from tidegate.stages import Layout, Perturber
from tidegate.state_as_bytes import State


class MixtureOfManyStreams:
    """The mixture of each stream: filters, place in its block, forecast, data for choosing trees.

    Attributes:
        position: values that were published.
        choice, row: which option measures the open block; its row in `tables`.
        chunk, number: of the open block: its horizon, and its place there.
        cell, filled: cells completed in the block; values of the present cell.
        prediction: of one value of the present cell, in units.
        total: of the released sums of the block.
    """

    STATE: ClassVar[tuple[str, ...]] = (
        "position", "choice", "prediction", "total", "measured", "doubt"
    )  # fmt: skip
    _PLACES: ClassVar[tuple[str, ...]] = (
        "position", "choice", "row", "chunk", "number", "cell", "filled", "width", "cap", "total"
    )  # fmt: skip
    _LEVELS: ClassVar[tuple[str, ...]] = ("prediction", "measured", "doubt")

    position: IntArray
    choice: IntArray
    row: IntArray
    chunk: IntArray
    number: IntArray
    cell: IntArray
    filled: IntArray
    width: IntArray
    cap: IntArray
    total: IntArray
    prediction: FloatArray
    measured: FloatArray
    doubt: FloatArray

    def __init__(
        self,
        threshold: int,
        truncated: float,
        perturber: Perturber,
        ceiling: int,
        below: int = 0,
        catch_up: float = 1.0,
    ) -> None:
        self._threshold, self._below, self._ceiling = threshold, below, ceiling
        self._catch_up = catch_up
        self._unit = FilterUnit(threshold, truncated * (threshold - below - below))
        self._perturber, self._horizon = perturber, perturber.horizon
        self._borders = [
            np.cumsum((0, *perturber.lengths(chunk))) for chunk in (0, 1)
        ]  # of blocks: in the first horizon, and in any later one
        self.tables = shared_layout_tables(threshold, perturber, ceiling)
        self.filters = FiltersOfManyStreams(self._horizon)
        for name in self._PLACES:
            setattr(self, name, np.zeros(0, dtype=np.int64))
        for name in self._LEVELS:
            setattr(self, name, np.zeros(0))
        self._step_counts: IntArray = np.zeros((0, len(STEP_COUNTS)), dtype=np.int64)
        self._step_levels: FloatArray = np.zeros((0, len(STEP_LEVELS)))

    def grow(self, room: int) -> None:
        """Make room for more streams; they all begin with the same state."""
        had = self.position.size
        more = room - had
        for name in (*self._PLACES, *self._LEVELS):
            old = getattr(self, name)
            setattr(self, name, np.concatenate((old, np.zeros(more, dtype=old.dtype))))
        rest = more, len(STEP_COUNTS)
        self._step_counts = np.concatenate((self._step_counts, np.zeros(rest, dtype=np.int64)))
        self._step_levels = np.concatenate((self._step_levels, np.zeros(rest)))
        self.filters.grow(room)
        self.begin_again(had)
        self._copy(had, np.arange(had + 1, room))

    def begin_again(self, code: int) -> None:
        """Reset a stream to its beginning."""
        self._clear(code)
        self.begin_blocks(np.array([code]))

    def _clear(self, code: int) -> None:
        here = np.array([code])
        for name in (*self._PLACES, *self._LEVELS):
            getattr(self, name)[here] = 0
        self._step_counts[here], self._step_levels[here] = FIRST_COUNTS, FIRST_LEVELS
        self.filters.begin(here)

    def _copy(self, source: int, targets: IntArray) -> None:
        for name in (*self._PLACES, *self._LEVELS, "_step_counts", "_step_levels"):
            part = getattr(self, name)
            part[targets] = part[source]
        self.filters.copy(source, targets)

    # -- what to publish -------------------------------------------------------------------------

    def leaves(self, codes: IntArray) -> IntArray:
        """The leaf that ends with the present cell of each stream; `NO_LEAF`: none."""
        return self.tables.leaf[self.row[codes], self.cell[codes]]

    def end_cells(self, codes: IntArray, sums: IntArray) -> tuple[FloatArray, IntArray]:
        """End the present cells of these distinct streams.

        `sums` are noisy, of the leaves that end; anything where none does. Gives the whole sums of
        the cells, in units, and the streams that began a block.
        """
        wholes, last = self.publish_cells(codes, sums)
        ended, going = codes[last], codes[~last]
        if ended.size:
            self.begin_blocks(ended)
        if going.size:
            self._begin_cells(going)
        return wholes, ended

    def publish_cells(
        self, codes: IntArray, sums: IntArray
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Publish the cells without what follows; return which of them end a block."""
        tables, row, cell = self.tables, self.row[codes], self.cell[codes]
        closing = tables.leaf[row, cell] != NO_LEAF
        self.total[codes[closing]] += sums[closing]
        wholes = np.empty(codes.size)
        width = self.width[codes]
        noisy = ratios_of_streams(sums, self._unit_of(codes, width).threshold)
        kinds = tables.cells_alike[row, cell]
        for same in alike_in_many_streams(kinds):
            first, leaves = int(same[0]), None
            if closing[first]:
                at, widths = (row[same], cell[same]), tables.leaf_widths[kinds[first]]
                leaves = EndedLeaves(widths, tables.share[at], tables.contrast[at], noisy[same])
            some = codes[same]
            facts = int(width[first]), self.position[some], leaves, self._unit_of(some, width[same])
            forecasts, calm = width[same] * self.prediction[some], tables.calm[row[same]]
            wholes[same] = self.filters.end_cells(some, *facts, self._catching_up(forecasts, calm))
        self.cell[codes] = cell + 1
        last: NDArray[np.bool_] = cell + 1 == tables.count[row]
        ended = codes[last]
        self.measured[ended] = ratios_of_streams(self.total[ended], tables.length[row[last]])
        self.doubt[ended] = tables.doubt[row[last]]
        return wholes, last

    def _catching_up(self, forecasts: FloatArray, calm: NDArray[np.bool_]) -> CatchUp | None:
        return CatchUp(forecasts, calm, self._catch_up) if self._catch_up < 1.0 else None

    def _begin_cells(self, codes: IntArray) -> None:
        row, cell = self.row[codes], self.cell[codes]
        kinds = self.tables.opens[row, cell]
        opening = np.flatnonzero(kinds)
        for same in alike_in_many_streams(kinds[opening]):
            at = opening[same]
            nodes = self.tables.opened_nodes(int(kinds[at[0]]), (row[at], cell[at]))
            self.filters.open_leaves(codes[at], nodes)
        self.filled[codes] = 0
        self.width[codes] = width = self.tables.widths[row, cell]
        for same in alike_in_many_streams(width):
            each = int(width[same[0]])
            some = codes[same]
            forecast, unit = self.filters.forecast(some, each), self._unit_of(some, 0)
            level = forecast * unit.threshold / each + unit.truncated
            grains = np.floor(level * FORECAST_GRAIN + 0.5)
            self.prediction[some] = grains / FORECAST_GRAIN

    def _unit_of(self, codes: IntArray, filled: int | IntArray) -> FilterUnit:
        """The units of these filters; their open cells have `filled` values."""
        return self._unit

    # -- which tree ------------------------------------------------------------------------------

    def begin_blocks(self, codes: IntArray) -> None:
        """Choose a tree for the next block of each stream, and begin the block."""
        chunk, within = np.divmod(self.position[codes], self._horizon)
        kind = np.minimum(chunk, 1)
        number = np.where(
            kind == 0,
            np.searchsorted(self._borders[0], within),
            np.searchsorted(self._borders[1], within),
        )
        self.chunk[codes], self.number[codes] = chunk, number
        first = codes[number == 0]
        if first.size:
            self.filters.reconsider(first)
        for same in alike_in_many_streams(2 * number + kind):
            options = self._options(int(chunk[same[0]]), int(number[same[0]]))
            self._choose(codes[same], options, self._threshold, self._below)
        self.cap[codes] = self.tables.cap[self.row[codes]]
        self.cell[codes] = self.total[codes] = 0
        self._begin_cells(codes)

    def _options(self, chunk: int, number: int) -> tuple[Layout, ...]:
        length = self._perturber.lengths(chunk)[number]
        return self._perturber.layouts(length, self._threshold, self._ceiling)

    def _choose(
        self, codes: IntArray, options: tuple[Layout, ...], threshold: int, below: int
    ) -> None:
        """`MixtureRun.choose` for streams at the same place of a horizon, with the same θ."""
        age = min(int(self.position[codes[0]]), self._horizon)
        highest = options[-1].cap_step
        steps = self._cap_steps(codes, highest, threshold, below)
        step = np.clip(steps, int(below > 0), highest)  # as in `MixtureRun.choose`
        self._step_counts[codes, 0] = step
        for same in alike_in_many_streams(step):
            some = codes[same]
            here = [
                index for index, option in enumerate(options) if option.cap_step == step[same[0]]
            ]
            choice = np.full(some.size, here[0])
            if len(here) > 1:
                length = options[0].length
                costs = tree_costs(self._perturber, threshold, length, age=age)
                weights = self.filters.weights[some]
                expected = [mixed_rows(weights, costs[options[index].nodes]) for index in here]
                choice = np.array(here)[np.argmin(expected, axis=0)]
            self.choice[some] = choice
            for chosen in here:
                mine = some[choice == chosen]
                if mine.size:
                    self.row[mine] = self.tables.row(options[chosen], threshold)

    def _cap_steps(self, codes: IntArray, highest: int, threshold: int, below: int) -> IntArray:
        """Adapt the cap of each stream to the mean of its last block."""
        counts, levels = self._step_counts[codes], self._step_levels[codes]
        means = self.measured[codes], self.doubt[codes]
        inflated = observe_cap_steps(counts, levels, *means, highest, (threshold - below, below))
        self._step_counts[codes], self._step_levels[codes] = counts, levels
        if (changed := np.flatnonzero(inflated)).size:
            self.filters.inflate_level(codes[changed], inflated[changed])
        found_steps: IntArray = self._step_counts[codes, 0]
        return found_steps

    def state(self, start: int, end: int) -> dict[str, NDArray[np.generic]]:
        """The state to resume these streams from."""
        return {
            **{name: getattr(self, name)[start:end] for name in self.STATE},
            "step_counts": self._step_counts[start:end].astype(np.int32).reshape(-1),
            "step_levels": self._step_levels[start:end].reshape(-1),
            **self.filters.state(start, end),
        }

    def restore(self, codes: IntArray, state: State) -> None:
        """Restore streams from `state`."""
        self._restore_columns(codes, state)
        chunk, within = np.divmod(self.position[codes], self._horizon)
        for kind, borders in enumerate(self._borders):
            mine = np.minimum(chunk, 1) == kind
            number = np.searchsorted(borders, within[mine], side="right") - 1
            self.number[codes[mine]] = number
            within[mine] -= borders[number]
        self.chunk[codes] = chunk
        number, choice = self.number[codes], self.choice[codes]
        for same in alike_in_many_streams((2 * number + np.minimum(chunk, 1)) << 32 | choice):
            at = int(same[0])
            layout = self._options(int(chunk[at]), int(number[at]))[int(choice[at])]
            row, some = self.tables.row(layout, self._threshold), codes[same]
            self.row[some] = row
            self.cell[some], self.filled[some] = self.tables.place(row, within[same])
        self.width[codes] = self.tables.widths[self.row[codes], self.cell[codes]]
        self.cap[codes] = self.tables.cap[self.row[codes]]

    def _restore_columns(self, codes: IntArray, state: State) -> None:
        for name in self.STATE:
            getattr(self, name)[codes] = state[name]
        self._step_counts[codes] = state["step_counts"].reshape(codes.size, -1)
        self._step_levels[codes] = state["step_levels"].reshape(codes.size, -1)
        self.filters.restore(codes, state)
