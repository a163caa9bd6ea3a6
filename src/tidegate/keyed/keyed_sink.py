"""The file that rows of many keys are written to: CSV, JSON Lines or Parquet.

A row is a key, a time if there are times, a position, a value and a level. Numbers are written as
in files of one stream (`io.released_row_text`); bytes do not depend on how rows were split into
calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tidegate import _atomic_files
from tidegate._context_managers import Completed
from tidegate.clock import Clock
from tidegate.errors import SettingError
from tidegate.io.errors import sink_error
from tidegate.io.file_kind_and_row_count import FileKind, file_kind_of, is_standard
from tidegate.io.metadata_files import (
    KEY,
    encode_metadata,
    metadata_sidecar,
    write_encoded_metadata,
    write_metadata_sidecar,
)
from tidegate.io.output_file_or_pipe import OutputBytes, PackedOutput
from tidegate.io.parquet_sink import ParquetTarget, refused_parquet_writes
from tidegate.io.released_row_text import released_csv_header
from tidegate.keyed.keyed_row_text import KeyedRowText, names_of_keyed_row
from tidegate.keyed.keyed_rows import KeyedRows
from tidegate.tables.optional_libraries import require_library_for_files


def open_keyed_sink(
    path: str | Path | None,
    *,
    format: str | None = None,  # noqa: A002  # as in open_sink
    clock: Clock | None = None,
    append_at: int | None = None,
) -> TextKeyedSink | ParquetKeyedSink:
    """Open a file, or standard output (None or "-").

    Args:
        path: the file.
        format: csv, jsonl or parquet, where the extension does not tell.
        clock: how times are written, if rows have them.
        append_at: cut a plain text file after this many bytes, and continue it there.
    """
    kind = file_kind_of(path, format)
    if append_at is not None and not kind.recoverable:
        raise SettingError("output", "must be a plain CSV or JSONL file to be continued")
    if kind.format == "parquet":
        return ParquetKeyedSink(path, clock)
    return TextKeyedSink(path, kind, clock, append_at)


def text_length_in_sink(
    path: str | Path,
    rows: KeyedRows,
    *,
    format: str | None = None,  # noqa: A002  # as above
    clock: Clock | None,
    first: bool,
) -> int:
    """The size of these rows in a plain text file, in bytes; `first`: with its heading."""
    kind = file_kind_of(path, format)
    text = KeyedRowText(json_lines=kind.format == "jsonl", clock=clock, delimiter=kind.delimiter)
    heading = len(_sink_heading(kind, clock)) if first else 0
    return heading + sum(memoryview(piece).nbytes for piece in text.lines(rows))


def _sink_heading(kind: FileKind, clock: Clock | None) -> bytes:
    if kind.format != "csv":
        return b""
    return released_csv_header(names_of_keyed_row(timed=clock is not None), kind.delimiter)


class TextKeyedSink(Completed):
    """Lines of text; plain text is written in place, compressed text appears when complete."""

    def __init__(
        self, path: str | Path | None, kind: Any, clock: Clock | None, append_at: int | None
    ) -> None:
        self._path = None if is_standard(path) else path
        self._text = KeyedRowText(
            json_lines=kind.format == "jsonl", clock=clock, delimiter=kind.delimiter
        )
        self._outgoing = OutputBytes(
            path, whole=kind.compression is not None, append=append_at is not None
        )
        self._out: OutputBytes | PackedOutput = self._outgoing
        self._kept = 0  # bytes of a plain file up to the end of a row
        try:
            if kind.compression:
                self._out = PackedOutput(self._outgoing, kind.compression)
            if append_at is not None:
                self._outgoing.cut(append_at)
            if self._path is not None:
                self._remove_metadata()  # it speaks of the file as it was
            if not append_at:
                self._out.write(_sink_heading(kind, clock))
            self._keep()
        except BaseException:
            self.abort()
            raise

    def __repr__(self) -> str:
        return f"<TextKeyedSink {self._outgoing.name}>"

    def write(self, rows: KeyedRows) -> None:
        """Write rows that follow those of the last call."""
        for piece in self._text.lines(rows):
            self._out.write(piece)
            self._keep()

    def _keep(self) -> None:
        self._kept = self._outgoing.tell() if self._path is not None else 0

    def tell(self) -> int:
        """The length of a plain file, in bytes."""
        return self._outgoing.tell()

    def sync(self) -> None:
        """Sync a plain file to the disk."""
        self._out.sync()

    def show(self, metadata: Mapping[str, object]) -> bool:
        """Write the facts about the rows so far, if the file can be read while it grows."""
        plain = self._out is self._outgoing and self._path is not None
        if plain and Path(str(self._path)).is_file():
            write_metadata_sidecar(str(self._path), metadata)
        return plain

    def complete(self, metadata: Mapping[str, object]) -> None:
        """Complete the file, and write its public facts beside it."""
        text = encode_metadata(metadata)  # refuse it before the file is complete
        if self._out is self._outgoing and self._outgoing.broken:  # an incomplete row
            self._outgoing.cut(self._kept)
        self._out.sync()
        self._out.close()
        if self._path is not None and Path(self._path).is_file():
            write_encoded_metadata(self._path, text)

    def close(self) -> None:
        """Close the file; without its facts it can be read but not queried."""
        self.abort()

    def abort(self) -> None:
        """Discard a compressed file; plain rows stay."""
        self._out.abort()

    def _remove_metadata(self) -> None:
        try:
            _atomic_files.remove(metadata_sidecar(str(self._path)))
        except OSError as error:
            raise sink_error(error, str(self._path)) from None


class ParquetKeyedSink(Completed):
    """Columns key (a dictionary), time, position, value, level; the file appears when complete."""

    def __init__(self, path: str | Path | None, clock: Clock | None) -> None:
        arrow = self._arrow = require_library_for_files("pyarrow")
        times = [] if clock is None else [arrow.field("time", arrow.timestamp("ns", tz=clock.zone))]
        self._schema = arrow.schema(
            [
                arrow.field("key", arrow.dictionary(arrow.int32(), arrow.string())),
                *times,
                arrow.field("position", arrow.int64()),
                arrow.field("value", arrow.float64()),
                arrow.field("level", arrow.float64()),
            ]
        )
        self._outgoing = OutputBytes(path, whole=True)
        self._file = arrow.PythonFile(ParquetTarget(self._outgoing), mode="w")
        self._writer = require_library_for_files("pyarrow.parquet").ParquetWriter(
            self._file, self._schema, compression="snappy", use_dictionary=["key"]
        )

    def __repr__(self) -> str:
        return f"<ParquetKeyedSink {self._outgoing.name}>"

    def write(self, rows: KeyedRows) -> None:
        """Write rows that follow those of the last call."""
        arrow = self._arrow
        codes = rows.codes.astype(np.int32)
        columns = [arrow.DictionaryArray.from_arrays(codes, list(rows.names))]
        if rows.times is not None:
            columns.append(arrow.array(rows.times).cast(self._schema.field("time").type))
        columns += [arrow.array(one) for one in (rows.positions, rows.values, rows.levels)]
        self._guarded(self._writer.write_batch, arrow.record_batch(columns, schema=self._schema))

    def show(self, metadata: Mapping[str, object]) -> bool:
        """False: the file appears when it is complete."""
        return False

    def complete(self, metadata: Mapping[str, object]) -> None:
        """Complete the file, with its public facts inside."""
        self._guarded(self._writer.add_key_value_metadata, {KEY: encode_metadata(metadata)})
        self._guarded(self._writer.close)
        self._outgoing.close()

    def close(self) -> None:
        """Discard the file: without its facts it must not appear."""
        self.abort()

    def abort(self) -> None:
        """Discard the file."""
        self._outgoing.abort()

    def _guarded(self, call: Any, *arguments: Any) -> None:
        with refused_parquet_writes(self._arrow, self._outgoing.name, self.abort):
            call(*arguments)
