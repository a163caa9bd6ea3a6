"""The index of times beside a released file (`.<name>.tidegate-times`).

The first query by time reads the column of times once. What it keeps are the knots of
`tidegate.record.times.times_index_of_file`: two for a regular stream of any length, and read in
place; then the late rows.
Everything in it comes from the released file, so it may be deleted.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tidegate import _atomic_files
from tidegate.clock import Clock
from tidegate.errors import SettingError
from tidegate.io.errors import SourceError
from tidegate.io.released_reader import read_released_times
from tidegate.lattice import IntArray
from tidegate.record.times.time_index import TimeIndex, TimeKnots

_MARK = b"TIDEGATE TIMES 2"
_HEAD = 4096  # bytes: the mark and the facts, filled up with spaces


def times_index_of_file(
    path: str | Path,
    format: str | None,  # noqa: A002  # as in open_source
    metadata: Mapping[str, Any],
    version: Mapping[str, int],
) -> TimeIndex | None:
    """The time index of a file. None: the file has no times."""
    if "time" not in metadata:
        return None
    try:
        clock = Clock.from_plain(metadata["time"])
    except (KeyError, TypeError, SettingError):
        problem = "its metadata is damaged, or is not that of a release"
        raise SourceError(None, problem, os.fspath(path)) from None
    place = Path(os.path.realpath(path))
    kept = place.with_name(f".{place.name}.tidegate-times")
    facts = {"version": dict(version), "clock": clock.plain()}
    found = _read_times_index(kept, facts)
    if found is None:
        index = TimeIndex(clock)
        for first, ticks in read_released_times(path, format):
            index.push(first, ticks)
        found = index.knots, index.late
        _write_times_index(kept, place, facts, found)
    return TimeIndex(clock, *found)


def _read_times_index(path: Path, facts: Mapping[str, Any]) -> tuple[TimeKnots, TimeKnots] | None:
    """The stored knots and late rows, if they belong to this file. None: the file must be read."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            size = os.fstat(file.fileno()).st_size - _HEAD
        if not head.startswith(_MARK) or size < 0 or size % 16:
            return None
        stored = json.loads(head.removeprefix(_MARK))
        knots = stored["knots"]
        expected = {**facts, "knots": knots, "late": size // 16 - knots}
        if stored != expected or type(knots) is not int or not 0 <= knots <= size // 16:
            return None
        numbers: IntArray = np.zeros(0, dtype=np.int64)
        if size:
            numbers = np.memmap(path, dtype=np.int64, mode="r", offset=_HEAD)
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None
    return TimeKnots(*np.split(numbers[: 2 * knots], 2)), TimeKnots(
        *np.split(numbers[2 * knots :], 2)
    )


def _write_times_index(
    path: Path, released: Path, facts: Mapping[str, Any], found: tuple[TimeKnots, TimeKnots]
) -> None:
    """Store both beside the file; if that is impossible, the next query reads it again."""
    sizes = {"knots": found[0].places.size, "late": found[1].places.size}
    head = _MARK + json.dumps({**facts, **sizes}).encode()
    if len(head) > _HEAD:
        return
    columns = (column for pair in found for column in pair)
    data = b"".join([head.ljust(_HEAD), *(column.astype("<i8").tobytes() for column in columns)])
    with contextlib.suppress(OSError):
        # Who may read the one may read the other.
        _atomic_files.replace_file(path, data, released.stat().st_mode & 0o666)
