"""Rows of CSV. Two readers, one meaning.

`one` reads a row in plain Python and says what a row means. `many` reads a block with pyarrow, 20
times as fast; wherever it has doubts it gives None, and the block is read row by row. So how a
stream happens to be cut into blocks changes nothing.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import InputError
from tidegate.io.columns import Wanted, choose
from tidegate.io.optional import require

_MISSING = ["", "nan", "NaN", "NAN", "null", "NULL", "Null"]  # the others are left to `one`
_MISSING_WORDS = frozenset({b"", b"nan", b"null"})


class CsvRows:
    """Columns by name, or by index counted from 0; without a header, by index only."""

    def __init__(self, wanted: Sequence[Wanted]) -> None:
        self._wanted = wanted
        self._chosen: list[int] = []
        self._names: list[str] = []
        self._width = 0

    def begin(self, line: bytes, position: int) -> bool:
        """Settle the columns by the first line; whether that is a header.

        It is one if a column is asked for by a name that it has, or if it has text in it and no
        number.
        """
        texts = [field.strip() for field in _fields(line)]
        names = [text.decode("utf-8", "replace") for text in texts]
        header = any(
            column.name in names and not column.name.isdigit()
            for column in self._wanted
            if column.name is not None
        )
        if not header:
            present = [text for text in texts if text.lower() not in _MISSING_WORDS]
            header = bool(present) and not any(_is_number(text) for text in present)
        self._width = len(texts)
        self._names = names if header else [str(index) for index in range(len(texts))]
        self._chosen = choose(self._wanted, self._names, by_index=True)
        return header

    def one(self, line: bytes, position: int) -> list[Any]:
        """The wanted fields of one row; of a blank one, as missing."""
        fields = _fields(line)
        if len(fields) != self._width:
            if not line.strip():
                return [math.nan if column.numeric else None for column in self._wanted]
            raise InputError(f"row {position} does not have {self._width} fields")
        return [
            self._number(fields[index], index, position)
            if column.numeric
            else self._user(fields[index], index, position)
            for column, index in zip(self._wanted, self._chosen, strict=True)
        ]

    def _number(self, field: bytes, index: int, position: int) -> float:
        text = field.strip()
        if text.lower() in _MISSING_WORDS:
            return math.nan
        if not _is_number(text):
            raise InputError(
                f"value at row {position}, column {self._names[index]!r} is not a number"
            )
        return float(text)

    def _user(self, field: bytes, index: int, position: int) -> str | None:
        try:
            return field.decode("utf-8") or None
        except UnicodeDecodeError:
            raise InputError(
                f"user at row {position}, column {self._names[index]!r} is not UTF-8 text"
            ) from None

    def many(self, text: bytes, count: int) -> list[NDArray[Any]] | None:
        """The wanted columns of a block of `count` lines, or None to have them read one by one."""
        if not self._has_one_row_a_line(text):
            return None
        arrow, arrow_csv = require("pyarrow"), require("pyarrow.csv")
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
                    quote_char='"' if b'"' in text else False, ignore_empty_lines=False
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=types, include_columns=chosen, null_values=_MISSING
                ),
            )
        except arrow.ArrowException:  # it quotes the row; `one` will find it and not do so
            return None
        if table.num_rows != count:  # a newline inside quotes
            return None
        return from_arrow([table.column(name) for name in chosen], self._wanted)

    def _has_one_row_a_line(self, text: bytes) -> bool:
        """As far as the number of rows will not tell."""
        if text.startswith(b"\xef"):  # pyarrow would skip a byte order mark here
            return False
        if b"\r" in text and text.count(b"\r") != text.count(b"\r\n"):  # to pyarrow, a line end
            return False
        if b'"' not in text:
            return True
        last = text[text.rfind(b"\n", 0, -1) + 1 :]  # a quote left open there costs no row
        return len(_fields(last)) == self._width


def from_arrow(columns: Sequence[Any], wanted: Sequence[Wanted]) -> list[NDArray[Any]] | None:
    """Arrow columns as arrays; None if a number is NaN or infinite, however that was spelt."""
    arrays: list[NDArray[Any]] = []
    for values, column in zip(columns, wanted, strict=True):
        if column.numeric:
            numbers: NDArray[Any] = values.to_numpy()
            if np.count_nonzero(np.isfinite(numbers)) != len(numbers) - values.null_count:
                return None
            arrays.append(numbers)
        else:
            arrays.append(users_from_arrow(values))
    return arrays


def users_from_arrow(values: Any) -> NDArray[np.object_]:
    """Text or integers as objects, None where there is none. Each user is made once a batch."""
    array = values.combine_chunks() if hasattr(values, "combine_chunks") else values
    if not hasattr(array, "indices"):
        array = array.dictionary_encode()
    found: NDArray[np.object_] = np.empty(len(array.dictionary) + 1, dtype=object)
    found[:-1] = [user if user != "" else None for user in array.dictionary.to_pylist()]
    places: NDArray[np.int64] = array.indices.fill_null(len(array.dictionary)).to_numpy()
    return found[places]


def _fields(line: bytes) -> list[bytes]:
    line = line.rstrip(b"\r\n")
    if b'"' not in line:
        return line.split(b",")
    text = line.decode("utf-8", "surrogateescape")
    if "\r" in text or "\n" in text:
        return []
    try:
        # The second line is only reached, and then swallowed, by a quote that was left open.
        rows = list(csv.reader([text, "."]))
    except csv.Error:
        return []
    if len(rows) != 2:
        return []
    return [field.encode("utf-8", "surrogateescape") for field in rows[0]]


def _is_number(text: bytes) -> bool:
    if b"_" in text:  # Python's own spelling of thousands
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True
