"""Choose the columns of the values, the users and the times.

Names of columns are public where it is certain that they are names: in a Parquet schema, or where
the user said so (`header=True`). The first line of a CSV file may be a row of data after all, so
no message shows anything of it but the names that the user typed.

Columns that look like times are found in the first rows of a file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.errors import InputError, SettingError
from tidegate.exact_numbers import said
from tidegate.io.csv_dialect import CsvDialect
from tidegate.io.file_kind_and_row_count import FileKind, file_kind_of
from tidegate.io.input_file_or_pipe import InputBytes
from tidegate.io.lines import read_lines
from tidegate.tables.optional_libraries import require_library_for_files
from tidegate.timestamps import read_times

_SHOWN = 20  # names in a message
_WIDTH = 40  # characters of a name in a message
_DIGITS = 9  # of a column's number
_HIDDEN = (
    "the first line was taken for names and may be data, so it is not shown: --header shows its "
    "names; if it is a row, give --no-header and the column's number, counted from 0"
)


@dataclass(frozen=True)
class WantedColumn:
    """A column to read: its requested name (None: find it), and the setting that named it."""

    name: str | None
    setting: str = "column"
    numeric: bool = True
    time: bool = False  # not numeric then

    @property
    def content(self) -> str:
        """The content of the column, for messages."""
        if self.time:
            return "time"
        return "value" if self.numeric else "key" if self.setting == "by" else "user"


def index_of_column(name: str | None) -> int | None:
    """The column number that `name` spells, counted from 0, if it is one.

    >>> index_of_column("3"), index_of_column("watts"), index_of_column("٣")
    (3, None, None)
    """
    if name is None or not (name.isascii() and name.isdigit() and len(name) <= _DIGITS):
        return None
    return int(name)


def choose_column(
    wanted: Sequence[WantedColumn], names: Sequence[str], *, by_index: bool, listed: bool
) -> list[int]:
    """The indices of the wanted columns among `names`.

    A column without a name is the only one that is left, or the one called "value". `listed`:
    messages may show `names`.
    """
    available = _available_columns(names) if listed else _HIDDEN
    found = [
        None if column.name is None else _named_column(column, names, available, by_index=by_index)
        for column in wanted
    ]
    left = [index for index in range(len(names)) if index not in found]
    chosen = [
        _unnamed_column(column, names, left, available) if index is None else index
        for column, index in zip(wanted, found, strict=True)
    ]
    for place, column in enumerate(wanted):
        if chosen[place] in chosen[:place]:
            raise SettingError(column.setting, f"{said(column.name)} is used already")
    return chosen


def _named_column(
    column: WantedColumn, names: Sequence[str], available: str, *, by_index: bool
) -> int:
    matches = [index for index, name in enumerate(names) if name == column.name]
    if len(matches) == 1:
        return matches[0]
    if matches:
        advice = "rename one"
        if by_index:
            *first, last = map(str, matches)
            advice = f"give its number, counted from 0: {', '.join(first)} or {last}"
        raise SettingError(
            column.setting, f"{len(matches)} columns are called {said(column.name)}: {advice}"
        )
    index = index_of_column(column.name)
    if by_index and index is not None and index < len(names):
        return index
    raise SettingError(column.setting, f"there is no {said(column.name)}; {available}")


def _unnamed_column(
    column: WantedColumn, names: Sequence[str], left: list[int], available: str
) -> int:
    if len(left) == 1:
        return left[0]
    called_value = [index for index in left if names[index] == "value"]
    if len(called_value) == 1:
        return called_value[0]
    raise SettingError(column.setting, f"choose one with --{column.setting}: {available}")


def _available_columns(names: Sequence[str]) -> str:
    if not names:
        return "there are no columns"
    shown = ", ".join(repr(name[:_WIDTH]) for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"the columns are {shown}{more}"


_ROWS = 20
_EARLIEST = 10**8  # seconds since 1970: smaller numbers are hardly times


def time_columns(path: str, format: str | None, delimiter: str | None) -> list[str]:  # noqa: A002  # as in open_source
    """The names of columns whose first values can be parsed as times; there must be a header."""
    kind = file_kind_of(path, format)
    if kind.format == "parquet":
        arrow, parquet = (
            require_library_for_files("pyarrow"),
            require_library_for_files("pyarrow.parquet"),
        )
        try:
            schema = parquet.read_schema(path)
        except (arrow.ArrowException, OSError):  # missing or damaged: who reads the values says so
            return []
        return [field.name for field in schema if str(field.type).startswith(("timestamp", "date"))]
    rows = first_rows_of_columns(path, kind, CsvDialect.given(delimiter or kind.delimiter, None))
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if _column_has_times([row.get(name) for row in rows])]


def column_names(path: str, format: str | None, delimiter: str | None) -> list[str]:  # noqa: A002  # as above
    """The names in the first line or row of a text file; nested keys as a.b."""
    kind = file_kind_of(path, format)
    if kind.format == "parquet":
        return []  # its own message lists them
    dialect = CsvDialect.given(delimiter or kind.delimiter, None)
    rows = first_rows_of_columns(path, kind, dialect)[:1]
    return [name for row in rows for name in _flat_columns(row)]


def _flat_columns(row: dict[str, Any], before: str = "") -> list[str]:
    found = []
    for name, value in row.items():
        inside = _flat_columns(value, f"{before}{name}.") if isinstance(value, dict) else []
        found += inside or [f"{before}{name}"]
    return found


def first_lines_of_text(path: str, kind: FileKind, rows: int = _ROWS) -> list[bytes]:
    """The first line of a text file and up to `rows` after it, as far as one read goes."""
    incoming = InputBytes(path, kind.compression)
    try:
        text = next(read_lines(incoming)).text
    except StopIteration:
        return []
    finally:
        incoming.close()
    return text.removeprefix(b"\xef\xbb\xbf").split(b"\n")[: rows + 1]


def first_rows_of_columns(
    path: str, kind: FileKind, dialect: CsvDialect, rows: int = _ROWS
) -> list[dict[str, Any]]:
    """The first rows of a text file, as columns by name; none if they cannot be read."""
    lines = first_lines_of_text(path, kind, rows)
    try:
        if kind.format == "jsonl":
            found = [json.loads(line) for line in lines if line.strip()]
            return [row for row in found if isinstance(row, dict)]
        header, *others = ([field.decode() for field in dialect.fields(line)] for line in lines)
    except ValueError:  # not JSON, or not UTF-8: who reads the values says where
        return []
    return [dict(zip(header, row, strict=False)) for row in others if len(row) == len(header)]


def _column_has_times(values: list[Any]) -> bool:
    given = [value for value in values if value not in (None, "")]
    if not given or not all(isinstance(value, str | int | float) for value in given):
        return False
    try:
        numbers = [abs(float(value)) for value in given]
    except ValueError:
        numbers = []
    if numbers and min(numbers) < _EARLIEST:
        return False
    try:
        read_times(given)
    except InputError:
        return False
    return True
