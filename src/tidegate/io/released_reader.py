"""Read the rows of a released file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.clock import Clock
from tidegate.exact_numbers import LARGEST
from tidegate.io.column_choice import WantedColumn
from tidegate.io.errors import SourceError
from tidegate.io.file_kind_and_row_count import file_kind_of
from tidegate.io.metadata_files import read_metadata
from tidegate.io.open_source import open_columns
from tidegate.lattice import FloatArray, IntArray
from tidegate.record.rows_and_levels import Rows
from tidegate.timestamps import read_times


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
    for first, (values,) in _read_released(path, format, ["value"], after):
        yield first, values


def read_rows(
    path: str | Path,
    format: str | None = None,  # noqa: A002  # as in open_source
) -> Iterator[Rows]:
    """Read rows with levels, and with times if the file's metadata says that it has them.

    Raises:
        SettingError: it has no levels.
    """
    return read_rows_by(clock_of(path, format), path, format)


def read_rows_by(
    clock: Clock | None,
    path: str | Path,
    format: str | None = None,  # noqa: A002  # as in open_source
) -> Iterator[Rows]:
    """Read rows with the given clock: the metadata may be missing or damaged."""
    names = ["value", "level"] if clock is None else ["value", "level", "time"]
    for first, (values, levels, *times) in _read_released(path, format, names, None, clock):
        yield Rows(first, values, levels, times[0].astype(np.int64) if times else None)


def clock_of(path: str | Path, format: str | None = None) -> Clock | None:  # noqa: A002  # as above
    """The clock of a released file from its metadata. None: it has no times."""
    facts = (read_metadata(path, format) or {}).get("time")
    return None if facts is None else Clock.from_plain(facts)


def read_released_times(
    path: str | Path,
    format: str | None = None,  # noqa: A002  # as in open_source
) -> Iterator[tuple[int, IntArray]]:
    """The times of a released file that has them, in blocks: position of the first, and times."""
    clock = clock_of(path, format)
    for first, (times,) in _read_released(path, format, ["time"], None, clock):
        yield first, times.astype(np.int64)


def _read_released(
    path: str | Path,
    format: str | None,  # noqa: A002  # as in open_source
    names: list[str],
    after: tuple[int, int] | None,
    clock: Clock | None = None,
) -> Iterator[tuple[int, list[NDArray[Any]]]]:
    wanted = [
        WantedColumn("position"),
        *(WantedColumn(name, numeric=name != "time", time=name == "time") for name in names),
    ]
    if clock is not None and file_kind_of(path, format).format == "parquet":
        clock = Clock(clock.zone)  # there they are times, never numbers
    following: int | None = None
    skipped, least = after or (0, 0)
    with open_columns(path, file_kind_of(path, format), wanted, skipped=skipped) as source:
        for positions, *columns in _released_since(least, source.arrays()):
            if not positions.size:
                continue
            counted = whole_released_positions(positions, os.fspath(path))
            first = int(counted[0])
            if (np.diff(counted) != 1).any() or following not in (None, first):
                raise SourceError(None, "its positions do not count up", os.fspath(path))
            following = first + counted.size
            yield (
                first,
                [
                    read_times(column, position=first, clock=clock).ticks
                    if what.time
                    else np.asarray(column, dtype=np.float64)
                    for column, what in zip(columns, wanted[1:], strict=True)
                ],
            )


def whole_released_positions(positions: NDArray[Any], name: str) -> IntArray:
    """A column of positions as integers; refuses what a damaged file may hold.

    Raises:
        SourceError: one of them is missing, infinite, negative, too large or no whole number.
    """
    numbers = positions.astype(np.float64)
    good = (numbers >= 0) & (numbers < LARGEST) & (np.floor(numbers) == numbers)
    if not good.all():  # a NaN compares false
        raise SourceError(None, "its positions are not whole numbers from 0 on", name)
    return positions.astype(np.int64)


def _released_since(
    least: int, blocks: Iterator[list[NDArray[Any]]]
) -> Iterator[list[NDArray[Any]]]:
    """Drop rows before `least`: the first line, read for its columns, may be a row."""
    for columns in blocks:
        yield [column[columns[0] >= least] for column in columns] if least else columns
