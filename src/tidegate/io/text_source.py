"""CSV and JSON Lines as a source: from a file, a pipe, or a file that grows.

Standard input is CSV, or JSON Lines if its first line begins with a brace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tidegate._context_managers import Closed
from tidegate.errors import InputError, SettingError
from tidegate.io.batches import Batch, object_array
from tidegate.io.column_choice import WantedColumn
from tidegate.io.csv_rows import CsvRows
from tidegate.io.errors import SourceError
from tidegate.io.input_file_or_pipe import InputBytes
from tidegate.io.json_rows import JsonRows
from tidegate.io.lines import LONGEST_LINE, Lines, LineTooLongError, read_lines
from tidegate.io.time_reader import TimeReader, batch_with_times


class CsvOrJsonSource:
    """Decides by the first byte that is not blank. No number begins with a brace, nor does a name
    of a column that could be asked for: what the values are decides nothing.
    """

    def __init__(self, wanted: Sequence[WantedColumn]) -> None:
        self._wanted = wanted
        self._rows: CsvRows | JsonRows = CsvRows(wanted)
        self._known = False

    @property
    def json_lines(self) -> bool:
        """Whether the first row was an object."""
        return isinstance(self._rows, JsonRows)

    @property
    def doubt(self) -> str:
        """A remark on the first row; may be empty."""
        return getattr(self._rows, "doubt", "")

    def begin(self, line: bytes) -> bool | None:
        """Whether the first line names the columns. None: it is blank; the next may."""
        if not self._known and line.strip():
            self._known = True
            if line.lstrip().startswith(b"{"):
                self._rows = JsonRows(self._wanted)
        return self._rows.begin(line)

    def names_after(self, lines: Sequence[bytes]) -> int | None:
        """The first of these lines with the names of CSV. None: none has, or it is JSON."""
        return self._rows.names_after(lines) if isinstance(self._rows, CsvRows) else None

    def one(self, line: bytes, position: int) -> list[Any]:
        """The wanted fields of a row."""
        return self._rows.one(line, position)

    def many(self, text: bytes, count: int) -> list[NDArray[Any]] | None:
        """The wanted columns of a block."""
        return self._rows.many(text, count)


# Below this a block is read row by row: pyarrow takes longer to get going.
_SMALL = 2048
_HEADER_LINES = 20  # that are looked through for names


class TextRows(Protocol):
    """The format-specific part. `many` may decline; `one` decides."""

    def begin(self, line: bytes) -> bool | None:
        """Whether the first line names the columns. None: it is blank; ask the next."""

    def one(self, line: bytes, position: int) -> list[Any]:
        """The wanted fields of a row."""

    def many(self, text: bytes, count: int) -> list[NDArray[Any]] | None:
        """The wanted columns of a block."""


class TextSource(Closed):
    """Values, and users if wanted, from lines."""

    rows: int | None = None

    def __init__(
        self,
        incoming: InputBytes,
        layout: TextRows,
        wanted: list[WantedColumn],
        times: TimeReader | None = None,
    ) -> None:
        self._incoming = incoming
        self._times = times
        self._layout = layout
        self._wanted = wanted
        self._lines = read_lines(incoming)
        self._first: list[Lines] = []
        self._begun = False
        self._position = 0
        if incoming.size and not incoming.followed:  # a wrong column is known before work begins
            try:
                self._first = list(self._begin())
            except BaseException:
                self.close()
                raise

    def __repr__(self) -> str:
        return f"<TextSource {self._incoming.name}>"

    def when_idle(self, call: Callable[[], None]) -> None:
        """Call this function several times a second while a file is followed."""
        self._incoming.idle = call

    def batches(self) -> Iterator[Batch]:
        """The stream, once. Rows before a bad row come before its error."""
        for columns in self.arrays():
            yield from batch_with_times(columns, self._wanted, self._times)

    def arrays(self) -> Iterator[list[NDArray[Any]]]:
        """The wanted columns, piece by piece."""
        try:
            for lines in self._first or self._begin():
                yield from self._read(lines)
            for lines in self._lines:
                yield from self._read(lines)
        except LineTooLongError:
            raise InputError(
                f"row {self._position} is longer than {LONGEST_LINE >> 20} MiB"
            ) from None
        except SourceError as error:
            after = f"{error.strerror} (after {self._position} rows)"
            raise SourceError(error.errno, after, error.filename) from None

    def _begin(self) -> Iterator[Lines]:
        """The first lines, without the header."""
        if self._begun:
            return
        self._begun = True
        for lines in self._lines:
            header, start, end = None, 0, 0
            while header is None and end < len(lines.text):
                start, end = end, lines.text.index(b"\n", end) + 1
                try:
                    header = self._layout.begin(lines.text[start:end])
                except SettingError as error:
                    raise self._explained(error, lines.text, start) from None
            if header is None:
                continue
            text = lines.text[end if header else start :]
            if text:
                yield Lines(text, text.count(b"\n"), lines.torn)
            return

    def _explained(self, error: SettingError, text: bytes, start: int) -> SettingError:
        """The error about the header, naming a later line that looks like one."""
        names_after = getattr(self._layout, "names_after", None)
        following = text[start:].split(b"\n", _HEADER_LINES)[:_HEADER_LINES]
        number = None if names_after is None else names_after(following)
        if number is None:
            return error
        line = number + text[:start].count(b"\n")
        return SettingError(
            error.setting,
            f"is named in line {line}, not in the first: remove the lines before it, for example "
            f"with tail -n +{line}",
        )

    def _read(self, lines: Lines) -> Iterator[list[NDArray[Any]]]:
        if len(lines.text) > _SMALL:
            arrays = self._layout.many(lines.text, lines.count)
            if arrays is not None:
                self._position += lines.count
                yield arrays
                return
        yield from self._read_one_by_one(lines)

    def _read_one_by_one(self, lines: Lines) -> Iterator[list[NDArray[Any]]]:
        rows: list[list[Any]] = []
        problem: InputError | SettingError | None = None
        for line in lines.text.split(b"\n")[:-1]:
            try:
                rows.append(self._layout.one(line, self._position + len(rows)))
            except SettingError as error:  # there is no such column in the first row
                problem = error
                break
            except InputError as error:
                last = len(rows) == lines.count - 1
                problem = (
                    InputError(f"{error} (unfinished last line)") if lines.torn and last else error
                )
                break
        if rows:
            self._position += len(rows)
            columns = zip(*rows, strict=True)
            yield [
                np.array(items, dtype=np.float64) if column.numeric else object_array(list(items))
                for items, column in zip(columns, self._wanted, strict=True)
            ]
        if problem is not None:
            raise problem from None

    @property
    def doubt(self) -> str:
        """A remark on the names in the first row, or on times; may be empty."""
        about_times = "" if self._times is None else self._times.doubt
        return getattr(self._layout, "doubt", "") or about_times

    @property
    def format(self) -> str:
        """csv or jsonl; for standard input known after the first row."""
        json_lines = getattr(self._layout, "json_lines", isinstance(self._layout, JsonRows))
        return "jsonl" if json_lines else "csv"

    def fraction(self) -> float | None:
        """The share of the file that has been read."""
        return self._incoming.fraction()

    def close(self) -> None:
        """Close the file; a followed file ends."""
        self._incoming.close()
