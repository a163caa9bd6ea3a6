"""Smooth the records of many keys together, before they are asked one by one."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.record.record import Record
from tidegate.record.segments.segment import MOST_KEPT, Segment
from tidegate.stages import NO_AIM, Aim, Posterior, Ranges


def smooth_together(records: Sequence[Record], ranges: Sequence[Ranges] = ()) -> None:
    """Compute the posteriors of all records at once, where their estimator can.

    Each answers as it would have alone, bit for bit. One by one, most time goes into calls on
    small arrays (decision 0059). `ranges`: the starts and ends that each record will be asked for
    next, all of which it must know; their sums are then computed at once, too (decision 0103).
    """
    kinds: dict[type, list[Posterior]] = {}
    asked: dict[type, list[_Asked]] = {}
    for at, record in enumerate(records):
        aims = record.aims(None) if ranges else [NO_AIM] * len(record.segments)
        for segment, aim in zip(record.segments, aims, strict=True):
            posterior = segment.posterior()
            if ranges:
                part = segment.part_of(*ranges[at])[1:]
                if segment.parts_before(posterior, *part, aim) is not None:
                    continue
                if part[0].size <= MOST_KEPT:  # others would be forgotten before they are used
                    asked.setdefault(type(posterior), []).append((segment, aim, part))
            kinds.setdefault(type(posterior), []).append(posterior)
    for kind, (first, *others) in kinds.items():
        first.prepare(others)
        _keep_parts(asked.get(kind, []))


_Asked = tuple[Segment, Aim, Ranges]


def _keep_parts(asked: Sequence[_Asked]) -> None:
    """Ask all posteriors of one kind at once; each segment keeps what it will be asked for."""
    some = [one for one in asked if one[2][0].size]
    if not some:
        return
    first, *others = (segment.posterior() for segment, _, _ in some)
    found = first.parts_of_each(others, [part for _, _, part in some])
    for (segment, aim, part), parts in zip(some, found, strict=True):
        segment.keep_parts(segment.posterior(), *part, aim, parts)
