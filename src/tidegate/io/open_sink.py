"""`open_sink`, and the contract `Sink`: a file, standard output, or a function that takes rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from tidegate._context_managers import Completed, Context
from tidegate.clock import Clock
from tidegate.errors import SettingError
from tidegate.io.errors import SinkError
from tidegate.io.file_kind_and_row_count import file_kind_of, is_standard
from tidegate.io.output_recovery import recover
from tidegate.io.parquet_sink import ParquetSink
from tidegate.io.released_row_text import names_of_released_row
from tidegate.io.text_sink import Levels, PositionsOfSink, TextSink, Times
from tidegate.lattice import FloatArray


class Sink(Context, Protocol):
    """An open output. As a context it is completed at the end, and aborted after an error."""

    def write(
        self, first_position: int, values: FloatArray, levels: Levels = None, times: Times = None
    ) -> None:
        """Write rows from `first_position` on, which follow those of the last call."""

    def flush(self, *, sync: bool = False) -> None:
        """Pass on buffered data; `sync`: to the disk."""

    def set_metadata(self, metadata: Mapping[str, object]) -> None:
        """Replace the public facts about this file."""

    def close(self) -> None:
        """Complete the file, durably."""

    def abort(self) -> None:
        """Discard what is not complete."""


def open_sink(
    path: str | Path | None,
    *,
    format: str | None = None,  # noqa: A002  # as in open_source
    metadata: Mapping[str, object] | None = None,
    append_at: int | None = None,
    leveled: bool = False,
    clock: Clock | None = None,
) -> Sink:
    """Open a file for released rows, or standard output (None or "-").

    Its bytes depend on the rows alone, not on how they were split into writes. Plain CSV and JSONL
    grow in place; a compressed or Parquet file appears under its name when it is complete.

    Args:
        path: the file; its extension tells the kind.
        format: one of `KINDS`, where the extension does not.
        metadata: public facts to store with the file: inside Parquet, in `<name>.meta.json` beside
            the others; on standard output, only inside Parquet.
        append_at: continue a file after this many rows, as counted by `recover_rows`.
        leveled: whether rows have a last column, `level`; every write must give it then.
        clock: how times are written, if rows have a first column, `time`: given with every write,
            in nanoseconds since 1970.

    Raises:
        SinkError: if it cannot be written; `ClosedPipeError` if the reader went away.
    """
    kind = file_kind_of(path, format)
    if append_at is None:
        if kind.format == "parquet":
            return ParquetSink(path, metadata, leveled=leveled, clock=clock)
        return TextSink(path, kind, metadata, leveled=leveled, clock=clock)
    if path is None or is_standard(path) or not kind.recoverable:
        raise SettingError("append_at", "needs a plain CSV or JSONL file")
    found = recover(path, format)
    if found.rows != append_at:
        raise SinkError(None, f"has {found.rows} rows, not {append_at}", str(path))
    if found.columns not in (None, names_of_released_row(leveled=leveled, timed=clock is not None)):
        raise SinkError(None, "has other columns: its rows cannot be continued", str(path))
    following = found.first + found.rows if found.rows else None
    return TextSink(
        path, kind, metadata, leveled=leveled, clock=clock, following=following, append=True
    )


Receiver = Callable[[int, FloatArray], object]


class FunctionSink(Completed):
    """Calls `receive(first_position, values)` for each block of rows, in order of position.

    >>> rows = {}
    >>> with FunctionSink(
    ...     lambda first, values: rows.update(enumerate(values.tolist(), first))
    ... ) as sink:
    ...     sink.write(0, [10.5, 12.0])
    ...     sink.write(2, [9.5])
    >>> rows
    {0: 10.5, 1: 12.0, 2: 9.5}

    Args:
        receive: takes the position of the first row, and the values of this and the next rows.
        following: the position that the first write must have; None: any.

    Attributes:
        metadata: the newest public facts about the rows; empty before any were set.
    """

    def __init__(self, receive: Receiver, following: int | None = None) -> None:
        self._receive = receive
        self._positions = PositionsOfSink(following)
        self.metadata: dict[str, object] = {}

    def __repr__(self) -> str:
        return "<FunctionSink>"

    def write(
        self, first_position: int, values: FloatArray, levels: Levels = None, times: Times = None
    ) -> None:
        """Pass rows from `first_position` on to the function."""
        array, *_ = self._positions.check(first_position, values, levels, times)
        if array.size:
            self._receive(first_position, array)

    def flush(self, *, sync: bool = False) -> None:
        """Do nothing: the function has every row already."""

    def set_metadata(self, metadata: Mapping[str, object]) -> None:
        """Replace the public facts about the rows."""
        self.metadata = dict(metadata)

    def close(self) -> None:
        """Do nothing: a function has no end."""

    def abort(self) -> None:
        """Do nothing."""
