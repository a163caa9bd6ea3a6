"""Batches of a file, put together: every push costs each of its keys something."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidegate.io import Batch, Source
from tidegate.timestamps import Times

_ROWS = 1 << 19  # that are pushed together, if they come from a file


def gathered(source: Source) -> Iterator[Batch]:
    """The batches of a source; those of a file in larger pieces, since nobody waits for them.

    What is released does not depend on it. Rows before a bad one come before its error.
    """
    if source.fraction() is None:  # a pipe, or a file that grows: rows are released as they come
        yield from source.batches()
        return
    held: list[Batch] = []
    try:
        for batch in source.batches():
            held.append(batch)
            if sum(map(len, held)) >= _ROWS:
                ready, held = held, []
                yield _joined(ready)
    except Exception:
        if held:
            yield _joined(held)
        raise
    if held:
        yield _joined(held)


def _joined(batches: list[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    values = np.concatenate([batch.values for batch in batches])
    users = [batch.users for batch in batches if batch.users is not None]
    times = [batch.times for batch in batches if batch.times is not None]
    return Batch(
        values,
        np.concatenate(users) if users else None,
        times=Times(np.concatenate([one.ticks for one in times]), times[0].clock)
        if times
        else None,
    )
