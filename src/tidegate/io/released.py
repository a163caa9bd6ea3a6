"""Reading back what was released."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tidegate.io.columns import Wanted
from tidegate.io.errors import SourceError
from tidegate.io.kinds import kind_of
from tidegate.io.sources import open_columns
from tidegate.lattice import FloatArray


def read_released(
    path: str | Path,
    format: str | None = None,  # noqa: A002  # as in open_source
) -> Iterator[tuple[int, FloatArray]]:
    """The position of a piece's first row and the piece's values; the pieces follow each other.

    In bounded memory, for every kind of file that `open_sink` writes.

    Raises:
        SourceError: if it cannot be read, or its positions do not count up.
    """
    wanted = [Wanted("position"), Wanted("value")]
    following: int | None = None
    with open_columns(path, kind_of(path, format), wanted) as source:
        for positions, values in source.arrays():
            if not positions.size:
                continue
            first = int(positions[0]) if np.isfinite(positions[0]) else -1
            whole = first >= 0 and bool((np.diff(positions) == 1).all())
            if not whole or following not in (None, first):
                raise SourceError(None, "its positions do not count up", os.fspath(path))
            following = first + positions.size
            yield first, np.asarray(values, dtype=np.float64)
