"""CSV and JSON Lines as a sink."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np

from tidegate import _atomic_files
from tidegate._context_managers import Completed
from tidegate.clock import Clock
from tidegate.errors import SettingError
from tidegate.io.errors import sink_error
from tidegate.io.file_kind_and_row_count import FileKind, is_standard
from tidegate.io.metadata_files import encode_metadata, metadata_sidecar, write_metadata_sidecar
from tidegate.io.output_file_or_pipe import OutputBytes, PackedOutput
from tidegate.io.released_row_text import (
    PIECE,
    names_of_released_row,
    released_csv_header,
    released_csv_rows,
    released_json_rows,
)
from tidegate.lattice import FloatArray, IntArray

Levels = FloatArray | None  # one for each value; None: the rows have none
Times = IntArray | None  # the same, in nanoseconds


class PositionsOfSink:
    """Checks that each write begins where the last one ended, and has the same columns."""

    def __init__(
        self, following: int | None, *, leveled: bool | None = None, timed: bool | None = None
    ) -> None:
        self._next = following
        self._leveled, self._timed = leveled, timed  # None: as it comes

    def check(
        self,
        first: int,
        values: FloatArray,
        levels: FloatArray | None = None,
        times: IntArray | None = None,
    ) -> list[FloatArray]:
        """The columns of numbers in the form to be written."""
        given = {"values": values} if levels is None else {"values": values, "levels": levels}
        columns = [np.ascontiguousarray(column, dtype=np.float64) for column in given.values()]
        for name, column in zip(given, columns, strict=True):
            if column.ndim != 1:
                raise SettingError(name, "must be a one-dimensional array")
            if column.size != columns[0].size:
                raise SettingError(name, "must be the same number as the values")
        if self._leveled is not None and self._leveled != (levels is not None):
            problem = "must be given for each write" if self._leveled else "have no column here"
            raise SettingError("levels", problem)
        if self._timed is not None and self._timed != (times is not None):
            problem = "must be given for each write" if self._timed else "have no column here"
            raise SettingError("times", problem)
        if times is not None and times.shape != columns[0].shape:
            raise SettingError("times", "must be the same number as the values")
        if first < 0 or self._next not in (None, first):
            expected = "0 or more" if self._next is None else self._next
            raise SettingError("first_position", f"must be {expected}, not {first}")
        self._next = first + columns[0].size
        return columns


class TextSink(Completed):
    """Rows `position,value`, perhaps with a time before them and a level after them.

    Plain text is written in place, unbuffered; compressed text appears when it is complete.
    """

    def __init__(
        self,
        path: str | Path | None,
        kind: FileKind,
        metadata: Mapping[str, object] | None,
        *,
        leveled: bool = False,
        clock: Clock | None = None,
        following: int | None = None,
        append: bool = False,
    ) -> None:
        self._path = None if is_standard(path) else path
        self._kind = kind
        self._metadata = metadata
        csv = partial(released_csv_rows, delimiter=kind.delimiter)
        self._rows = csv if kind.format == "csv" else released_json_rows
        if metadata is not None:
            encode_metadata(metadata)  # refuse it before a file is touched
        self._clock = clock
        self._positions = PositionsOfSink(following, leveled=leveled, timed=clock is not None)
        self._outgoing = OutputBytes(path, whole=kind.compression is not None, append=append)
        self._out: OutputBytes | PackedOutput = self._outgoing
        try:
            if kind.compression:
                self._out = PackedOutput(self._outgoing, kind.compression)
            # A new file must not have the metadata of the one it replaced.
            if self._in_place and not append:
                self._remove_sidecar()
            if kind.format == "csv" and not (append and self._outgoing.tell()):
                names = names_of_released_row(leveled=leveled, timed=clock is not None)
                self._out.write(released_csv_header(names, kind.delimiter))
            self._kept = self._outgoing.tell() if self._in_place else 0  # bytes of whole writes
            if self._in_place:
                self._write_sidecar()
        except BaseException:
            self.abort()
            raise

    def __repr__(self) -> str:
        return f"<TextSink {self._outgoing.name}>"

    @property
    def _in_place(self) -> bool:
        return self._path is not None and self._kind.recoverable

    def write(
        self, first_position: int, values: FloatArray, levels: Levels = None, times: Times = None
    ) -> None:
        """Write rows from `first_position` on, which follow those of the last call."""
        columns = self._positions.check(first_position, values, levels, times)
        for start in range(0, columns[0].size, PIECE):
            part = [column[start : start + PIECE] for column in columns]
            texts = None
            if times is not None and self._clock is not None:
                texts = self._clock.texts(times[start : start + PIECE])
            rows = self._rows(first_position + start, part, texts)
            self._out.write(rows)
            self._kept += len(rows)

    def flush(self, *, sync: bool = False) -> None:
        """Sync the file if `sync`; plain text is not buffered."""
        if sync:
            self._out.sync()

    def set_metadata(self, metadata: Mapping[str, object]) -> None:
        """Replace the public facts about this file."""
        encode_metadata(metadata)
        self._metadata = metadata
        if self._in_place:
            self._write_sidecar()

    def close(self) -> None:
        """Complete the file, durably."""
        if self._outgoing.closed:
            return
        try:
            if self._path is not None and not self._kind.recoverable:
                self._remove_sidecar()
            if self._in_place:
                if self._outgoing.broken:  # an incomplete row
                    self._outgoing.cut(self._kept)
                self._out.sync()
            self._out.close()
            if self._path is not None and not self._kind.recoverable:
                self._write_sidecar()
        finally:
            self.abort()

    def abort(self) -> None:
        """Discard a compressed file; plain rows stay."""
        self._out.abort()

    def _write_sidecar(self) -> None:
        if self._path is not None and self._metadata is not None and self._is_file():
            write_metadata_sidecar(self._path, self._metadata)

    def _remove_sidecar(self) -> None:
        if self._path is not None and self._is_file():
            try:
                _atomic_files.remove(metadata_sidecar(self._path))
            except OSError as error:
                raise sink_error(error, str(metadata_sidecar(self._path))) from None

    def _is_file(self) -> bool:
        """Whether metadata can be stored beside it: not for a device or a named pipe."""
        path = Path(os.fspath(self._path or ""))
        return path.is_file() or not path.exists()
