"""Find the columns of a file that look like times, from its first rows."""

from __future__ import annotations

import json
from typing import Any

from tidegate.errors import InputError
from tidegate.io.csv_dialect import Dialect
from tidegate.io.file_formats import Kind, has_tabs, kind_of
from tidegate.io.incoming import Incoming
from tidegate.io.lines import read_lines
from tidegate.io.optional import require
from tidegate.timestamps import read_times

_ROWS = 20
_EARLIEST = 10**8  # seconds since 1970: smaller numbers are hardly times


def time_columns(path: str, format: str | None, delimiter: str | None) -> list[str]:  # noqa: A002  # as in open_source
    """The names of columns whose first values can all be read as times; there must be names."""
    kind = kind_of(path, format)
    if kind.format == "parquet":
        schema = require("pyarrow.parquet").read_schema(path)
        return [field.name for field in schema if str(field.type).startswith(("timestamp", "date"))]
    separator = "tab" if delimiter is None and has_tabs(path) else delimiter
    rows = _first_rows(path, kind, Dialect.given(separator, None))
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if _are_times([row.get(name) for row in rows])]


def column_names(path: str, format: str | None, delimiter: str | None) -> list[str]:  # noqa: A002  # as above
    """The names in the first line or row of a text file; keys inside of objects as a.b."""
    kind = kind_of(path, format)
    if kind.format == "parquet":
        return []  # its own message lists them
    separator = "tab" if delimiter is None and has_tabs(path) else delimiter
    rows = _first_rows(path, kind, Dialect.given(separator, None))[:1]
    return [name for row in rows for name in _flat(row)]


def _flat(row: dict[str, Any], before: str = "") -> list[str]:
    found = []
    for name, value in row.items():
        inside = _flat(value, f"{before}{name}.") if isinstance(value, dict) else []
        found += inside or [f"{before}{name}"]
    return found


def _first_rows(path: str, kind: Kind, dialect: Dialect) -> list[dict[str, Any]]:
    incoming = Incoming(path, kind.compression)
    try:
        text = next(read_lines(incoming)).text
    except StopIteration:
        return []
    finally:
        incoming.close()
    lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")[: _ROWS + 1]
    try:
        if kind.format == "jsonl":
            found = [json.loads(line) for line in lines if line.strip()]
            return [row for row in found if isinstance(row, dict)]
        header, *rows = ([field.decode() for field in dialect.fields(line)] for line in lines)
    except ValueError:  # not JSON, or not UTF-8: who reads the values says where
        return []
    return [dict(zip(header, row, strict=False)) for row in rows if len(row) == len(header)]


def _are_times(values: list[Any]) -> bool:
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
