"""From released pieces to a record: what a journal holds can be asked like a running release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.record.entry import Piece
from tidegate.record.record import Record
from tidegate.record.segment import WARMING, Segment
from tidegate.stages import ENDLESS

if TYPE_CHECKING:
    from tidegate.run.pipeline import Pipeline

# Where blocks are forgotten one by one, so many of the newest cells are kept: 64 horizons if all
# trees are as fine as can be, 500 if they are coarse. To look back over all takes some seconds, and
# 2.5 kB each.
_MOST_CELLS = 1 << 17


class Recorder:
    """Builds the record of a release from its pieces, in the order in which they were released."""

    def __init__(self, pipeline: Pipeline) -> None:
        method = pipeline.method
        # A file of values that add up needs no record of its whole past: it can be scanned.
        self._method = method if method.estimator.adds_up else replace(method, history=ENDLESS)
        self._segments: list[Segment] = []

    def push(self, piece: Piece, thresholds: Mapping[int, tuple[float, str]]) -> None:
        """One more piece; `thresholds`: threshold and epoch of the phase that begins somewhere."""
        if piece.phase_start not in thresholds:
            self._await(piece)
            return
        value, epoch = thresholds[piece.phase_start]
        threshold, trace = round(value / self._method.step), piece.trace
        origin, prediction = piece.phase_start, None
        if self._segments and self._segments[-1].epoch == WARMING:
            self._segments.pop()  # what stood for the values of a warm-up, which are known now
        if not piece.measured:
            epoch, origin, prediction = f"{epoch} blocked", piece.start, piece.first
        if not self._segments or self._segments[-1].epoch != epoch:
            begun = Segment(
                self._method,
                threshold=threshold,
                origin=origin,
                epoch=epoch,
                prediction=prediction,
            )
            begun.leaves.predict(piece.first)
            self._segments.append(begun)
        self._segments[-1].follow(trace.begun, trace.sums, trace.predictions, piece.end)
        if trace.begun.size:
            self._shorten()

    def _await(self, piece: Piece) -> None:
        """Values of a warm-up whose threshold is not chosen yet; of the first nothing is known."""
        if not self._segments:
            return
        latest = self._segments[-1]
        if latest.origin != piece.phase_start:
            latest = Segment(
                self._method,
                threshold=latest.blocks[-1].layout.cap,
                origin=piece.phase_start,
                epoch=WARMING,
                prediction=piece.first,
            )
            self._segments.append(latest)
        latest.end = piece.end

    def _shorten(self) -> None:
        """Forget the oldest blocks, if there are too many cells."""
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
        """The record so far; None: nothing was released."""
        return Record(self._segments, guarantee) if self._segments else None
