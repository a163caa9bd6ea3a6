"""How a text file wants to be read: separator, decimal sign and form of times, by its first rows.

For `tidegate check` alone, which only the owner of the data sees: it shows what was found and puts
it into the command that it suggests. A release is told how to read, and never guesses.
"""

from __future__ import annotations

from datetime import datetime
from itertools import product
from typing import Any

from tidegate.io.column_choice import first_lines_of_text, first_rows_of_columns
from tidegate.io.csv_dialect import CsvDialect
from tidegate.io.file_kind_and_row_count import FileKind, file_kind_of, is_standard

_SEPARATORS = {";": ";", "\t": "tab", "|": "|", ",": ","}  # as --delimiter takes them
_ROWS = 2000  # enough to see a day after the twelfth, which tells days from months
_TITLES = 5
_DATES = ("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d")
_CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_PATTERNS = tuple(date + clock for date, clock in product(_DATES, _CLOCKS))


def found_reading_options(source: str, given: dict[str, Any]) -> dict[str, Any]:
    """The options of reading that were given, and those that the file shows.

    `given`: header, delimiter, decimal and format of the command line; None: not given.
    """
    if is_standard(source):
        return given
    kind = file_kind_of(source, given["format"])
    if kind.format != "csv":
        return given
    lines = [line for line in first_lines_of_text(source, kind, _ROWS) if line.strip()]
    delimiter, decimal = given["delimiter"], given["decimal"]
    if delimiter is None:
        delimiter = _delimiter_of_lines(lines, kind)
    if decimal is None:
        decimal = _decimal_of_lines(lines, CsvDialect.given(delimiter or kind.delimiter, None))
    return {**given, "delimiter": delimiter, "decimal": decimal}


def reading_facts(given: dict[str, Any], found: dict[str, Any]) -> list[tuple[str, str]]:
    """What was found, for the owner."""
    said = [
        f"--{name} '{found[name]}'"
        for name in ("delimiter", "decimal")
        if found[name] != given[name]
    ]
    return [("read with", " ".join(said) + " (found in the first rows)")] if said else []


def columns_with_time_patterns(path: str, reading: dict[str, Any]) -> dict[str, str]:
    """Columns whose first values are times that only --time-format reads, with its pattern.

    Where days and months cannot be told apart, a column is left out.
    """
    kind = file_kind_of(path, reading["format"])
    if kind.format == "parquet" or reading["header"] is False:
        return {}
    dialect = CsvDialect.given(reading["delimiter"] or kind.delimiter, None)
    rows = first_rows_of_columns(path, kind, dialect, _ROWS)
    names = dict.fromkeys(name for row in rows for name in row)
    found = {}
    for name in names:
        texts = {str(row[name]).strip() for row in rows if row.get(name) not in (None, "")}
        patterns = [pattern for pattern in _PATTERNS if texts and _all_match(texts, pattern)]
        if len(patterns) == 1:
            found[name] = patterns[0]
    return found


def _delimiter_of_lines(lines: list[bytes], kind: FileKind) -> str | None:
    """What separates the same number of fields in every line; None: what is expected, or nothing.

    Titles above the names are passed over: who reads the values says in which line the names are.
    """
    for titles in range(min(_TITLES, len(lines) - 1)):
        widths = {sign: _width_of_lines(lines[titles:], sign) for sign in _SEPARATORS}
        if widths[kind.delimiter]:
            return None
        sign = max(widths, key=widths.__getitem__)
        if widths[sign]:
            return _SEPARATORS[sign]
    return None


def _width_of_lines(lines: list[bytes], sign: str) -> int:
    """How many fields every line has; 0: one, or not all the same number."""
    dialect = CsvDialect.given(sign, ".")
    widths = {len(dialect.fields(line)) for line in lines}
    return widths.pop() if len(widths) == 1 and max(widths) > 1 else 0


def _decimal_of_lines(lines: list[bytes], dialect: CsvDialect) -> str | None:
    """A comma, if some column has numbers with one, and none that only points explain."""
    if dialect.delimiter == ",":
        return None
    with_commas = CsvDialect(dialect.delimiter, ",")
    columns = zip(*(dialect.fields(line) for line in lines[1:]), strict=False)
    for column in columns:
        fields = [field for field in column if field.strip()]
        numbers = [with_commas.number(field) is not None for field in fields]
        if any(b"," in field for field in fields) and all(numbers):
            return ","
    return None


def _all_match(texts: set[str], pattern: str) -> bool:
    try:
        for text in texts:
            datetime.strptime(text, pattern)  # noqa: DTZ007  # only whether it can be read
    except ValueError:
        return False
    return True
