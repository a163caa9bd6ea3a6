"""Rebuild the record of a release from its journal entries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.record.record import Record
from tidegate.record.segments.journal_entry import JournalEntry
from tidegate.record.segments.segment import WARMING, Segment
from tidegate.record.times.time_index import TimeIndex
from tidegate.stages import ENDLESS

if TYPE_CHECKING:
    from tidegate.run.phased_run import Phase
    from tidegate.run.pipeline import Pipeline

# Cells that are kept where blocks are forgotten one by one: 64 horizons of the finest trees, 500 of
# coarse ones. Smoothing over all of them takes some seconds, and 2.5 kB each.
_MOST_CELLS = 1 << 17


class JournalRecorder:
    """Builds the record of a release from its journal entries, in order."""

    def __init__(self, pipeline: Pipeline) -> None:
        method = pipeline.method
        # Values that add up need no record of the whole past: their file can be scanned.
        self._method = method if method.estimator.adds_up else replace(method, history=ENDLESS)
        self._segments: list[Segment] = []
        self.times: TimeIndex | None = None

    def push(self, entry: JournalEntry, phases: Mapping[int, Phase]) -> None:
        """Add an entry; `phases` maps first positions to phases."""
        if entry.times.size and self.times is not None:
            self.times.push(entry.start, entry.times)
        if entry.phase_start not in phases:
            self._await(entry)
            return
        epoch, trace = phases[entry.phase_start].epoch, entry.trace
        ends = phases[entry.phase_start].ends(self._method.step)
        origin, prediction = entry.phase_start, None
        if self._segments and self._segments[-1].epoch == WARMING:
            self._segments.pop()  # it stood in for the values of a warm-up, which are known now
        if not entry.measured:
            epoch, origin, prediction = f"{epoch} blocked", entry.start, entry.first
        if not self._segments or self._segments[-1].epoch != epoch:
            begun = Segment(
                self._method,
                threshold=ends.width,
                below=ends.below,
                origin=origin,
                epoch=epoch,
                prediction=prediction,
            )
            begun.leaves.predict(entry.first)
            self._segments.append(begun)
        self._segments[-1].follow(trace, entry.end)
        if trace.begun.size:
            self._shorten()

    def _await(self, entry: JournalEntry) -> None:
        """Note values of a warm-up whose threshold is not chosen yet."""
        if not self._segments:
            return
        latest = self._segments[-1]
        if latest.origin != entry.phase_start:
            latest = Segment(
                self._method,
                threshold=latest.blocks[-1].layout.cap,
                below=latest.below,
                origin=entry.phase_start,
                epoch=WARMING,
                prediction=entry.first,
            )
            self._segments.append(latest)
        latest.end = entry.end

    def _shorten(self) -> None:
        """Drop the oldest blocks while there are too many cells."""
        spare = sum(segment.cells for segment in self._segments) - _MOST_CELLS
        while spare > 0:
            oldest = self._segments[0]
            if found := oldest.forget_oldest():
                spare -= found
            elif len(self._segments) > 1:
                spare -= oldest.cells
                del self._segments[0]
            else:
                return

    def record(self, guarantee: str) -> Record | None:
        """The record so far. None: nothing was released."""
        return Record(self._segments, guarantee, self.times) if self._segments else None
