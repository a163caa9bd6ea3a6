"""The index beside a released file with many keys (`.<name>.tidegate-keys`).

Running block sums and times of every key, as in the indexes of a file with one stream; the first
query reads the file once. Everything in it comes from the released file, so it may be deleted.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tidegate.clock import Clock
from tidegate.io import SourceError
from tidegate.io.column_choice import WantedColumn
from tidegate.io.file_kind_and_row_count import file_kind_of
from tidegate.io.open_source import open_columns
from tidegate.io.released_reader import whole_released_positions
from tidegate.keyed.key_names import KeyNames
from tidegate.keyed.keyed_facts import KeyFacts
from tidegate.keyed.keyed_rows import KeyedRowGroups
from tidegate.lattice import FloatArray
from tidegate.record.record import Record
from tidegate.record.times.time_index import TimeIndex, TimeKnots
from tidegate.released.scan_into_block_sums import scan_block_sums, scanned_spans
from tidegate.released.sums_index_file import SumsIndex, built_sums_index
from tidegate.run.pipeline import Pipeline
from tidegate.timestamps import read_times


class KeyIndex:
    """Block sums and times of all keys."""

    def __init__(self, index: SumsIndex, names: list[str]) -> None:
        self._index = index
        self._places = {name: at for at, name in enumerate(names)}

    @classmethod
    def open(
        cls,
        path: Path,
        format: str | None,  # noqa: A002  # as in open_source
        metadata: Mapping[str, Any],
        pipeline: Pipeline,
        facts: Mapping[str, KeyFacts],
    ) -> KeyIndex:
        """Read the index; or the file itself if no index matches."""
        place = Path(os.path.realpath(path))
        found = place.stat()
        text = json.dumps(metadata, sort_keys=True).encode()
        version = {
            "version": {"size": found.st_size, "mtime_ns": found.st_mtime_ns},
            "metadata": {"digest": hashlib.sha256(text).hexdigest()},
        }
        index_path = place.with_name(f".{place.name}.tidegate-keys")
        index = SumsIndex.read(index_path)
        if index is None or {name: index.footer.get(name) for name in version} != version:
            clock = None if "time" not in metadata else Clock.from_plain(metadata["time"])

            def scanned(out: IO[bytes]) -> dict[str, Any]:
                return _scanned_key_index(out, path, format, pipeline, facts, clock)

            index = built_sums_index(index_path, found.st_mode, version, scanned)
        return cls(index, list(facts))

    def record(self, name: str, pipeline: Pipeline, guarantee: str) -> Record:
        """The record of a key."""
        at, parts = self._index.footer["keys"][self._places[name]]
        return self._index.record(pipeline, guarantee, parts, at)

    def times(self, name: str, clock: Clock | None) -> TimeIndex | None:
        """The time index of a key; None: rows have no times."""
        if clock is None:
            return None
        at, *counts = self._index.footer["times"][self._places[name]]
        found = []
        for count in counts:  # knots, then late rows
            both = self._index.whole_numbers(at, 2 * count)
            found.append(TimeKnots(both[:count], both[count:]))
            at += both.nbytes
        return TimeIndex(clock, *found)


def _scanned_key_index(
    out: IO[bytes],
    path: Path,
    format: str | None,  # noqa: A002  # as in open_source
    pipeline: Pipeline,
    facts: Mapping[str, KeyFacts],
    clock: Clock | None,
) -> dict[str, Any]:
    """Write the sums and the times of each key; return facts about them.

    Rows of keys come in any order, so values are collected first: 8 bytes a row.
    """
    adds_up = pipeline.estimator.adds_up
    names = list(facts)
    values: list[list[FloatArray]] = [[] for _ in names]
    times = [TimeIndex(clock or Clock(None)) for _ in names]
    following = np.array([one.phases[0].start if one.phases else 0 for one in facts.values()])
    for codes, positions, numbers, *ticks in read_blocks_to_index(path, format, names, clock):
        for code, rows in KeyedRowGroups(codes).parts():
            first = int(following[code])
            if not np.array_equal(positions[rows], np.arange(first, first + rows.size)):
                raise SourceError(None, "positions of a key do not count up", os.fspath(path))
            following[code] += rows.size
            if adds_up:
                found = numbers[rows]
                if not np.isfinite(found).all():
                    raise SourceError(None, "a value of a key is missing", os.fspath(path))
                values[code].append(found)
            if ticks:
                times[code].push(first, ticks[0][rows])
    if following.tolist() != [one.released for one in facts.values()]:
        raise SourceError(None, "rows of a key are missing, or too many", os.fspath(path))
    keys: list[Any] = []
    for one, pieces in zip(facts.values(), values, strict=True):
        at = out.tell()
        segments: list[dict[str, Any]] = []
        if adds_up and one.phases:
            parts = scanned_spans(pipeline, one.phases, os.fspath(path))
            segments = scan_block_sums(out, pipeline, parts, pieces)["segments"]
        keys.append([at, segments])
    knots = []
    for index in times if clock is not None else []:
        knots.append([out.tell(), index.knots.places.size, index.late.places.size])
        out.writelines(part.astype("<i8").tobytes() for part in (*index.knots, *index.late))
    return {"segments": [], "keys": keys, "times": knots}


def read_blocks_to_index(
    path: Path,
    format: str | None,  # noqa: A002  # as in open_source
    names: list[str],
    clock: Clock | None,
    *,
    leveled: bool = False,
) -> Iterator[list[NDArray[Any]]]:
    """Codes, positions, values, and levels and times if wanted, one block at a time."""
    known, row = KeyNames(names), 0
    wanted = [WantedColumn("position"), WantedColumn("value"), WantedColumn("key", numeric=False)]
    if leveled:
        wanted.insert(2, WantedColumn("level"))
    if clock is not None:
        wanted.append(WantedColumn("time", numeric=False, time=True))
        if file_kind_of(path, format).format == "parquet":
            clock = Clock(clock.zone)  # there they are times, never numbers
    with open_columns(path, file_kind_of(path, format), wanted) as source:
        for positions, *columns in source.arrays():
            times = []
            if clock is not None:
                times = [read_times(columns.pop(), position=row, clock=clock).ticks]
            codes = known.codes(columns.pop(), positions.size, row)
            known.add_new()
            if codes.size and codes.min() < 0:
                raise SourceError(None, "has a key that its metadata lacks", os.fspath(path))
            row += positions.size
            yield [
                codes,
                whole_released_positions(positions, os.fspath(path)),
                *map(np.asarray, columns),
                *times,
            ]
