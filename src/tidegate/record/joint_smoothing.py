"""Smooth the records of many keys together, before each is queried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidegate.record.record import Record
from tidegate.record.segments.segment import MOST_KEPT, Segment
from tidegate.stages import NO_AIM, Aim, Posterior, Ranges


def smooth_together(records: Sequence[Record], ranges: Sequence[Ranges] = ()) -> None:
    """Compute the posteriors of all records together, where their estimator supports it.

    Each answers as it would have alone, bit for bit. One by one, most time goes into calls on
    small arrays (decision 0059). `ranges`: the starts and ends that each record will be asked for
    next, all of which it must know; their sums are then computed at once, too (decision 0103).
    """
    kinds: dict[type, list[Posterior]] = {}
    asked: dict[type, list[_AskedOfSegment]] = {}
    for at, record in enumerate(records):
        aims = record.aims(None) if ranges else [NO_AIM] * len(record.segments)
        for segment, aim in zip(record.segments, aims, strict=True):
            posterior = segment.posterior()
            if ranges:
                one = _AskedOfSegment(segment, posterior, segment.part_of(*ranges[at])[1:], aim)
                if one.answered_before:
                    continue
                asked.setdefault(type(posterior), []).append(one)
            kinds.setdefault(type(posterior), []).append(posterior)
    for kind, (first, *others) in kinds.items():
        first.prepare(others)
        _answer_jointly(asked.get(kind, []))


class _AskedOfSegment(NamedTuple):
    """A question that a segment will be asked."""

    segment: Segment
    posterior: Posterior
    ranges: Ranges
    aim: Aim

    @property
    def question(self) -> tuple[bytes, bytes, Aim]:
        """The key of the question in the segment's cache."""
        starts, ends = self.ranges
        return starts.tobytes(), ends.tobytes(), self.aim

    @property
    def answered_before(self) -> bool:
        """Whether the segment's cache holds the answer."""
        last = self.segment.answered
        return last is not None and last[0] is self.posterior and last[1] == self.question


def _answer_jointly(asked: Sequence[_AskedOfSegment]) -> None:
    """Compute all posteriors of one class together, and store each in its segment."""
    # Answers too large for a segment's cache are computed on demand.
    some = [one for one in asked if 0 < one.ranges[0].size <= MOST_KEPT]
    if not some:
        return
    for one in some:
        if one.aim is not NO_AIM:
            one.posterior.aim_at(one.aim)
    first, *others = (one.posterior for one in some)
    found = first.parts_of_each(others, [one.ranges for one in some])
    for one, parts in zip(some, found, strict=True):
        one.segment.answered = one.posterior, one.question, parts
