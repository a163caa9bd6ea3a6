"""Keys of a refined release in arrays: inside blocks and warm-ups they advance together.

What is rare goes through a `RefinementRun` of the one key: the last value of a leaf that outgrows
its cap, of a block of a climb, and of a warm-up or a window, unless those of several keys end
together (`refined_choices`). The run is made from the columns as they are before that
value, takes it, and is put back. So the rules about restarts stand in one place.

Privacy: noise, scales, caps and choices are those of `RefinementRun`, bit for bit (a law test
compares them), so its argument holds for every key. Values are capped next to the noise (`_end`),
at the cap of the tree that was chosen before the block began, and where values below 0 count, from
the lower end of their key on (`_raised`). Whether a leaf outgrew its cap is
decided from its noisy sum, which is then the one that the run measures: the noise is the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.many_streams.layout_tables import NO_LEAF
from tidegate.estimate.mixture.many_streams.units_and_leaves_of_many_streams import (
    alike_in_many_streams,
    ratios_of_streams,
)
from tidegate.estimate.mixture.outgrown_cap import (
    SURE,
    FloorWatch,
)
from tidegate.keyed.keyed_rows import KeyedReleased, KeyedRowGroups, KeyedRowRuns
from tidegate.keyed.outgrown_ends import OutgrownEnds
from tidegate.lattice import FloatArray, IntArray
from tidegate.run.first_choice_and_climbs import CLIMBING
from tidegate.run.two_sided_caps import raised_values

_MADE_AHEAD = 8  # rows of a push for each block of noise that is made ahead
# Keys from which on choices are made together; and up to which, for less memory.
_TOGETHER, _AT_ONCE = 4, 1 << 14
# What happens with the last row of a cell, beside that: nothing, a window ends, or one opens; or a
# run of the one key must say.
_PLAIN, _CHOOSING, _OPENING, _ALONE = range(4)


class RefinedColumns(OutgrownEnds):
    """All keys in arrays, indexed by code. A subclass keeps the past of each key (`_past`)."""

    # -- rows ------------------------------------------------------------------------------------

    def push(self, groups: KeyedRowGroups, units: IntArray) -> KeyedReleased:
        """Release rows in lattice units; values and levels are in the unit of the data.

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
        # Rows that publish one number: where they begin, their value and their level.
        runs = [(positions[:0], np.zeros(0), np.zeros(0))]
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
                prediction = mixture.prediction[keys[some]]
                runs.append((starts[some], prediction, prediction))
            if ends.any():
                last = (starts + taken - 1)[ends]
                runs.append((last, *self._end(keys[ends], ordered[last])))
            going = left > taken
            starts = (starts + taken)[going]
            keys, left = keys[going], (left - taken)[going]
        waiting = self._noise.waiting(units.size // _MADE_AHEAD + 1)
        self._make(waiting[self.measuring[waiting]])
        every = np.ones(units.size, dtype=np.bool_)
        begins, values, levels = (np.concatenate(one) for one in zip(*runs, strict=True))
        order = np.argsort(begins)
        begins, values, levels = begins[order], values[order], levels[order]
        values *= self._pipeline.lattice.step
        self._pipeline.lattice.bounded(levels)
        if once:
            return KeyedReleased(every, positions, values, levels)
        lengths = np.diff(begins, append=units.size)
        of_row = groups.as_given(np.repeat(np.arange(begins.size, dtype=np.int32), lengths))
        found = KeyedRowRuns(of_row, groups.order[begins])
        return KeyedReleased(
            every, groups.as_given(positions), values[of_row], levels[of_row], found
        )

    def _inside(self, codes: IntArray, counts: IntArray, units: IntArray) -> None:
        """Release rows that end neither a cell nor a warm-up, key by key."""
        mixture, measuring = self.mixture, self.measuring[codes]
        mixture.position[codes] += counts
        if not measuring.all():
            rows = np.repeat(measuring, counts)
            self.held.add(codes[~measuring], counts[~measuring], units[~rows])
            codes, counts, units = codes[measuring], counts[measuring], units[rows]
        if not codes.size:
            return
        mixture.filled[codes] += counts
        self._count(codes, counts, units)
        if codes.size == units.size:
            self.raw[codes] += np.minimum(self._raised(codes, units), mixture.cap[codes])
        else:
            if self.lower is not None:
                units = self._raised(np.repeat(codes, counts), units)
            capped = np.minimum(units, np.repeat(mixture.cap[codes], counts))
            self.raw[codes] += np.add.reduceat(capped, np.cumsum(counts) - counts)

    def _raised(self, codes: IntArray, units: IntArray) -> IntArray:
        """Values counted from the lower cap of their key; values under it become 0."""
        return units if self.lower is None else raised_values(units, self.mixture.below[codes])

    def _count(self, codes: IntArray, counts: IntArray, units: IntArray) -> None:
        """Count values of open windows for the next choice of θ."""
        opened = self.windows.size[codes] > 0
        if opened.all():
            self.windows.add(codes, counts, units)
        elif opened.any():
            rows = opened if codes.size == units.size else np.repeat(opened, counts)
            self.windows.add(codes[opened], counts[opened], units[rows])

    # -- ends ------------------------------------------------------------------------------------

    def _end(self, codes: IntArray, units: IntArray) -> tuple[FloatArray, FloatArray]:
        """Release the last row of a cell or warm-up for each key: values, and levels."""
        values, levels = np.empty(codes.size), np.empty(codes.size)
        alone = ~self.measuring[codes]
        together = np.flatnonzero(~alone)
        for at in self._warm_ups_alike(codes, np.flatnonzero(alone)):
            values[at], levels[at] = self.end_warm_ups(codes[at], units[at])
            alone[at] = False
        if together.size:
            sums, ends = self._closing(codes[together], units[together])
            alone[together[ends == _ALONE]] = True
            for kind in (_PLAIN, _CHOOSING, _OPENING):
                some = ends == kind
                at = together[some]
                if at.size:
                    facts = codes[at], units[at], sums[some]
                    values[at], levels[at] = self._end_cells(*facts, kind)
        for row in np.flatnonzero(alone).tolist():
            code = int(codes[row])
            run, out = self.run(code), np.zeros(1)
            run.push_units(units[row : row + 1], out)
            values[row], levels[row] = out[0], run.level
            self.put_back(code, run)
        return values, levels

    def _warm_ups_alike(self, codes: IntArray, ending: IntArray) -> Iterator[IntArray]:
        """End warm-ups together, in pieces."""
        some = codes[ending]
        if self.lower is not None:  # both ends are chosen key by key
            return
        for same in alike_in_many_streams(2 * self.held.size[some] + (self.phase[some] > 0)):
            if same.size >= _TOGETHER:
                yield from np.array_split(ending[same], -(-same.size // _AT_ONCE))

    def _closing(self, codes: IntArray, units: IntArray) -> tuple[IntArray, NDArray[np.int8]]:
        """The noisy sums of the leaves that end with these rows; and which rows need more work.

        Nothing is taken yet. Sums of cells with which no leaf ends are 0.
        """
        mixture, tables = self.mixture, self.mixture.tables
        sums, ends = np.zeros(codes.size, dtype=np.int64), np.full(codes.size, _PLAIN, np.int8)
        at = np.flatnonzero(mixture.leaves(codes) != NO_LEAF)
        if not at.size:
            return sums, ends
        codes, units = codes[at], units[at]
        row, leaf, cap = mixture.row[codes], mixture.leaves(codes), mixture.cap[codes]
        self._make(self._noise.missing(codes))
        noise = self._noise.take(codes, leaf)
        noisy = self.raw[codes] + np.minimum(self._raised(codes, units), cap) + noise
        widths = tables.leaf_widths_of(row, leaf)
        below = mixture.below[codes]
        sums[at] = noisy = noisy - below * widths  # counted from 0 again
        last = mixture.cell[codes] + 1 == tables.count[row]
        full = last & (self.windows.size[codes] == self.windows.taken[codes] + 1)
        several = np.count_nonzero(full) >= _TOGETHER and self.lower is None
        due = np.zeros(at.size, dtype=np.bool_) if several else full
        opening = np.zeros(at.size, dtype=np.bool_)
        looking, after = self.looking(codes)
        due |= full & (looking | after)
        ended = np.flatnonzero(last & ~full & ((self.windows.size[codes] == 0) | looking))
        measured = self._measured(codes[ended], noisy[ended])
        if self.lower is None:
            opening[ended] = self.opens_window(codes[ended], *measured)
            due |= opening & looking
        else:
            due[ended] |= self._has_moved(self.lower, codes[ended], *measured)
        due[ended] |= self.evidence[codes[ended]] == CLIMBING
        if self._restarts:
            watched = cap - below < self._pipeline.lattice.top
            doubt, means = tables.deviation[row] / widths, ratios_of_streams(noisy, widths)
            due |= watched & self._full(codes, means, doubt * SURE, cap - below)
            if self.lower is not None:
                due |= self._fallen_below(self.lower, codes, means, doubt * FloorWatch.sure)
                watched = last
            ended = np.flatnonzero(last & watched & ~due)
            if ended.size and self.lower is not None:
                due[ended] = self._end_two_sided(self.lower, codes[ended], noisy[ended])
            elif ended.size:
                due[ended] = self._end_watched(codes[ended], noisy[ended])
        kinds = np.where(full, _CHOOSING, np.where(opening, _OPENING, _PLAIN))
        ends[at] = np.where(due, _ALONE, kinds)
        return sums, ends

    def _end_cells(
        self, codes: IntArray, units: IntArray, sums: IntArray, kind: int
    ) -> tuple[FloatArray, FloatArray]:
        """End cells with these rows, and windows that end or open with them."""
        mixture = self.mixture
        self._count(codes, np.ones(codes.size, dtype=np.int64), units)
        leaves = mixture.leaves(codes)
        closing = leaves != NO_LEAF
        added = self.raw[codes] + np.minimum(self._raised(codes, units), mixture.cap[codes])
        self.raw[codes] = np.where(closing, 0, added)
        mixture.position[codes] += 1
        mixture.filled[codes] += 1
        before, width = mixture.prediction[codes], mixture.width[codes]
        if kind == _PLAIN:
            wholes, began = mixture.end_cells(codes, sums)
        else:
            wholes, began = mixture.publish_cells(codes, sums)[0], codes
        self._note_leaves(codes[closing], sums[closing])
        whole = mixture.position[began] % self._trees.horizon == 0
        self.floor[began[whole]] = 1  # a full cap says nothing about another horizon
        self.watch_highest[began[whole]] = 0
        if self.lower is not None:
            self.lower.columns["least_below"][began[whole]] = 1
        if kind == _PLAIN:
            self._note_blocks(began)
            self._noise.expect(began)
        else:
            follow = self.choose_again if kind == _CHOOSING else self.open_windows
            for part in np.array_split(codes, -(-codes.size // _AT_ONCE)):
                follow(part)
        return wholes - (width - 1) * before, mixture.prediction[codes]

    def _make(self, codes: IntArray) -> None:
        """Make the noise of open blocks, tree by tree."""
        mixture = self.mixture
        for same in alike_in_many_streams(mixture.row[codes]):
            some = codes[same]
            tree = mixture.open_layout(int(some[0]))
            self._noise.make(some, tree, mixture.chunk[some], mixture.number[some])
