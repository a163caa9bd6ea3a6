"""Parquet as a source: one or two of its columns, page by page."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from tidegate._context_managers import Closed
from tidegate.errors import SettingError
from tidegate.exact_numbers import said
from tidegate.io.batches import Batch
from tidegate.io.column_choice import WantedColumn, choose_column
from tidegate.io.csv_rows import texts_from_arrow
from tidegate.io.errors import SourceError, source_error
from tidegate.io.input_file_or_pipe import InputBytes
from tidegate.io.time_reader import TimeReader, batch_with_times
from tidegate.tables.arrow import arrow_as_numbers, is_arrow_number, is_arrow_text
from tidegate.tables.optional_libraries import require_library_for_files

# Rows a batch: what stays in the cache is faster to decode than the longest batch allowed.
_ROWS = 1 << 17
# Read pages through this much memory; without it pyarrow loads the column of a whole row group.
_BUFFER = 1 << 20


def _parquet_looks_like_text(head: bytes) -> bool:
    """Whether a file begins with a line of text, like CSV."""
    first, end, _ = head.partition(b"\n")
    return bool(end) and first.strip().decode("utf-8-sig", "replace").isprintable()


class ParquetSource(Closed):
    """Values, and users if wanted. Numbers of any type, decimals and booleans; nulls are NaN.

    A column in which everything is missing has a type of its own in many files; it is read as well,
    for a file must not be refused because its only value is missing.
    """

    def __init__(
        self, incoming: InputBytes, wanted: list[WantedColumn], times: TimeReader | None = None
    ) -> None:
        self._incoming = incoming
        self._times = times
        self._wanted = wanted
        self._taken = 0
        try:
            self._file = self._open()
            self._names = self._choose()
        except BaseException:
            self.close()
            raise
        self.rows: int | None = int(self._file.metadata.num_rows)

    def __repr__(self) -> str:
        return f"<ParquetSource {self._incoming.name}>"

    @property
    def doubt(self) -> str:
        """A remark on strange times; may be empty."""
        return "" if self._times is None else self._times.doubt

    def _open(self) -> Any:
        arrow, parquet = (
            require_library_for_files("pyarrow"),
            require_library_for_files("pyarrow.parquet"),
        )
        if self._incoming.size is None or self._incoming.descriptor is None:
            raise SourceError(
                None, "Parquet cannot be read from a pipe: give a file", self._incoming.name
            )
        try:
            file = io.FileIO(self._incoming.descriptor, closefd=False)
            return parquet.ParquetFile(
                arrow.PythonFile(file, mode="r"), buffer_size=_BUFFER, pre_buffer=False
            )
        except (arrow.ArrowException, OSError, ValueError):  # they may quote the file
            problem = "is not a complete Parquet file: truncated or damaged"
            if _parquet_looks_like_text(os.pread(self._incoming.descriptor, 512, 0)):
                problem = "does not look like Parquet. If it is CSV, give --format csv (format=)"
            raise SourceError(None, problem, self._incoming.name) from None

    def _choose(self) -> list[str]:
        schema = self._file.schema_arrow
        try:
            names = list(schema.names)
        except UnicodeDecodeError:  # it keeps the bytes
            problem = "is damaged: a column has a name that is not UTF-8"
            raise SourceError(None, problem, self._incoming.name) from None
        chosen = choose_column(self._wanted, names, by_index=False, listed=True)
        for index, column in zip(chosen, self._wanted, strict=True):
            kind = schema.field(index).type
            fits = (
                _is_parquet_time
                if column.time
                else is_arrow_number
                if column.numeric
                else _is_parquet_user
            )
            if not fits(kind):
                needed = "numbers" if column.numeric else "text or integers"
                needed = "times" if column.time else needed
                raise SettingError(
                    column.setting,
                    f"{said(names[index])} has {_parquet_type_name(kind)}, not {needed}",
                )
        return [names[index] for index in chosen]

    def batches(self) -> Iterator[Batch]:
        """The stream, once."""
        for columns in self.arrays():
            yield from batch_with_times(columns, self._wanted, self._times)

    def arrays(self) -> Iterator[list[NDArray[Any]]]:
        """The wanted columns, piece by piece."""
        arrow = require_library_for_files("pyarrow")
        # One thread: decoding two columns is far faster than what follows, and cores are shared.
        pieces = self._file.iter_batches(_ROWS, columns=self._names, use_threads=False)
        while True:
            try:
                piece = next(pieces, None)
                if piece is None:
                    return
                arrays = [
                    arrow_as_numbers(piece.column(name))
                    if column.numeric
                    else piece.column(name)
                    if column.time
                    else texts_from_arrow(piece.column(name), column)
                    for name, column in zip(self._names, self._wanted, strict=True)
                ]
            except (arrow.ArrowException, OSError, ValueError) as error:
                raise self._damaged(error) from None
            self._taken += piece.num_rows
            yield arrays

    def _damaged(self, error: Exception) -> SourceError:
        if isinstance(error, OSError) and error.errno is not None:
            return source_error(error, self._incoming.name)
        problem = f"truncated or damaged (after {self._taken} rows)"
        return SourceError(None, problem, self._incoming.name)

    def fraction(self) -> float | None:
        """The share of rows read."""
        return self._taken / self.rows if self.rows else 1.0

    def close(self) -> None:
        """Close the file."""
        self._incoming.close()


def _is_parquet_user(kind: Any) -> bool:
    types = require_library_for_files("pyarrow").types
    if types.is_dictionary(kind):
        kind = kind.value_type
    return is_arrow_text(kind) or types.is_integer(kind) or types.is_null(kind)


def _is_parquet_time(kind: Any) -> bool:
    types = require_library_for_files("pyarrow").types
    names = ("timestamp", "date", "integer", "floating", "string", "large_string")
    return any(getattr(types, f"is_{name}")(kind) for name in names)


def _parquet_type_name(kind: Any) -> str:
    """The type in one or two words, without the names inside nested types."""
    types = require_library_for_files("pyarrow").types
    if types.is_nested(kind):
        return "nested values"
    return "texts" if types.is_dictionary(kind) and is_arrow_text(kind) else f"the type {kind}"
