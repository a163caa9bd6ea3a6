"""`Released`: released rows and their record: what `tg.release` returns and `tg.open` opens."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.guarantee import Guarantee
from tidegate.lattice import IntArray
from tidegate.record.range_queries_and_answers import Answers, RangeQueries
from tidegate.record.record import Record
from tidegate.record.rows_and_levels import Rows, small_picture_of_rows
from tidegate.record.times.time_index import TimeIndex
from tidegate.record.times.time_ranges_and_tables import end_of_time_range
from tidegate.released.released_plot import places_along_plot, plot_axis_label, plot_released
from tidegate.run.phased_run import Phase
from tidegate.run.pipeline import Pipeline
from tidegate.tables import html
from tidegate.tables.tables_from_numpy import Tabular

_DIGITS = 18  # of a position


def position_in_released(place: Any) -> int | None:
    """The position of a place in a stream. None: the place is a time."""
    text = str(place).strip()
    whole = text.isascii() and text.removeprefix("-").isdigit() and len(text) <= _DIGITS
    return int(text) if whole else None


class ReleasedTable(Tabular, RangeQueries):
    """Released rows that can be queried, plotted and exported. Holds nothing raw."""

    record: Record
    pipeline: Pipeline

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """The guarantee."""

    @property
    @abstractmethod
    def threshold(self) -> float | None:
        """θ in the unit of the data, the latest one."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The title of a plot."""

    @abstractmethod
    def rows(self) -> Rows:
        """All rows, in memory."""

    @property
    def times(self) -> TimeIndex | None:
        """The time index. None: the rows have no times."""
        return self.record.times

    @property
    def zone(self) -> str | None:
        """The zone of the times, if they have one."""
        return None if self.times is None else self.times.clock.zone

    @property
    def axis_label(self) -> str:
        """The label of a plot's horizontal axis."""
        return plot_axis_label(self.times)

    def along(self, ends: IntArray) -> NDArray[Any]:
        """The horizontal coordinates of these positions in a plot."""
        return places_along_plot(self.times, ends)

    def place(self, place: Any) -> int:
        """The position of a place in the stream: an integer, or a time."""
        position = position_in_released(place)
        if position is not None:
            return position
        index = self.record.time_index
        tick = end_of_time_range(index.clock, str(place).strip(), "a time of the range")
        return int(index.positions(np.array([tick]))[0])

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns: time (if there is one), position, value, level."""
        return self.rows().columns()

    def __len__(self) -> int:
        """The number of rows."""
        return self.record.end - self.record.start

    def plot(self, window: int | None = None, confidence: float = 0.95, ax: Any = None) -> Any:
        """Plot the level, and the moving average of `window` values with its error band.

        Needs matplotlib. Draws on `ax`, or on new axes; returns the axes.
        """
        return plot_released(self, window, confidence, ax)

    def _facts(self) -> list[tuple[str, object]]:
        threshold = "not chosen" if self.threshold is None else f"{self.threshold:g}"
        return [
            ("rows", f"{len(self):,}, from position {self.record.start:,} on"),
            ("threshold", threshold),
            ("guarantee", self.guarantee),
        ]

    def _repr_html_(self) -> str:
        return html.facts(self.title, self._facts(), small_picture_of_rows(self.record))

    def _answered(self, ask: Callable[[Record], Answers]) -> Answers:
        return ask(self.record)


class Released(ReleasedTable):
    """The released rows of a table, in memory. Made by `tidegate.release`.

    Attributes:
        record: of what was measured: the answers come from it.
        pipeline: the settings it was released with.
        promise: the guarantee, as data.
    """

    def __init__(
        self,
        rows: Rows,
        record: Record,
        pipeline: Pipeline,
        *,
        threshold: float | None,
        promise: Guarantee,
        name: str = "",
        phases: Sequence[Phase] = (),
        beyond: int = 0,
    ) -> None:
        self._rows, self.record, self.pipeline = rows, record, pipeline
        self._threshold, self.promise, self._name = threshold, promise, name
        self._phases, self._beyond = tuple(phases), beyond

    def __len__(self) -> int:
        """The number of rows."""
        return self._rows.values.size

    def __repr__(self) -> str:
        note = f"; {self.note}" if self.note else ""
        return f"<Released {len(self)} rows; {self.guarantee}{note}>"

    @property
    def note(self) -> str:
        """A note about rows that the limit per user set to 0; may be empty.

        Where users are protected, who sent which row is public, and so is this number: it depends
        on no value.
        """
        if not self._beyond:
            return ""
        return f"{self._beyond:,} rows counted as 0: beyond the limit of their user, or without one"

    def _facts(self) -> list[tuple[str, object]]:
        return [*super()._facts(), *([("users", self.note)] if self.note else [])]

    def save(self, path: str | Path, **facts: Any) -> None:
        """Write the rows, and what queries need, to a file that `tidegate.open` reads.

        CSV, JSON Lines or Parquet, by the extension; CSV and JSON Lines have `<name>.meta.json`
        beside them. Released data and public facts only: it costs no privacy, and may be published.
        `facts` are added to the metadata.
        """
        from tidegate.io import open_sink  # on demand: importing the core reads no files
        from tidegate.run.public_facts import public_facts

        rows, clock = self._rows, None if self.times is None else self.times.clock
        known = public_facts(
            self.pipeline,
            self.promise,
            self._phases,
            released=len(self),
            record=self.record,
            clock=clock,
        )
        with open_sink(path, metadata={**known, **facts}, leveled=True, clock=clock) as sink:
            sink.write(rows.first, rows.values, rows.levels, rows.times)

    @property
    def guarantee(self) -> str:
        """The guarantee."""
        return self.record.guarantee

    @property
    def threshold(self) -> float | None:
        """θ in the unit of the data, the latest one."""
        return self._threshold

    @property
    def title(self) -> str:
        """The name of the column."""
        return f"Released: {self._name}" if self._name else "Released"

    def rows(self) -> Rows:
        """All rows, as columns of numpy."""
        return self._rows
