"""Reports from a file or a pipe, line by line, whatever the lines hold."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.io.errors import SourceError
from tidegate.io.incoming import Incoming
from tidegate.io.kinds import kind_of
from tidegate.io.lines import LineTooLongError, read_lines


def report_lines(path: str) -> Iterator[list[bytes]]:
    """Lines that are not blank, as soon as they are there. Compressed files are told by name."""
    kind = kind_of(path, "jsonl" if path == "-" else None)
    if kind.format != "jsonl":
        raise SourceError(None, "must be JSON lines: its name must end in .jsonl", path)
    incoming = Incoming(path, kind.compression)
    try:
        for lines in read_lines(incoming):
            yield [line for line in lines.text.split(b"\n") if line.strip()]
    except LineTooLongError:
        raise SourceError(None, "has a line that is longer than any report", path) from None
    finally:
        incoming.close()
