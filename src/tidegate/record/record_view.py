"""A read-only view of a record as of now, for other threads while more is released.

Making one costs a few microseconds and copies no sums: see `LeafBuffer.view`. What is found while
answering (the posterior of a segment, what thresholds tell of each other) is kept with the view, so
one that is asked again answers at once.
"""

from __future__ import annotations

from collections import deque
from copy import copy

from tidegate.record.record import Record
from tidegate.record.segments.segment import Segment


class RecordView(Record):
    """Answers as the record did when the view was made. Threads may share it, one at a time."""

    def __init__(self, record: Record) -> None:
        times = None if record.times is None else record.times.view()
        *closed, last = record.segments
        segments = [*(_closed_view(one) for one in closed), _segment_view(last)]
        super().__init__(segments, record.guarantee, times)


def _closed_view(segment: Segment) -> Segment:
    """The view of a segment that is complete; cached until the segment forgets values.

    Smoothing it again would give the same.
    """
    kept = segment.closed_view
    if kept is None or (kept.start, kept.end) != (segment.start, segment.end):
        kept = segment.closed_view = _segment_view(segment)
    return kept


def _segment_view(segment: Segment) -> Segment:
    buffer = segment.leaves.view()  # which first takes in what is pending
    found = copy(segment)
    found.blocks, found._buffer = deque(segment.blocks), buffer
    found._spans = None if segment.spans is None else segment.spans.view()
    if found._spans is not None:
        found._buffer = found._spans
    # These caches refer to the original's buffer.
    found._known = found.answered = found.known_unseen = found.aims = found.closed_view = None
    return found
