"""Read a released file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.io.columns import Wanted
from tidegate.io.errors import SourceError
from tidegate.io.kinds import kind_of
from tidegate.io.sources import open_columns
from tidegate.lattice import FloatArray


def read_released(
    path: str | Path,
    format: str | None = None,  # noqa: A002  # as in open_source
    *,
    after: tuple[int, int] | None = None,
) -> Iterator[tuple[int, FloatArray]]:
    """The rows in blocks: the position of the first row, and the values. In bounded memory.

    Args:
        path: the file.
        format: as in `open_source`.
        after: of plain text, only what follows this byte, at which a row begins, and of that only
            rows from this position on.

    Raises:
        SourceError: if it cannot be read, or its positions do not count up.
    """
    wanted = [Wanted("position"), Wanted("value")]
    following: int | None = None
    skipped, least = after or (0, 0)
    with open_columns(path, kind_of(path, format), wanted, skipped=skipped) as source:
        for positions, values in _since(least, source.arrays()):
            if not positions.size:
                continue
            first = int(positions[0]) if np.isfinite(positions[0]) else -1
            whole = first >= 0 and bool((np.diff(positions) == 1).all())
            if not whole or following not in (None, first):
                raise SourceError(None, "its positions do not count up", os.fspath(path))
            following = first + positions.size
            yield first, np.asarray(values, dtype=np.float64)


def _since(least: int, blocks: Iterator[list[NDArray[Any]]]) -> Iterator[list[NDArray[Any]]]:
    """Drop rows before `least`: the first line, read for the columns, may be one."""
    for columns in blocks:
        yield [column[columns[0] >= least] for column in columns] if least else columns
