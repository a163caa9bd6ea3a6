"""Keys of a refined release in arrays: inside blocks and warm-ups all of them move on together.

What is rare goes through a `RefinementRun` of the one key: the last value of a warm-up, of a
window, of a leaf that outgrows its cap and of a block whose level has risen or lets θ climb. The
run is made from the columns as they are before that value, takes it, and is put back. So every rule
about choices of θ and restarts stands in one place.

Privacy: noise, scales, caps and choices are those of `RefinementRun`, bit for bit (a law test
compares them), so its argument holds for every key. Values are capped next to the noise (`_end`),
at the cap of the tree that was chosen before the block began. Whether a leaf outgrew its cap is
decided from its noisy sum, which is then the one that the run measures: the noise is the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.many_streams.layout_tables import NO_LEAF
from tidegate.estimate.mixture.many_streams.parts_of_many_streams import alike, ratios
from tidegate.estimate.mixture.outgrown_cap import (
    MOVED_SURE,
    RISEN,
    SURE,
    CapWatch,
    full_rows,
)
from tidegate.keyed.refined_state import RefinedState
from tidegate.keyed.rows import Groups
from tidegate.lattice import FloatArray, IntArray
from tidegate.run.refinement_state import CLIMBING

_MADE_AHEAD = 8  # rows of a push for each block of noise that is made ahead


class RefinedColumns(RefinedState):
    """All keys in arrays, by code. The past of a key is kept by whoever uses them (`_past`)."""

    # -- rows ------------------------------------------------------------------------------------

    def push(self, groups: Groups, units: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """Positions, values and levels of the rows, in lattice units and in their order.

        As many rounds as the busiest key has cells in them.
        """
        mixture, once = self.mixture, groups.once
        keys, starts, ordered = groups.codes, np.arange(units.size), units
        left = np.ones(units.size, dtype=np.int64)
        if not once:
            keys, starts, ordered = groups.present, groups.starts.copy(), groups.by_key(units)
            left = np.diff(starts, append=units.size)
        first = mixture.position[keys]
        positions = first if once else np.repeat(first - starts, left) + np.arange(units.size)
        values, levels = np.empty(units.size), np.empty(units.size)
        while keys.size:
            room = np.where(
                self.measuring[keys],
                mixture.width[keys] - mixture.filled[keys],
                self.held.size[keys] - self.held.count[keys],
            )
            ends = left >= room
            taken = np.minimum(left, room)
            inside = taken - ends
            some = np.flatnonzero(inside)
            if some.size:
                counts = inside[some]
                firsts = np.cumsum(counts) - counts
                rows = np.repeat(starts[some] - firsts, counts) + np.arange(int(counts.sum()))
                self._inside(keys[some], counts, ordered[rows])
                published = np.repeat(mixture.prediction[keys[some]], counts)
                values[rows] = levels[rows] = published
            if ends.any():
                last = (starts + taken - 1)[ends]
                values[last], levels[last] = self._end(keys[ends], ordered[last])
            going = left > taken
            starts = (starts + taken)[going]
            keys, left = keys[going], (left - taken)[going]
        waiting = self._noise.waiting(units.size // _MADE_AHEAD + 1)
        self._make(waiting[self.measuring[waiting]])
        if once:
            return positions, values, levels
        return groups.as_given(positions), groups.as_given(values), groups.as_given(levels)

    def _inside(self, codes: IntArray, counts: IntArray, units: IntArray) -> None:
        """Rows that end neither a cell nor a warm-up: so many of each key, key by key."""
        mixture, measuring = self.mixture, self.measuring[codes]
        mixture.position[codes] += counts
        if not measuring.all():
            rows = np.repeat(measuring, counts)
            self.held.add(codes[~measuring], counts[~measuring], units[~rows])
            codes, counts, units = codes[measuring], counts[measuring], units[rows]
        if not codes.size:
            return
        mixture.filled[codes] += counts
        if codes.size == units.size:
            self.raw[codes] += np.minimum(units, mixture.cap[codes])
        else:
            capped = np.minimum(units, np.repeat(mixture.cap[codes], counts))
            self.raw[codes] += np.add.reduceat(capped, np.cumsum(counts) - counts)
        self._count(codes, counts, units)

    def _count(self, codes: IntArray, counts: IntArray, units: IntArray) -> None:
        """Let values of open windows count for the next choice of θ."""
        opened = self.windows.size[codes] > 0
        if opened.all():
            self.windows.add(codes, counts, units)
        elif opened.any():
            rows = opened if codes.size == units.size else np.repeat(opened, counts)
            self.windows.add(codes[opened], counts[opened], units[rows])

    # -- ends ------------------------------------------------------------------------------------

    def _end(self, codes: IntArray, units: IntArray) -> tuple[FloatArray, FloatArray]:
        """Last rows of cells and warm-ups, one of each key: what they publish, and the levels."""
        values, levels = np.empty(codes.size), np.empty(codes.size)
        alone = ~self.measuring[codes]
        together = np.flatnonzero(~alone)
        if together.size:
            sums, rare = self._closing(codes[together], units[together])
            alone[together[rare]] = True
            plain = together[~rare]
            if plain.size:
                found = self._end_cells(codes[plain], units[plain], sums[~rare])
                values[plain], levels[plain] = found
        for at in np.flatnonzero(alone).tolist():
            code = int(codes[at])
            run, out = self.run(code), np.zeros(1)
            run.push_units(units[at : at + 1], out)
            values[at], levels[at] = out[0], run.level
            self.put_back(code, run)
        return values, levels

    def _closing(self, codes: IntArray, units: IntArray) -> tuple[IntArray, NDArray[np.bool_]]:
        """Noisy sums of the leaves that end with these rows; and for which a run must take over.

        Nothing is taken yet. Sums of cells with which no leaf ends are 0.
        """
        mixture, tables = self.mixture, self.mixture.tables
        sums, rare = np.zeros(codes.size, dtype=np.int64), np.zeros(codes.size, dtype=np.bool_)
        at = np.flatnonzero(mixture.leaves(codes) != NO_LEAF)
        if not at.size:
            return sums, rare
        codes, units = codes[at], units[at]
        row, leaf, cap = mixture.row[codes], mixture.leaves(codes), mixture.cap[codes]
        self._make(self._noise.missing(codes))
        noise = self._noise.take(codes, leaf)
        sums[at] = noisy = self.raw[codes] + np.minimum(units, cap) + noise
        last = mixture.cell[codes] + 1 == tables.count[row]
        due = last & (self.windows.size[codes] == self.windows.taken[codes] + 1)
        ended = np.flatnonzero(last & (self.windows.size[codes] == 0))
        climbing = self.evidence[codes[ended]] == CLIMBING
        due[ended] = climbing | self._risen(codes[ended], noisy[ended])
        if self._restarts:
            length, leaves = tables.length[row], tables.leaves[row]
            widths = (leaf + 1) * length // leaves - leaf * length // leaves
            watched = cap < self._pipeline.lattice.top
            doubt = tables.deviation[row] / widths
            due |= watched & self._full(codes, ratios(noisy, widths), doubt * SURE, cap)
            ended = np.flatnonzero(last & watched & ~due)
            if ended.size:
                due[ended] = self._end_watched(codes[ended], noisy[ended])
        rare[at] = due
        return sums, rare

    def _full(
        self, codes: IntArray, mean: FloatArray, margin: FloatArray | float, cap: IntArray
    ) -> NDArray[np.bool_]:
        facts = self.home[codes], self.fair[codes], self.mixture.threshold[codes]
        least, full = full_rows(*facts, cap, mean)
        return full & (mean - margin > least)

    def _measured(self, codes: IntArray, noisy: IntArray) -> tuple[FloatArray, FloatArray]:
        """Means of blocks that end with these leaves, and their standard errors."""
        mixture, row = self.mixture, self.mixture.row[codes]
        mean = ratios(mixture.total[codes] + noisy, mixture.tables.length[row])
        return mean, mixture.tables.doubt[row]

    def _risen(self, codes: IntArray, noisy: IntArray) -> NDArray[np.bool_]:
        """Whether blocks that end with these leaves may open a window: the run decides it."""
        mean, doubt = self._measured(codes, noisy)
        limit = RISEN * self.home[codes] * self.mixture.threshold[codes]
        found: NDArray[np.bool_] = mean - MOVED_SURE * doubt > limit
        return found

    def _end_watched(self, codes: IntArray, noisy: IntArray) -> NDArray[np.bool_]:
        """Whether blocks that end with these leaves say that a cap is full, together with others.

        If not, that is noted. Few blocks look full, and those are judged one by one.
        """
        cap = self.mixture.cap[codes]
        mean, doubt = self._measured(codes, noisy)
        full = self._full(codes, mean, 0.0, cap)
        self.excess[codes[~full]] = self.variance[codes[~full]] = 0.0
        sure = np.zeros(codes.size, dtype=np.bool_)
        for at in np.flatnonzero(full).tolist():
            code, watch = int(codes[at]), CapWatch()
            vars(watch).update(self._watch(code))
            sure[at] = watch.block(mean.item(at), doubt.item(at), cap.item(at), 0.0, 0)
            if not sure[at]:
                self.excess[code], self.variance[code] = watch.excess, watch.variance
        return sure

    def _end_cells(
        self, codes: IntArray, units: IntArray, sums: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Cells end with these rows, and that is all that happens."""
        mixture = self.mixture
        self._count(codes, np.ones(codes.size, dtype=np.int64), units)
        leaves = mixture.leaves(codes)
        closing = leaves != NO_LEAF
        added = self.raw[codes] + np.minimum(units, mixture.cap[codes])
        self.raw[codes] = np.where(closing, 0, added)
        mixture.position[codes] += 1
        mixture.filled[codes] += 1
        before, width = mixture.prediction[codes], mixture.width[codes]
        wholes, began = mixture.end_cells(codes, sums)
        self._note_leaves(codes[closing], sums[closing])
        if began.size:
            self._note_blocks(began)
            self._noise.expect(began)
            whole = mixture.position[began] % self._trees.horizon == 0
            self.floor[began[whole]] = 1  # a full cap says nothing about another horizon
        return wholes - (width - 1) * before, mixture.prediction[codes]

    def _make(self, codes: IntArray) -> None:
        """Make the noise of open blocks, tree by tree."""
        mixture = self.mixture
        for same in alike(mixture.row[codes]):
            some = codes[same]
            tree = mixture.open_layout(int(some[0]))
            self._noise.make(some, tree, mixture.chunk[some], mixture.number[some])
