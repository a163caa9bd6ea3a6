"""From released pieces to a record: what a journal holds can be asked like a running release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegate.courses import Course
from tidegate.gaps import Gap
from tidegate.pieces import Piece
from tidegate.queries import Record
from tidegate.segments import Segment

if TYPE_CHECKING:
    from tidegate.pipeline import Pipeline

# Of guided releases, so many of the newest cells are kept: 64 horizons if all trees are as fine as
# can be, 500 if they are coarse. To look back over all takes some seconds, and 2.5 kB each.
_MOST_CELLS = 1 << 17


def begun_segment(
    pipeline: Pipeline,
    *,
    threshold: int,
    origin: int,
    epoch: str,
    first: float = 0.0,
    history: int | None = None,
) -> Segment | Course:
    """The record of a phase of this pipeline that begins; `threshold` in lattice units."""
    step, history = pipeline.lattice.step, history or pipeline.kept_history
    if pipeline.guided:
        guided, forecaster = pipeline.guided_stages
        return Course(
            stage=guided,
            ceiling=pipeline.ceiling,
            threshold=threshold,
            step=step,
            history=history,
            origin=origin,
            epoch=epoch,
            allowance=forecaster.allowance,
        )
    fixed, _ = pipeline.fixed_stages
    return Segment(
        law=fixed.noise_law(threshold),
        block=fixed.block,
        threshold=threshold,
        step=step,
        history=history,
        origin=origin,
        epoch=epoch,
        first=first,
    )


class Recorder:
    """Builds the record of a release from its pieces, in the order in which they were released."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._segments: list[Segment | Course | Gap] = []

    def push(self, piece: Piece, thresholds: Mapping[int, tuple[float, str]]) -> None:
        """One more piece; `thresholds`: threshold and epoch of the phase that begins somewhere."""
        pipeline = self._pipeline
        value, epoch = thresholds[piece.phase_start]
        threshold = round(value / pipeline.lattice.step)
        if piece.blocked is not None:
            epoch = f"{epoch} blocked"
        if not self._segments or self._segments[-1].epoch != epoch:
            self._segments.append(self._begun(piece, threshold, epoch))
        last = self._segments[-1]
        if isinstance(last, Gap):
            last.end = piece.end
        elif isinstance(last, Course):
            last.follow(piece.trace.begun, piece.trace.sums, piece.end)
            if piece.trace.begun.size:
                self._shorten()
        else:
            filled = (piece.end - last.origin) % pipeline.perturber.block
            last.extend(piece.trace.sums, piece.trace.following, filled)

    def _begun(self, piece: Piece, threshold: int, epoch: str) -> Segment | Course | Gap:
        pipeline = self._pipeline
        if piece.blocked is not None:
            return Gap(
                origin=piece.start,
                end=piece.start,
                prediction=piece.blocked,
                threshold=threshold,
                step=pipeline.lattice.step,
                epoch=epoch,
            )
        return begun_segment(
            pipeline,
            threshold=threshold,
            origin=piece.phase_start,
            epoch=epoch,
            first=piece.first,
            history=1 << 62 if pipeline.guided else None,
        )

    def _shorten(self) -> None:
        """Forget the oldest blocks of the oldest course, if there are too many."""
        courses = [segment for segment in self._segments if isinstance(segment, Course)]
        spare = sum(course.cells for course in courses) - _MOST_CELLS
        while spare > 0:
            oldest = self._segments[0]
            if isinstance(oldest, Course) and (found := oldest.forget_oldest()):
                spare -= found
            elif len(self._segments) > 1:
                del self._segments[0]
            else:
                return

    def record(self, guarantee: str) -> Record | None:
        """The record so far; None: nothing was released."""
        return Record(self._segments, guarantee) if self._segments else None
