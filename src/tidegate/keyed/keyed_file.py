"""`KeyedFile`: a released file with many keys; and `open_released`, which opens both kinds."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.clock import Clock
from tidegate.errors import QueryError, SettingError, TidegateError
from tidegate.exact_numbers import said
from tidegate.io import SourceError, read_metadata
from tidegate.io.metadata_files import unfinished_run_note
from tidegate.keyed.answers_from_key_records import KeyedQueries
from tidegate.keyed.file_of_key import FileOfKey
from tidegate.keyed.key_index_file import KeyIndex, read_blocks_to_index
from tidegate.keyed.key_names import key_text
from tidegate.keyed.keyed_facts import KeyFacts, read_key_facts
from tidegate.keyed.keyed_rows import KeyedRows
from tidegate.keyed.keyed_verbs_and_plots import PlottedKeys
from tidegate.keyed.released_means_by_key import ReleasedMeansByKey
from tidegate.record.record import Record
from tidegate.released.released_columns import column_file, columns_beside
from tidegate.released.released_file import ReleasedFile
from tidegate.released.released_means import ReleasedMeans, columns_of_means, open_means
from tidegate.released.scan_into_block_sums import DAMAGED
from tidegate.run.column_budgets import COUNT
from tidegate.run.pipeline import Pipeline
from tidegate.run.snapshot import record_of_snapshot
from tidegate.state_as_bytes import MALFORMED
from tidegate.tables import html
from tidegate.tables.tables_from_numpy import Tabular

_LISTED = 8  # keys in an error
_RECORDS = 4096  # records of keys that are cached after a query


class KeyedFile(KeyedQueries, PlottedKeys, Tabular):
    """A file that `tidegate release --by` wrote. Made by `tidegate.open`.

    Attributes:
        path: the file.
        metadata: its public facts, as written by `tidegate.keyed.keyed_facts`.
        pipeline: the settings that every key was released with.
    """

    def __init__(
        self,
        path: Path,
        metadata: dict[str, Any],
        pipeline: Pipeline,
        facts: dict[str, KeyFacts],
        format: str | None,  # noqa: A002  # as in open_source
    ) -> None:
        self.path, self.metadata, self.pipeline = path, metadata, pipeline
        self._facts, self._format = facts, format
        clock = metadata.get("time")
        self.clock = None if clock is None else Clock.from_plain(clock)
        self._index: KeyIndex | None = None
        self._kept_record = lru_cache(_RECORDS)(self._made)  # posteriors are kept with them

    @classmethod
    def of(
        cls,
        path: str | Path,
        metadata: dict[str, Any],
        format: str | None = None,  # noqa: A002  # as in open_source
    ) -> KeyedFile:
        """The file described by this metadata."""
        try:
            return cls(Path(path), metadata, *read_key_facts(metadata), format)
        except MALFORMED as error:  # metadata is untrusted input
            if isinstance(error, TidegateError):
                raise
            raise SourceError(None, DAMAGED, os.fspath(path)) from None

    @property
    def keys(self) -> list[str]:
        """All keys that have rows."""
        return list(self._facts)

    @property
    def measured(self) -> list[str]:
        """The keys whose warm-up is over, which can be queried."""
        return [name for name, facts in self._facts.items() if facts.phases]

    @property
    def guarantee(self) -> str:
        """The guarantee for every row."""
        return str(self.metadata["guarantee"])

    @property
    def zone(self) -> str | None:
        """The zone of the times, if they have one."""
        return None if self.clock is None else self.clock.zone

    @property
    def note(self) -> str:
        """A note on answers from this file; may be empty."""
        if self.pipeline.estimator.adds_up:
            return ""
        return "These estimates also use later data, so they differ slightly from adding up rows."

    @property
    def unfinished(self) -> str:
        """A note if the run that wrote the file did not end; else empty."""
        return unfinished_run_note(self.metadata)

    def __len__(self) -> int:
        return sum(one.released for one in self._facts.values())

    def __repr__(self) -> str:
        early = "not complete; " if self.unfinished else ""
        return f"<KeyedFile {self.path.name}: {len(self._facts)} keys; {early}{self.guarantee}>"

    def _repr_html_(self) -> str:
        """Public facts, for a notebook."""
        keys = f"{len(self.keys):,}, {len(self.measured):,} of them with answers"
        rows = [("keys", keys), ("rows", f"{len(self):,}"), ("guarantee", self.guarantee)]
        notes = [("note", note) for note in (self.unfinished, self.note) if note]
        return html.facts(self.path.name, [*rows, *notes])

    def record(self, key: Any) -> Record:
        """The record of a key, ready for queries."""
        return self._kept_record(key_text(key))

    def _made(self, name: str) -> Record:
        facts = self._facts.get(name)
        if facts is None:
            there = ", ".join(self.keys[:_LISTED]) + (", …" if len(self.keys) > _LISTED else "")
            raise QueryError(f"key {name!r} has no released rows in this file; it has {there}")
        if not facts.phases:
            raise QueryError(f"key {name!r}: nothing is measured yet, its warm-up is still open")
        try:
            if facts.record is not None:
                record = record_of_snapshot(self.pipeline, facts.record, self.guarantee)
            else:
                record = self._indexed().record(name, self.pipeline, self.guarantee)
            if not record.segments:
                raise ValueError("a record has segments")
            if self.clock is not None:
                record.times = self._indexed().times(name, self.clock)
            record.note = f"{record.note} {self.unfinished}".strip()
        except MALFORMED as error:
            if isinstance(error, TidegateError):
                raise
            raise SourceError(None, DAMAGED, os.fspath(self.path)) from None
        return record

    def of_key(self, key: Any) -> FileOfKey:
        """The rows of one key, with the interface of a file without keys."""
        name = key_text(key)
        self.record(name)  # it says what is wrong with the key
        return FileOfKey.of(self, name, self._facts[name].phases, self._format)

    def _plotted(
        self, key: Any, keys: Iterable[Any] | None, window: int | None, confidence: float, ax: Any
    ) -> Any:
        if key is not None:
            return self.of_key(key).plot(window, confidence, ax)
        heading = f"{self.path.name}. {self.guarantee}"
        return self._drawn(keys, self.pipeline, heading, window, confidence, ax)

    def _indexed(self) -> KeyIndex:
        if self._index is None:
            facts = self.metadata, self.pipeline, self._facts
            self._index = KeyIndex.open(self.path, self._format, *facts)
        return self._index

    def _active(self) -> list[str]:
        return self.measured

    def _reading(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def rows(self) -> KeyedRows:
        """All rows, in memory."""
        names = self.keys
        blocks = list(
            read_blocks_to_index(self.path, self._format, names, self.clock, leveled=True)
        )
        if not blocks:
            none = np.zeros(0, dtype=np.int64)
            return KeyedRows(names, none, none, np.zeros(0), np.zeros(0))
        codes, positions, values, levels, *times = map(np.concatenate, zip(*blocks, strict=True))
        return KeyedRows(
            names, codes, positions, values, levels, times[0] if times else None, self.clock
        )

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns: key, time (if there is one), position, value, level."""
        return self.rows().columns()


