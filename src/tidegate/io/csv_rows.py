"""Rows of CSV, by two readers with one meaning: line by line, and in blocks.

`one` reads a row in plain Python and says what a row means. `many` reads a block with pyarrow, 20
times as fast; wherever it has doubts it gives None, and the block is read row by row. So how a
stream happens to be cut into blocks changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import InputError, SettingError
from tidegate.io.column_choice import WantedColumn, choose_column, index_of_column
from tidegate.io.csv_dialect import CsvDialect, is_utf8_line
from tidegate.lattice import IntArray
from tidegate.tables.arrow import arrow_to_numpy
from tidegate.tables.optional_libraries import require_library_for_files
from tidegate.tables.repeated_items import RepeatedItems

_MISSING = ["", "nan", "NaN", "NAN", "null", "NULL", "Null"]  # the others are left to `one`
_MISSING_WORDS = frozenset({b"", b"nan", b"null"})
_USUAL = CsvDialect()
_SECONDS = 1e11  # since 1970, at most; beyond these are milliseconds

_NO_NUMBER = "; leave it empty if it is missing, and write yes and no as 1 and 0"
_SECOND_HEADER = "; if this line belongs to the header, remove it"
_NOT_UTF8 = "convert the file first, for example with iconv -f latin1 -t utf-8"


class CsvRows:
    """Columns by name, or by number counted from 0; without a header, by number only.

    Whether the first line names the columns is never guessed from values, because a first value
    that is missing, or any other, must not turn a row into a header:

    - `header` True or False says so;
    - else it does if a column is asked for by name;
    - else, if no value column is asked for, it does if one of its fields is the word `value`, which
      is neither a number nor the mark of a missing one;
    - else it is a row.

    Without names and without a column asked for, there must be one column (and that of the users).
    A blank line is a row in which everything is missing; before a header it is nothing.
    """

    def __init__(
        self,
        wanted: Sequence[WantedColumn],
        header: bool | None = None,
        dialect: CsvDialect = _USUAL,
    ) -> None:
        self._wanted = wanted
        self._dialect = dialect
        self._chosen: list[int] = []
        self._labels: list[str] = []  # of the chosen columns, in messages
        self._width = 0
        self._lines_before = 0  # of the first row: blank ones, and the names
        self._listed = header is True
        named = [
            column for column in wanted if column.name and index_of_column(column.name) is None
        ]
        if named and header is False:
            raise SettingError(
                named[0].setting,
                f"{named[0].name!r} is a name, and --no-header says that there are none: give the "
                "column's number, counted from 0",
            )
        self._header = True if named else header
        if self._header is False:
            self._settle_unnamed()

    def begin(self, line: bytes) -> bool | None:
        """Whether the first line names the columns. None: it is blank; the next may."""
        if self._header is False:
            return False
        if not line.strip():
            if self._header:
                self._lines_before += 1
                return None
            self._header = False
        fields = [field.strip() for field in self._dialect.fields(line)]
        if self._header is None:
            unnamed = any(column.name is None and column.numeric for column in self._wanted)
            self._header = unnamed and b"value" in fields
        if not self._header:
            self._settle_unnamed()
            return False
        names = [field.decode("utf-8", "replace") for field in fields]
        try:
            chosen = choose_column(self._wanted, names, by_index=True, listed=self._listed)
        except SettingError as error:
            other = self._dialect.other_separator(line)
            if not is_utf8_line(line):
                other = f"; this line is not UTF-8 text: {_NOT_UTF8}"
            raise SettingError(error.setting, error.problem + other) from None
        self._settle(chosen, len(names))
        if self._listed:
            self._labels = [repr(names[index]) for index in self._chosen]
        self._lines_before += 1
        return True

    def _settle_unnamed(self) -> None:
        """Find the columns before any row, if no value column was requested."""
        asked = [index_of_column(column.name) for column in self._wanted]
        if None not in asked:
            return  # the width is that of the first row
        width = len(asked)
        left = [index for index in range(width) if index not in asked]
        if len(left) != asked.count(None):
            raise SettingError("column", "is missing: give its number, counted from 0")
        self._settle([left.pop(0) if index is None else index for index in asked], width)

    def _settle(self, chosen: list[int], width: int) -> None:
        self._chosen, self._width = chosen, width
        self._labels = [
            str(index) if column.name is None or index_of_column(column.name) is not None
            else repr(column.name)
            for column, index in zip(self._wanted, chosen, strict=True)
        ]  # fmt: skip

    def _settle_by(self, fields: list[bytes], position: int, line: bytes) -> None:
        """Take the width of the first row; the columns were requested by number."""
        numbers = [index_of_column(column.name) or 0 for column in self._wanted]
        for column, index in zip(self._wanted, numbers, strict=True):
            if index >= len(fields):
                raise SettingError(
                    column.setting,
                    f"there is no {index}: row {position} has {len(fields)} fields, counted from 0 "
                    "(if it is a name, give --header)" + self._dialect.other_separator(line),
                )
            if numbers.count(index) > 1:
                raise SettingError(self._wanted[-1].setting, f"{str(index)!r} is used already")
        self._settle(numbers, len(fields))

    def one(self, line: bytes, position: int) -> list[Any]:
        """The wanted fields of one row; those of a blank row are missing."""
        if not line.strip():
            return [math.nan if column.numeric else None for column in self._wanted]
        fields = self._dialect.fields(line)
        if not self._width:
            if not fields:
                raise InputError(f"row {position} has a quote that is not closed, or a stray one")
            self._settle_by(fields, position, line)
        if len(fields) != self._width:
            one = self._width == 1
            wide = "has several fields" if one else f"does not have {self._width} fields"
            problem = f"row {position} {wide}"
            hint = self._hint(position, "--column chooses one")
            other = self._dialect.other_decimal(line.strip()) if self._width == 1 else ""
            hint = other or self._dialect.other_width(line) or hint
            raise InputError(problem + hint + self._place(position))
        return [
            self._number(fields[index], label, position)
            if column.numeric
            else self._text(fields[index], label, position, column.content)
            for column, index, label in zip(self._wanted, self._chosen, self._labels, strict=True)
        ]

    def _hint(self, position: int, other: str = "") -> str:
        """A hint about a bad first row, where no option said that it is a row."""
        if position or self._header:
            return ""
        return f"; {other + ', ' if other else ''}--header says that this line names the columns"

    def _number(self, field: bytes, label: str, position: int) -> float:
        text = field.strip()
        if text.lower() in _MISSING_WORDS:
            return math.nan
        number = self._dialect.number(text)
        if number is None:
            other = self._dialect.other_decimal(text) or self._dialect.other_separator(text)
            raise InputError(
                f"value at row {position}, column {label} is not a number"
                f"{other or self._hint(position) or _NO_NUMBER}"
                f"{'' if position or other or not self._header else _SECOND_HEADER}"
                f"{self._place(position)}"
            )
        return number

    def _place(self, position: int) -> str:
        return f" (line {position + self._lines_before + 1} of the input)"

    def _text(self, field: bytes, label: str, position: int, what: str) -> str | None:
        try:
            return field.decode("utf-8") or None
        except UnicodeDecodeError:
            raise InputError(
                f"{what} at row {position}, column {label} is not UTF-8 text: {_NOT_UTF8}"
            ) from None

    def names_after(self, lines: Sequence[bytes]) -> int | None:
        """The first later line with all requested names. None: none has."""
        named = {
            column.name or "" for column in self._wanted if index_of_column(column.name) is None
        }
        return None if "" in named else self._dialect.line_of(named, lines)

    def many(self, text: bytes, count: int) -> list[NDArray[Any]] | None:
        """The wanted columns of a block of `count` lines. None: read them one by one."""
        if not self._width or not self._has_one_row_a_line(text):
            return None
        arrow, arrow_csv = (
            require_library_for_files("pyarrow"),
            require_library_for_files("pyarrow.csv"),
        )
        names = [str(index) for index in range(self._width)]
        chosen = [names[index] for index in self._chosen]
        types = {
            name: arrow.float64() if column.numeric else arrow.string()
            for name, column in zip(chosen, self._wanted, strict=True)
        }
        try:
            table = arrow_csv.read_csv(
                arrow.BufferReader(text),
                read_options=arrow_csv.ReadOptions(
                    use_threads=False, block_size=len(text) + 1, column_names=names
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self._dialect.delimiter,
                    quote_char='"' if b'"' in text else False,
                    ignore_empty_lines=False,
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=types,
                    include_columns=chosen,
                    null_values=_MISSING,
                    decimal_point=self._dialect.decimal,
                ),
            )
        except arrow.ArrowException:  # it quotes the row; `one` will find it and not do so
            return None
        if table.num_rows != count:  # a newline inside quotes
            return None
        return from_arrow([table.column(name) for name in chosen], self._wanted)

    def _has_one_row_a_line(self, text: bytes) -> bool:
        """Whether each line is a row, where the number of rows does not tell."""
        if text.startswith(b"\xef"):  # pyarrow would skip a byte order mark here
            return False
        if b"\r" in text and text.count(b"\r") != text.count(b"\r\n"):  # to pyarrow, a line end
            return False
        if b'"' not in text:
            return True
        last = text[text.rfind(b"\n", 0, -1) + 1 :]  # a quote left open there costs no row
        return len(self._dialect.fields(last)) == self._width


def from_arrow(columns: Sequence[Any], wanted: Sequence[WantedColumn]) -> list[NDArray[Any]] | None:
    """Arrow columns as arrays. None: a number is NaN or infinite, in any spelling."""
    arrays: list[NDArray[Any]] = []
    for values, column in zip(columns, wanted, strict=True):
        if column.numeric:
            numbers = arrow_to_numpy(values)
            if np.count_nonzero(np.isfinite(numbers)) != len(numbers) - values.null_count:
                return None
            arrays.append(numbers)
        elif column.time and str(values.type) in ("int64", "double"):
            times = arrow_to_numpy(values)
            # In floats only seconds are as exact as one by one.
            if values.null_count or (times.dtype.kind == "f" and np.abs(times).max() >= _SECONDS):
                return None
            arrays.append(times)
        else:
            arrays.append(texts_from_arrow(values, column))
    return arrays


def texts_from_arrow(values: Any, column: WantedColumn) -> Any:
    """Text or integers of users or keys, None where missing; each is made once per batch.

    Users are an array of objects. Keys are few: which of them each row has is enough.
    """
    array = values.combine_chunks() if hasattr(values, "combine_chunks") else values
    fresh = not hasattr(array, "indices")  # its dictionary has what rows have, in their order
    if fresh:
        array = array.dictionary_encode()
    found: NDArray[np.object_] = np.empty(len(array.dictionary) + 1, dtype=object)
    found[:-1] = [user if user != "" else None for user in array.dictionary.to_pylist()]
    indices = array.indices
    if indices.null_count:  # only then: pyarrow would import pandas for the number
        indices = indices.fill_null(len(array.dictionary))
    places: IntArray = arrow_to_numpy(indices).astype(np.int64)
    if column.setting != "by":
        return found[places]
    if fresh and not array.indices.null_count:
        return RepeatedItems(found[:-1].tolist(), places)
    return RepeatedItems.present(found.tolist(), places)
