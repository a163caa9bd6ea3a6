"""The Parquet sink: row groups of equal length, in a file that appears when complete."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tidegate._context_managers import Completed
from tidegate.clock import Clock
from tidegate.io.errors import SinkError
from tidegate.io.metadata_files import KEY, encode_metadata
from tidegate.io.output_file_or_pipe import Bytes, OutputBytes
from tidegate.io.released_row_text import NAMES
from tidegate.io.text_sink import Levels, PositionsOfSink, Times
from tidegate.lattice import FloatArray, IntArray
from tidegate.tables.arrow import to_arrow
from tidegate.tables.optional_libraries import require_library_for_files

GROUP_ROWS = 1 << 20
"""Rows of a row group, for any lengths of writes."""


class ParquetSink(Completed):
    """Columns `position` (int64), `value` and perhaps `level` (float64); public facts under the key
    `tidegate`.
    """

    def __init__(
        self,
        path: str | Path | None,
        metadata: Mapping[str, object] | None,
        *,
        leveled: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._arrow = require_library_for_files("pyarrow")
        self._positions = PositionsOfSink(None, leveled=leveled, timed=clock is not None)
        self._names = NAMES[2 : 4 if leveled else 3]
        self._clock = clock
        self._times: IntArray = np.zeros(0 if clock is None else GROUP_ROWS, dtype=np.int64)
        self._facts = None if metadata is None else encode_metadata(metadata)
        self._waiting: FloatArray = np.empty((len(self._names), GROUP_ROWS))
        self._filled = 0
        self._torn = False  # a write failed: what the writer took is not known
        self._start: int | None = None  # position of the first row that waits
        self._outgoing = OutputBytes(path, whole=True)
        self._file = self._arrow.PythonFile(ParquetTarget(self._outgoing), mode="w")
        try:
            self._writer = self._open_writer()
        except BaseException:
            self.abort()
            raise

    def __repr__(self) -> str:
        return f"<ParquetSink {self._outgoing.name}>"

    def _open_writer(self) -> Any:
        times = []
        if self._clock is not None:  # nanoseconds: every time that was given
            kind = self._arrow.timestamp("ns", tz=self._clock.zone)
            times = [self._arrow.field("time", kind, nullable=False)]
        position = self._arrow.field("position", self._arrow.int64(), nullable=False)
        numbers = [
            self._arrow.field(name, self._arrow.float64(), nullable=False) for name in self._names
        ]
        plain = dict.fromkeys(self._names, "PLAIN")
        return require_library_for_files("pyarrow.parquet").ParquetWriter(
            self._file,
            self._arrow.schema([*times, position, *numbers]),
            # Measured: positions shrink to nothing as differences; a dictionary of noisy values
            # costs half the speed and saves nothing; snappy is cheap and read everywhere.
            compression="snappy",
            use_dictionary=False,
            column_encoding={
                **dict.fromkeys(("time", "position")[not times :], "DELTA_BINARY_PACKED"),
                **plain,
            },
            write_statistics=["time", "position"][not times :],
        )

    def write(
        self, first_position: int, values: FloatArray, levels: Levels = None, times: Times = None
    ) -> None:
        """Write rows from `first_position` on, which follow those of the last call."""
        columns = self._positions.check(first_position, values, levels, times)
        size = columns[0].size
        torn, self._torn = self._torn, True
        self._outgoing.broken |= torn
        if self._start is None:
            self._start = first_position
        at = 0
        while at < size:
            take = min(size - at, GROUP_ROWS - self._filled)
            part = [column[at : at + take] for column in columns]
            if take == GROUP_ROWS:  # a whole group: no copy
                self._write_group(part, None if times is None else times[at : at + take])
            else:
                self._waiting[:, self._filled : self._filled + take] = part
                if times is not None:
                    self._times[self._filled : self._filled + take] = times[at : at + take]
                self._filled += take
                if self._filled == GROUP_ROWS:
                    self._write_group(list(self._waiting), self._times)
            at += take
        self._torn = False

    def _write_group(self, columns: Sequence[FloatArray], times: IntArray | None) -> None:
        start, size = self._start or 0, columns[0].size
        positions = np.arange(start, start + size, dtype=np.int64)
        arrays = [to_arrow(column) for column in (positions, *columns)]
        if times is not None and self._clock is not None:
            arrays.insert(0, to_arrow(times).cast(self._writer.schema.field("time").type))
        self._guarded(
            self._writer.write_batch,
            self._arrow.record_batch(arrays, schema=self._writer.schema),
            row_group_size=GROUP_ROWS,
        )
        self._start = start + size
        self._filled = 0

    def _guarded(self, call: Any, *arguments: Any, **options: Any) -> None:
        with refused_parquet_writes(self._arrow, self._outgoing.name, self.abort):
            call(*arguments, **options)

    def flush(self, *, sync: bool = False) -> None:
        """Do nothing: a Parquet file appears when it is complete."""

    def set_metadata(self, metadata: Mapping[str, object]) -> None:
        """Replace the public facts about this file."""
        self._facts = encode_metadata(metadata)

    def close(self) -> None:
        """Complete the file, durably."""
        if self._outgoing.closed:
            return
        try:
            if self._torn or self._outgoing.broken:
                self._outgoing.broken = True
                self._outgoing.close()  # raises, and leaves nothing behind
                return
            if self._filled:
                self._write_group(
                    list(self._waiting[:, : self._filled]), self._times[: self._filled]
                )
            if self._facts is not None:
                self._guarded(self._writer.add_key_value_metadata, {KEY: self._facts})
            self._guarded(self._writer.close)
            self._outgoing.close()
        finally:
            self.abort()

    def abort(self) -> None:
        """Discard the file."""
        self._outgoing.abort()


@contextmanager
def refused_parquet_writes(arrow: Any, name: str, abort: Callable[[], None]) -> Iterator[None]:
    """Discard a file that cannot be written, with our own error."""
    try:
        yield
    except SinkError:
        abort()
        raise
    except (arrow.ArrowException, OSError):
        abort()
        raise SinkError(None, "cannot be written", name) from None


class ParquetTarget:
    """The methods of a Python file that pyarrow needs."""

    closed = False

    def __init__(self, outgoing: OutputBytes) -> None:
        self._outgoing = outgoing

    def write(self, data: Bytes) -> int:
        """Pass bytes on, as long as the file is open."""
        if not self._outgoing.closed:  # a writer that was given up still writes its footer
            self._outgoing.write(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""

    def close(self) -> None:
        """Do nothing: the file itself stays open."""
        self.closed = True
