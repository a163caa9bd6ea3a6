"""`open_source`: open an input."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidegate.errors import SettingError
from tidegate.io.batches import Source
from tidegate.io.column_choice import WantedColumn
from tidegate.io.csv_dialect import CsvDialect
from tidegate.io.csv_rows import CsvRows
from tidegate.io.file_kind_and_row_count import FileKind, file_kind_of, is_standard
from tidegate.io.input_file_or_pipe import InputBytes
from tidegate.io.json_rows import JsonRows
from tidegate.io.parquet_source import ParquetSource
from tidegate.io.text_source import CsvOrJsonSource, TextSource
from tidegate.io.time_reader import TimeFormat, TimeReader


def open_source(
    path: str | Path | None,
    *,
    format: str | None = None,  # noqa: A002  # the name of the setting on the command line too
    column: str | Sequence[str] | None = None,
    user_column: str | None = None,
    by: str | None = None,
    time: str | None = None,
    zone: str | None = None,
    time_format: str | None = None,
    late: str = "refuse",
    header: bool | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    follow: bool = False,
    count: bool = False,
    events: bool = False,
) -> Source:
    """Open a stream of numbers: a file of any size, a pipe or standard input (None or "-").

    Memory stays bounded, and rows that arrive through a pipe are given at once. What a row without
    a number means: an empty field, `nan`, `null`, a key that is not there and a blank line, also
    the first or the last one, is a missing value (NaN); anything else is an error after the rows
    before it. So the number of rows is that of the lines, whatever the values are: end every line,
    for a last one that is empty and has no line end cannot be seen.

    Args:
        path: the file; its extension tells the kind.
        format: one of `KINDS`, where the extension does not.
        column: a name in the CSV's header or a number from 0, a key of JSON Lines (which need one),
            a Parquet column. None: the only one, or the one called "value". With several columns,
            `Batch.values` has the first and `Batch.others` the rest.
        user_column: who a row belongs to, for privacy per user.
        by: the column with the key of a row, for `tidegate.keyed`; batches have it as `users`.
        time: the column with the time of a row, carried through to the output; public.
        zone: where times without a zone were written, such as Europe/Berlin; None: they stay so.
        time_format: how times are written, as a pattern of `datetime.strptime`; None: ISO 8601, or
            numbers since 1970.
        late: what to do with a row that is older than one before it: "refuse" it, or "keep" it at
            its place, where it counts as if it came at the newest time so far.
        header: whether the first line of a CSV file names the columns. None: it does if a column
            is asked for by name, or else if none is and one of its fields is the word `value`.
        delimiter: what separates the fields of a CSV file: a comma (None), ";", "|" or "tab".
        decimal: the decimal sign of a CSV file: "." (None) or ",".
        follow: keep reading a growing CSV or JSONL file, until `close`.
        count: read times only: every row is an event that counts as one.
        events: rows are events: in an hour that comes twice, no row tells about another.

    Raises:
        SourceError: if it cannot be read.
        SettingError: if there is no such column; of a pipe, when the first row has come. It shows
            the names in the file only if they are certain to be names: Parquet, or `header=True`.
        InputError: while reading, at a row whose value is not a number. It names the row, counted
            from 0, and the column, never the content.
    """
    if count and (time is None or column is not None or user_column is not None):
        raise SettingError("count", "needs --time, and no other column")
    columns = [column] if isinstance(column, str | None) else column
    wanted = [] if count else [WantedColumn(one) for one in columns]
    if user_column is not None:
        wanted.append(WantedColumn(user_column, "user_column", numeric=False))
    if by is not None:
        if user_column is not None:
            raise SettingError("by", "cannot be used with --user-column")
        wanted.append(WantedColumn(by, "by", numeric=False))
    if time is not None:
        wanted.append(WantedColumn(time, "time", numeric=False, time=True))
    for name, value in (("zone", zone), ("time-format", time_format)):
        if time is None and value is not None:
            raise SettingError(name, "needs --time")
    kind = file_kind_of(path, format)
    dialect = _dialect_to_open(kind, delimiter, decimal)
    written = None if time_format is None else TimeFormat(time_format)
    reader = None if time is None else TimeReader(zone, late, written, events=events or count)
    if is_standard(path) and format is None and (header, delimiter, decimal) == (None, None, None):
        return TextSource(InputBytes(path, follow=follow), CsvOrJsonSource(wanted), wanted, reader)
    return open_columns(
        path, kind, wanted, header=header, dialect=dialect, follow=follow, times=reader
    )


def open_keys(
    path: str | Path,
    *,
    by: str,
    format: str | None = None,  # noqa: A002  # as above
    header: bool | None = None,
    delimiter: str | None = None,
    decimal: str | None = None,
) -> Source:
    """Only the keys of a file, as `open_source` would read them, for counting rows."""
    kind = file_kind_of(path, format)
    dialect = _dialect_to_open(kind, delimiter, decimal)
    return open_columns(
        path, kind, [WantedColumn(by, "by", numeric=False)], header=header, dialect=dialect
    )


def _dialect_to_open(kind: FileKind, delimiter: str | None, decimal: str | None) -> CsvDialect:
    for name, value in (("delimiter", delimiter), ("decimal", decimal)):
        if value is not None and kind.format != "csv":
            raise SettingError(name, "is for CSV: other formats have one way to write a number")
    return CsvDialect.given(kind.delimiter if delimiter is None else delimiter, decimal)


def open_columns(
    path: str | Path | None,
    kind: FileKind,
    wanted: list[WantedColumn],
    *,
    header: bool | None = None,
    dialect: CsvDialect | None = None,
    follow: bool = False,
    skipped: int = 0,
    times: TimeReader | None = None,
) -> TextSource | ParquetSource:
    """Any columns of any kind of file; for text, skip `skipped` bytes except the header."""
    if header is not None and kind.format != "csv":
        raise SettingError("header", "is for CSV: other formats name their columns themselves")
    if kind.format == "parquet":
        if follow:
            raise SettingError("follow", "needs a plain CSV or JSONL file")
        return ParquetSource(InputBytes(path), wanted, times)
    csv = kind.format == "csv"
    rows = (
        CsvRows(wanted, header, dialect or CsvDialect(kind.delimiter)) if csv else JsonRows(wanted)
    )
    return TextSource(
        InputBytes(path, kind.compression, follow=follow, skipped=skipped), rows, wanted, times
    )