def open_released(
    path: str | Path,
    format: str | None = None,  # noqa: A002  # as in open_source
) -> ReleasedFile | KeyedFile | ReleasedMeans | ReleasedMeansByKey:
    """Open a file that `tidegate release` wrote: CSV, JSON Lines or Parquet, compressed or not.

    The first time reads the file once and keeps an index beside it; later ones take a moment. A
    file with many keys (`tidegate release --by`) is a `KeyedFile`: `.query(key=…)`,
    `.table("1d")` by key, `.totals("1d")`. For a run with `--mean`, give the path of its `-o`:
    `ReleasedMeans` answers for count, sum and mean, `ReleasedMeansByKey` by key.

        private = tidegate.open("private.csv")
        print(private.query("2024-01-15", "2024-01-22"))  # or positions: private.query(0, 1000)

    Args:
        path: the file; its metadata lies inside (Parquet) or beside it (`.meta.json`).
        format: csv, jsonl or parquet, if the extension does not tell.

    Raises:
        SourceError: if it cannot be read, has no metadata, or its rows do not count up.
    """
    if not isinstance(path, str | os.PathLike):
        raise SettingError("path", f"must be the path of a released file, not {said(path)}")
    means = open_all_means(path, format)
    return open_one_file(path, format) if means is None else means


def open_all_means(
    path: str | Path,
    format: str | None = None,  # noqa: A002  # as in open_source
) -> ReleasedMeans | ReleasedMeansByKey | None:
    """Open the files of a run with --mean, with or without keys. None: there are none."""
    names = columns_of_means(path, format)
    if names is None:
        return None
    if not isinstance(open_one_file(column_file(path, COUNT), format), KeyedFile):
        return open_means(path, format)
    found = {name: open_one_file(column_file(path, name), format) for name in names}
    files = {name: file for name, file in found.items() if isinstance(file, KeyedFile)}
    return ReleasedMeansByKey(files)


def open_one_file(
    path: str | Path,
    format: str | None = None,  # noqa: A002  # as in open_source
) -> ReleasedFile | KeyedFile:
    """Open one file of one stream, or of many keys: `open_released` without means."""
    if Path(path).is_file():
        metadata = read_metadata(path, format)
        if metadata is not None and isinstance(metadata.get("keys"), dict):
            return KeyedFile.of(path, metadata, format)
    elif columns := columns_beside(path):
        files = ", ".join(columns)
        raise SourceError(
            None,
            f"no such file, but one for each column: {files}. Open one of these, or several with "
            "tidegate.released.open_columns(path, names)",
            str(path),
        )
    return ReleasedFile.open(path, format)
