"""The mixtures of many streams in arrays, each with a θ of its own that is refined.

What `RescaledRun` does, bit for bit. Where a stream is handed to a run of its own, a `RescaledRun`
takes over (`stream_state`), and hands back (`restore_stream`).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tidegate.estimate.mixture.kalman_filter.model_weights import mixed_rows
from tidegate.estimate.mixture.kalman_filter.state_space_models import LEVEL
from tidegate.estimate.mixture.many_streams.cap_steps_of_many_streams import (
    FIRST_COUNTS,
    FIRST_LEVELS,
    STEP_COUNTS,
    STEP_LEVELS,
)
from tidegate.estimate.mixture.many_streams.layout_tables import LayoutTables
from tidegate.estimate.mixture.many_streams.mixture_of_many_streams import MixtureOfManyStreams
from tidegate.estimate.mixture.many_streams.rescaled_filters_of_many_streams import (
    RescaledFiltersOfManyStreams,
)
from tidegate.estimate.mixture.many_streams.units_and_leaves_of_many_streams import (
    FilterUnit,
    alike_in_many_streams,
    grouped_streams,
    ratios_of_streams,
)
from tidegate.estimate.mixture.rescaled_run import LATE_TAKEN
from tidegate.lattice import FloatArray, IntArray
from tidegate.perturb.adaptive.refinement_trees import (
    RefinementTrees,
    refinement_block_length,
    refinement_block_lengths,
)
from tidegate.stages import Layout, late_from
from tidegate.state_as_bytes import State

_MOST_ROWS = 4096  # of the tables, unless more are in use


class WarmUpSumsOfMixtures(NamedTuple):
    """The layouts that measured the sums of warm-ups, one entry for each stream, for records."""

    layouts: list[Layout]
    numbers: list[int]
    noisy: IntArray
    doubts: FloatArray  # standard errors


class MixtureOfManyThresholds(MixtureOfManyStreams):
    """`MixtureOfManyStreams` where each stream has its own θ and blocks.

    A stream has no open block before its first warm-up is over, and none while one is open.

    Attributes:
        threshold: θ, in lattice units.
        part: which part of ε measures blocks, by its number in `RefinementTrees.blocks`.
        warm_up_start: where the warm-up began that θ comes from.
        begun: where the open block began.
        below: how much of θ lies below 0.
        first_option: the number that the first option of the open block has in records.
        level: expected there, in units.
    """

    _PLACES: ClassVar[tuple[str, ...]] = (
        *MixtureOfManyStreams._PLACES,
        "threshold", "part", "warm_up_start", "begun", "first_option", "below",
    )  # fmt: skip
    _LEVELS: ClassVar[tuple[str, ...]] = (*MixtureOfManyStreams._LEVELS, "level")
    STATE: ClassVar[tuple[str, ...]] = (
        "position", "choice", "chunk", "number", "prediction", "total", "measured", "doubt",
        "threshold", "part", "warm_up_start", "begun", "level",
    )  # fmt: skip

    threshold: IntArray
    part: IntArray
    warm_up_start: IntArray
    begun: IntArray
    first_option: IntArray
    below: IntArray
    level: FloatArray

    def __init__(
        self, truncated: float, perturber: RefinementTrees, ceiling: int, catch_up: float
    ) -> None:
        super().__init__(1, truncated, perturber, ceiling, catch_up=catch_up)
        self._share, self._trees = truncated, perturber
        self.filters: RescaledFiltersOfManyStreams = RescaledFiltersOfManyStreams(self._horizon)
        self.tables = LayoutTables()  # rows are given up here: not those that others look at

    def begin_again(self, code: int) -> None:
        """Reset a stream to its beginning, with no open block."""
        self._clear(code)
        self.threshold[code] = 1

    def _unit_of(self, codes: IntArray, filled: int | IntArray) -> FilterUnit:
        threshold = self.threshold[codes]
        balance = threshold - 2 * self.below[codes]  # of what both ends take away
        taken = np.multiply(self._share, balance, dtype=np.float64)
        ages = np.minimum(self.position[codes] - filled, self._horizon)
        late = ages > late_from(self._horizon)
        return FilterUnit(threshold, np.where(late, taken * LATE_TAKEN, taken))

    # -- blocks ----------------------------------------------------------------------------------

    def options_of(self, code: int) -> tuple[int, tuple[Layout, ...]]:
        """The options for a stream's open block, and the index of the first in records."""
        begun, age = int(self.begun[code]), int(self.begun[code] - self.warm_up_start[code])
        length = refinement_block_length(self._horizon, age, begun)
        part = self._trees.blocks[int(self.part[code])]
        widest = self._ceiling + int(self.below[code])
        return self._trees.group(part, length, int(self.threshold[code]), widest)

    def begin_blocks(self, codes: IntArray) -> None:
        """After blocks of these streams: choose trees for the next ones."""
        position = self.position[codes]
        wraps = position % self._horizon == 0
        self.chunk[codes] += wraps
        self.number[codes] = np.where(wraps, 0, self.number[codes] + 1)
        self.begun[codes] = position
        self._begin(codes, position)

    def begin_phases(self, codes: IntArray, parts: IntArray) -> None:
        """Begin phases of these streams, whose blocks get such shares of ε."""
        position = self.position[codes]
        self.part[codes], self.chunk[codes], self.begun[codes] = parts, 0, position
        self.number[codes] = position % self._horizon > 0  # block 0 begins a horizon
        self._begin(codes, position)

    def _begin(self, codes: IntArray, position: IntArray) -> None:
        """Choose trees for the blocks that begin here."""
        again = codes[self.number[codes] == 0]
        if again.size:
            self.filters.reconsider(again)
        self._keep_tables_small()
        lengths = refinement_block_lengths(
            self._horizon, position - self.warm_up_start[codes], position
        )
        for (threshold, below, part, length, _), same in grouped_streams(
            self.threshold[codes].tolist(),
            self.below[codes].tolist(),
            self.part[codes].tolist(),
            lengths.tolist(),
            np.minimum(position, self._horizon).tolist(),  # costs of trees depend on the age
        ):
            share = self._trees.blocks[part]
            first, options = self._trees.group(share, length, threshold, self._ceiling + below)
            self.first_option[codes[same]] = first
            self._choose(codes[same], options, threshold, below)
        self.cap[codes] = self.tables.cap[self.row[codes]]
        self.cell[codes] = self.total[codes] = 0
        self._begin_cells(codes)
        self.level[codes] = self.mean(codes)

    # -- choices of θ ----------------------------------------------------------------------------

    def rescale(self, codes: IntArray, thresholds: IntArray) -> None:
        """`RescaledRun.rescale`: change to units of another θ."""
        self.filters.rescale(codes, ratios_of_streams(self.threshold[codes], thresholds))
        self.threshold[codes] = thresholds
        self._step_counts[codes], self._step_levels[codes] = FIRST_COUNTS, FIRST_LEVELS
        self.total[codes] = self.filled[codes] = self.width[codes] = 0
        self.measured[codes] = 0.0

    def at_once(
        self,
        codes: IntArray,
        count: int,
        noisy: IntArray,
        variances: FloatArray,
        forecasts: FloatArray,
    ) -> FloatArray:
        """`RescaledRun.at_once`: warm-ups of `count` values had these noisy sums and `forecasts`.

        The variances of their noise are in θ², as `leaf_noise_path` has them.
        """
        theta = self.threshold[codes]
        facts = self.position[codes], variances, ratios_of_streams(noisy, theta), theta
        catch_up = self._catching_up(count * forecasts, np.ones(codes.size, dtype=np.bool_))
        return self.filters.at_once(codes, count, *facts, catch_up)

    def mean(self, codes: IntArray) -> FloatArray:
        """Expected levels, in units."""
        levels = mixed_rows(self.filters.weights[codes], self.filters.means(LEVEL, codes))
        return levels * self.threshold[codes]

    def _keep_tables_small(self) -> None:
        """Drop table rows that no stream uses any more."""
        if len(self.tables) > _MOST_ROWS:
            used, places = np.unique(self.row, return_inverse=True)
            if 2 * used.size <= len(self.tables):
                self.row = self.tables.only(used)[places]

    # -- one stream ------------------------------------------------------------------------------

    def open_layout(self, code: int) -> Layout:
        """The tree of the open block of a stream."""
        return self.tables.cells[int(self.row[code])].tree

    def stream_state(self, code: int, *, held: int, measuring: bool) -> dict[str, Any]:
        """`RescaledRun.state` for one stream.

        `held` values of an open warm-up have come; `measuring`: none is open, and a block is.
        """
        filled = int(self.filled[code])
        age = min(int(self.position[code]) - held - filled, self._horizon)
        widths: list[int] = []
        if measuring:
            cells, cell = self.tables.cells[int(self.row[code])], int(self.cell[code])
            widths = cells.widths[cell - cell % cells.per_leaf : cell]
        steps = (*self._step_counts[code].tolist(), *self._step_levels[code].tolist())
        return {
            "cell": int(self.cell[code]),
            "filled": filled,
            "age": age,
            "prediction": float(self.prediction[code]),
            "total": int(self.total[code]),
            "measured": float(self.measured[code]),
            "doubt": float(self.doubt[code]),
            "cap_steps": dict(zip((*STEP_COUNTS, *STEP_LEVELS), steps, strict=True)),
            **self.filters.stream_state(code, widths, int(self.position[code]) - filled),
        }

    def restore_stream(
        self, code: int, state: State | None, *, threshold: int, position: int, warm_up_start: int
    ) -> None:
        """Restore a stream from a `RescaledRun`, between leaves. None: nothing is known yet."""
        self.threshold[code], self.position[code] = threshold, position
        self.warm_up_start[code] = warm_up_start
        if state is None:
            return
        for name in ("prediction", "total", "measured", "doubt", "cell", "filled"):
            getattr(self, name)[code] = state[name]
        steps = state["cap_steps"]
        self._step_counts[code] = [steps[name] for name in STEP_COUNTS]
        self._step_levels[code] = [steps[name] for name in STEP_LEVELS]
        self.filters.restore_stream(code, state)

    def restore_block(self, code: int, part: Fraction, blocks: State, level: float) -> None:
        """Restore a stream's open block from a `RefinementTreesRun`."""
        self.part[code], self.level[code] = self._trees.blocks.index(part), level
        self.chunk[code], self.number[code] = blocks["chunk"], blocks["number"]
        self.choice[code], self.begun[code] = blocks["choice"], blocks["position"]
        self._keep_tables_small()
        self._look_up(np.array([code]))

    def _look_up(self, codes: IntArray) -> None:
        """Look up what θ, the options and the choice determine."""
        for code in codes.tolist():
            self.first_option[code], options = self.options_of(code)
            layout = options[int(self.choice[code])]
            self.row[code] = self.tables.row(layout, int(self.threshold[code]))
        row = self.row[codes]
        self.width[codes] = self.tables.widths[row, self.cell[codes]]
        self.cap[codes] = self.tables.cap[row]

    # -- state -----------------------------------------------------------------------------------

    def restore(self, codes: IntArray, state: State) -> None:
        """Restore streams from a `state`; `restore_places` must follow for those with a block."""
        self._restore_columns(codes, state)

    def restore_places(self, codes: IntArray) -> None:
        """Move these streams to their positions inside blocks."""
        self._look_up(codes)
        values = self.position[codes] - self.begun[codes]
        for same in alike_in_many_streams(self.row[codes]):
            some, row = codes[same], int(self.row[codes[same[0]]])
            self.cell[some], self.filled[some] = self.tables.place(row, values[same])
        self.width[codes] = self.tables.widths[self.row[codes], self.cell[codes]]
