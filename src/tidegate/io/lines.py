"""Split incoming bytes into lines, as soon as they are complete.

A line end always ends a row, also inside quotes: an unbalanced quote then costs one row an error,
and does not swallow the rest of the stream in search of its partner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tidegate.io.errors import SourceError
from tidegate.io.input_file_or_pipe import InputBytes

BLOCK = 1 << 20  # bytes read at once: no block has more lines than a batch may have rows
LONGEST_LINE = 1 << 24
_MARK = b"\xef\xbb\xbf"  # of UTF-8, which some editors put first

_CONVERT = "convert it to UTF-8, for example with iconv -f utf-16 -t utf-8"
_NOT_TEXT = {
    b"\x1f\x8b": "is gzip data: its name must end in .gz, or give the format as csv.gz, jsonl.gz",
    b"\x28\xb5\x2f\xfd": "is zstd data: its name must end in .zst, or give the format as csv.zst",
    b"PK\x03\x04": "is an Excel workbook or a zip archive: save the sheet as CSV, or unpack it",
    b"\xd0\xcf\x11\xe0": "is an Excel workbook: save the sheet as CSV",
    b"PAR1": "is a Parquet file: give the format as parquet",
    b"SQLite format 3": "is a database of SQLite: export the table as CSV or Parquet",
    b"ARROW1": "is an Arrow (Feather) file: write it as Parquet",
    b"\xff\xfe": f"is UTF-16 text: {_CONVERT}",
    b"\xfe\xff": f"is UTF-16 text: {_CONVERT}",
}


class LineTooLongError(Exception):
    """A line is too long for memory; the caller knows its position."""


@dataclass(frozen=True, slots=True, repr=False)
class Lines:
    """Complete lines, each with its newline.

    `torn`: the input ended inside the last line; it was given its newline here.
    """

    text: bytes
    count: int
    torn: bool = False


def read_lines(incoming: InputBytes) -> Iterator[Lines]:
    """Read all lines, including blank ones: a blank line is a row without a value.

    So there are as many rows as line ends, and one more for a last line without one. Whether a
    value is missing changes neither that number nor when a row is given. A followed file has no
    end: what is unfinished when it is closed is not given.
    """
    rest: list[bytes] = []
    waiting = 0
    first, begun = True, False
    while data := incoming.read(BLOCK):
        if first:
            data, first = _start_of_lines(data, incoming), False
        cut = data.rfind(b"\n") + 1
        if cut:
            text = b"".join((*rest, data[:cut])) if rest else data[:cut]
            rest, waiting = [], 0
            yield Lines(text, _count_lines(text))
        if cut < len(data):
            rest.append(data[cut:])
            waiting += len(data) - cut
        begun = begun or cut > 0
        if waiting > LONGEST_LINE:
            _refuse_old_line_ends(b"" if begun else b"".join(rest), incoming)
            raise LineTooLongError
    text = b"".join(rest)
    if text and not incoming.followed:
        _refuse_old_line_ends(b"" if begun else text, incoming)
        yield Lines(text + b"\n", 1, torn=True)


def _start_of_lines(data: bytes, incoming: InputBytes) -> bytes:
    while data != _MARK and _MARK.startswith(data) and (more := incoming.read(1)):
        data += more  # the mark itself may come in pieces
    for magic, problem in _NOT_TEXT.items():
        if data.startswith(magic):
            raise SourceError(None, problem, incoming.name)
    odd, even = data[1:8:2], data[:8:2]
    if len(data) >= 8 and any(data[:8]) and not (any(odd) and any(even)):  # two bytes a letter
        problem = f"looks like UTF-16 text without a byte order mark: {_CONVERT}"
        raise SourceError(None, problem, incoming.name)
    return data.removeprefix(_MARK)


def _refuse_old_line_ends(only_line: bytes, incoming: InputBytes) -> None:
    """Refuse an input without newlines but with carriage returns.

    Known at its end only: the first piece of a pipe may stop anywhere.
    """
    if only_line.rstrip(b"\r").count(b"\r") > 1:
        problem = "has line ends of old Macs (CR): convert them, with tr '\\r' '\\n'"
        raise SourceError(None, problem, incoming.name)


def _count_lines(text: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(text, dtype=np.uint8) == 10))
