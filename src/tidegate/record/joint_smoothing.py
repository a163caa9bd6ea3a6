"""Smooth the records of many keys together, before they are asked one by one."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.record.record import Record
from tidegate.stages import SharedPosterior


def smooth_together(records: Iterable[Record]) -> None:
    """Compute the posteriors of all records at once, where their estimator can.

    Each answers as it would have alone, bit for bit. One by one, most time goes into calls on
    small arrays (decision 0059).
    """
    kinds: dict[type, list[SharedPosterior]] = {}
    for record in records:
        for segment in record.segments:
            posterior = segment.posterior()
            if isinstance(posterior, SharedPosterior):
                kinds.setdefault(type(posterior), []).append(posterior)
    for first, *others in kinds.values():
        first.prepare(others)
