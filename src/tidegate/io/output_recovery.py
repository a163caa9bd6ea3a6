"""After a crash: count the complete rows of an output, and cut off an incomplete row.

Only the head and the tail are read, so the time does not depend on the size of the file. Nothing is
changed unless both look like ours.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tidegate import _atomic_files
from tidegate.errors import SettingError
from tidegate.io.errors import SinkError, sink_error
from tidegate.io.file_kind_and_row_count import FileKind, file_kind_of, is_standard
from tidegate.io.released_row_text import names_of_released_row, released_csv_header

_READ_BYTES = 1 << 16  # bytes read at either end
_NUMBER = rb"-?[0-9a-z.+-]{1,32}"
_TIME = rb"[0-9T:.Z+-]{1,40}"
_PARTS = {"time": _TIME, "position": rb"(\d{1,18})", "value": _NUMBER, "level": _NUMBER}
_COLUMNS = [
    names_of_released_row(leveled=leveled, timed=timed)
    for leveled in (True, False)
    for timed in (True, False)
]


def _output_row_of(names: Sequence[str], delimiter: str | None) -> re.Pattern[bytes]:
    if delimiter is not None:
        return re.compile(delimiter.encode().join(_PARTS[name] for name in names))
    quote = {"time": b'"?'}
    members = [
        b'"%b":%b%b%b' % (name.encode(), quote.get(name, b""), _PARTS[name], quote.get(name, b""))
        for name in names
    ]
    return re.compile(rb"\{" + b",".join(members) + rb"\}")


# By what separates the fields; None: JSON Lines.
_ROWS = {
    delimiter: {columns: _output_row_of(columns, delimiter) for columns in _COLUMNS}
    for delimiter in (",", "\t", None)
}


@dataclass(frozen=True)
class Recovered:
    """The number of complete rows, the position of the first, and the columns.

    `columns` is None where neither a row nor a header tells.
    """

    rows: int
    first: int = 0
    columns: tuple[str, ...] | None = None


def recoverable(
    path: str | Path | None,
    format: str | None = None,  # noqa: A002  # as in open_source
) -> bool:
    """Whether a file of this kind can be continued after a crash; others must be rewritten."""
    return not is_standard(path) and file_kind_of(path, format).recoverable


def recover_rows(
    path: str | Path,
    format: str | None = None,  # noqa: A002  # as in open_source
) -> int:
    """The number of complete rows, after cutting off an incomplete one. 0 if there is no file."""
    return recover(path, format).rows


def recover(
    path: str | Path,
    format: str | None = None,  # noqa: A002  # as in open_source
) -> Recovered:
    """`recover_rows`, with the position of the first row.

    Raises:
        SinkError: if this is not a file that `open_sink` wrote; it is left as it was.
    """
    if not recoverable(path, format):
        raise SettingError("format", "only plain CSV and JSONL files can be continued")
    kind = file_kind_of(path, format)
    name = os.fspath(path)
    try:
        with os.fdopen(_atomic_files.open_file(path, os.O_RDWR), "r+b") as file:
            return _mend_output(file, _delimiter_of_output(kind), name)
    except FileNotFoundError:
        return Recovered(0)
    except OSError as error:
        raise (error if isinstance(error, SinkError) else sink_error(error, name)) from None


def _delimiter_of_output(kind: FileKind) -> str | None:
    return kind.delimiter if kind.format == "csv" else None


def _mend_output(file: BinaryIO, delimiter: str | None, name: str) -> Recovered:
    size = file.seek(0, os.SEEK_END)
    head = _read_output(file, 0, _READ_BYTES)
    written = head.rstrip(b"\0")  # after a power cut, blocks that never came are zeros
    end = _end_of_output_lines(file, size)
    header, columns = _output_header(written, head[:end], delimiter, name)
    row = _ROWS[delimiter][columns or _COLUMNS[0]]
    first: list[int] = []
    last: list[int] = []
    if end > len(header):
        first = _output_positions(head[len(header) : end], row, name)
        start = max(len(header), end - _READ_BYTES)
        tail = _read_output(file, start, end - start)
        if start > len(header):  # its first line may be cut
            tail = tail[tail.index(b"\n") + 1 :]
        last = _output_positions(tail, row, name)
    if end < size:
        starts = b"{" if delimiter is None else b"0123456789"
        expected = header[:1] if end < len(header) else starts
        if _read_output(file, end, 1) not in {b"\0", *(bytes([byte]) for byte in expected)}:
            raise _damaged_output(name)
        _atomic_files.truncate(file.fileno(), end)
    if not first:
        return Recovered(0, columns=columns)
    rows = last[-1] - first[0] + 1
    if rows < max(len(first), len(last)):
        raise _damaged_output(name)
    return Recovered(rows, first[0], columns)


def _output_header(
    written: bytes, lines: bytes, delimiter: str | None, name: str
) -> tuple[bytes, tuple[str, ...] | None]:
    """The (perhaps incomplete) header of a file; and its columns, if known."""
    if delimiter is None:
        first = lines.partition(b"\n")[0]
        return b"", next((on for on, row in _ROWS[None].items() if row.fullmatch(first)), None)
    for columns in _COLUMNS:
        header = released_csv_header(columns, delimiter)
        if written.startswith(header):
            return header, columns
        if header.startswith(written):
            return header, None
    raise SinkError(None, "was not written by Tidegate: it has another header", name)


def last_position_to_recover(path: str | Path, format: str | None = None) -> int | None:  # noqa: A002  # as in open_source
    """The largest position near the end of a damaged file. None: there is none."""
    patterns = _ROWS[_delimiter_of_output(file_kind_of(path, format))].values()
    with Path(path).open("rb") as file:
        end = _end_of_output_lines(file, file.seek(0, os.SEEK_END))
        lines = _read_output(file, max(0, end - _READ_BYTES), min(end, _READ_BYTES)).split(b"\n")
    found = [
        match for line in lines for row in patterns if (match := row.fullmatch(line.lstrip(b"\0")))
    ]
    return max((int(match[1]) for match in found), default=None)


def _output_positions(text: bytes, row: re.Pattern[bytes], name: str) -> list[int]:
    """The positions in the complete lines of `text`, which must be consecutive."""
    positions: list[int] = []
    for line in text[: text.rfind(b"\n") + 1].split(b"\n")[:-1]:
        match = row.fullmatch(line)
        if match is None or (positions and int(match[1]) != positions[-1] + 1):
            raise _damaged_output(name)
        positions.append(int(match[1]))
    return positions


def _damaged_output(name: str) -> SinkError:
    return SinkError(None, "is damaged, or was not written by Tidegate: rows do not count up", name)


def _end_of_output_lines(file: BinaryIO, size: int) -> int:
    """The end of the last complete line. After a power cut, zero blocks may follow it."""
    end = size
    while end:
        start = max(0, end - _READ_BYTES)
        newline = _read_output(file, start, end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _read_output(file: BinaryIO, start: int, count: int) -> bytes:
    file.seek(start)
    return file.read(count)
