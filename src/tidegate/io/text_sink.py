"""CSV and JSON Lines as a sink."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tidegate import _files
from tidegate._contexts import Completed
from tidegate.errors import SettingError
from tidegate.io.errors import sink_error
from tidegate.io.kinds import Kind, is_standard
from tidegate.io.metadata import encode, sidecar, write_sidecar
from tidegate.io.outgoing import Outgoing
from tidegate.io.packing import Packed
from tidegate.io.row_text import CSV_HEADER, PIECE, csv_rows, json_rows
from tidegate.lattice import FloatArray


class Positions:
    """Checks that each write begins where the last one ended."""

    def __init__(self, following: int | None) -> None:
        self._next = following

    def check(self, first: int, values: FloatArray) -> FloatArray:
        """The values as they will be written."""
        array: FloatArray = np.ascontiguousarray(values, dtype=np.float64)
        if array.ndim != 1:
            raise SettingError("values", "must be a one-dimensional array")
        if first < 0 or self._next not in (None, first):
            expected = "0 or more" if self._next is None else self._next
            raise SettingError("first_position", f"must be {expected}, not {first}")
        self._next = first + array.size
        return array


class TextSink(Completed):
    """Rows `position,value`. Plain text is written in place, unbuffered; compressed text appears
    when it is complete.
    """

    def __init__(
        self,
        path: str | Path | None,
        kind: Kind,
        metadata: Mapping[str, object] | None,
        *,
        following: int | None = None,
        append: bool = False,
    ) -> None:
        self._path = None if is_standard(path) else path
        self._kind = kind
        self._metadata = metadata
        self._rows = csv_rows if kind.format == "csv" else json_rows
        if metadata is not None:
            encode(metadata)  # refuse it before a file is touched
        self._positions = Positions(following)
        self._outgoing = Outgoing(path, whole=kind.compression is not None, append=append)
        self._out: Outgoing | Packed = self._outgoing
        try:
            if kind.compression:
                self._out = Packed(self._outgoing, kind.compression)
            # A new file must not have the metadata of the one it replaced.
            if self._in_place and not append:
                self._remove_sidecar()
            if kind.format == "csv" and not (append and self._outgoing.tell()):
                self._out.write(CSV_HEADER)
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

    def write(self, first_position: int, values: FloatArray) -> None:
        """Write rows from `first_position` on, which follow those of the call before."""
        array = self._positions.check(first_position, values)
        for start in range(0, array.size, PIECE):
            rows = self._rows(first_position + start, array[start : start + PIECE])
            self._out.write(rows)
            self._kept += len(rows)

    def flush(self, *, sync: bool = False) -> None:
        """Sync the file, with `sync`; plain text is not buffered."""
        if sync:
            self._out.sync()

    def set_metadata(self, metadata: Mapping[str, object]) -> None:
        """Replace the public facts about this file."""
        encode(metadata)
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
        """Give up: a compressed file is removed; plain rows stay."""
        self._out.abort()

    def _write_sidecar(self) -> None:
        if self._path is not None and self._metadata is not None and self._is_file():
            write_sidecar(self._path, self._metadata)

    def _remove_sidecar(self) -> None:
        if self._path is not None and self._is_file():
            try:
                _files.remove(sidecar(self._path))
            except OSError as error:
                raise sink_error(error, str(sidecar(self._path))) from None

    def _is_file(self) -> bool:
        """Whether it can have a metadata file beside it: not a device or a named pipe."""
        path = Path(os.fspath(self._path or ""))
        return path.is_file() or not path.exists()
