"""Read reports from a file or a pipe line by line; lines may hold anything."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.errors import SettingError
from tidegate.io.errors import SourceError
from tidegate.io.file_kind_and_row_count import FileKind, file_kind_of
from tidegate.io.input_file_or_pipe import InputBytes
from tidegate.io.lines import LineTooLongError, read_lines

_WRONG_NAME = "must be JSON lines: its name must end in .jsonl, or pipe it in"


def report_lines(path: str) -> Iterator[list[bytes]]:
    """Non-blank lines as soon as they arrive. The name tells whether a file is compressed."""
    kind = _kind_of_report_lines(path)
    if kind is None or kind.format != "jsonl":
        raise SourceError(None, _WRONG_NAME, path)
    incoming = InputBytes(path, kind.compression)
    try:
        for lines in read_lines(incoming):
            yield [line for line in lines.text.split(b"\n") if line.strip()]
    except LineTooLongError:
        raise SourceError(None, "has a line that is longer than any report", path) from None
    finally:
        incoming.close()


def _kind_of_report_lines(path: str) -> FileKind | None:
    try:
        return file_kind_of(path, "jsonl" if path == "-" else None)
    except SettingError:  # it offers formats, and an option that there is not
        return None
