"""Complete lines, as soon as they are complete.

A line end always ends a row, also inside quotes: an unbalanced quote then costs one row an error,
and does not swallow the rest of the stream in search of its partner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tidegate.io.errors import SourceError
from tidegate.io.incoming import Incoming

BLOCK = 1 << 20  # bytes read at once: no block has more lines than a batch may have rows
LONGEST_LINE = 1 << 24
_MARK = b"\xef\xbb\xbf"  # of UTF-8, which some editors put first

_NOT_TEXT = {
    b"\x1f\x8b": "is gzip data: its name must end in .gz, or give the format as csv.gz, jsonl.gz",
    b"\x28\xb5\x2f\xfd": "is zstd data: its name must end in .zst, or give the format as csv.zst",
    b"PAR1": "is a Parquet file: give the format as parquet",
    b"\xff\xfe": "is UTF-16 text: convert it to UTF-8",
    b"\xfe\xff": "is UTF-16 text: convert it to UTF-8",
}


class LineTooLongError(Exception):
    """For whoever knows the position. Memory stays bounded, whatever is fed in as lines."""


@dataclass(frozen=True, slots=True, repr=False)
class Lines:
    """Whole lines, each ended by a newline; `blank` empty ones before them are not in `text`.

    `torn`: the input ended inside the last line; it was given its newline here.
    """

    text: bytes
    count: int
    blank: int = 0
    torn: bool = False


def read_lines(incoming: Incoming) -> Iterator[Lines]:
    """All lines but the blank ones at the very end, which are no rows.

    Whether a blank line is at the end is not known until another comes, so it is held back; in the
    midst it is a row without a value, for a position never shifts. A followed file has no end: what
    is unfinished when it is closed is not given.
    """
    rest: list[bytes] = []
    waiting = 0
    blank = 0
    first = True
    while data := incoming.read(BLOCK):
        if first:
            data, first = _start(data, incoming), False
        cut = data.rfind(b"\n") + 1
        if cut:
            text = b"".join((*rest, data[:cut])) if rest else data[:cut]
            rest, waiting = [], 0
            text, after = _without_blank_end(text)
            if text:
                yield Lines(text, _count(text), blank)
                blank = 0
            blank += after
        if cut < len(data):
            rest.append(data[cut:])
            waiting += len(data) - cut
        if waiting > LONGEST_LINE:
            raise LineTooLongError
    text = b"".join(rest)
    if text.strip() and not incoming.followed:
        yield Lines(text + b"\n", 1, blank, torn=True)


def _start(data: bytes, incoming: Incoming) -> bytes:
    while data != _MARK and _MARK.startswith(data) and (more := incoming.read(1)):
        data += more  # the mark itself may come in pieces
    for magic, problem in _NOT_TEXT.items():
        if data.startswith(magic):
            raise SourceError(None, problem, incoming.name)
    return data.removeprefix(_MARK)


def _without_blank_end(text: bytes) -> tuple[bytes, int]:
    if text[-2:].strip():  # the common case, without a copy
        return text, 0
    body = text.rstrip()
    if not body:
        return b"", _count(text)
    end = text.index(b"\n", len(body)) + 1
    return text[:end], _count(text[end:])


def _count(text: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(text, dtype=np.uint8) == 10))
