"""The part of `tidegate check` about the times of rows: their column, order, zone and clocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate.cli.check_reading_options import columns_with_time_patterns
from tidegate.clock import SECOND, Clock, offsets_of
from tidegate.errors import InputError
from tidegate.io.file_kind_and_row_count import is_standard
from tidegate.lattice import IntArray
from tidegate.timestamps import Times
from tidegate.timestamps_in_bulk import doubt_about_numbers

_MINUTE, DAY = 60 * SECOND, 86_400 * SECOND


@dataclass
class CheckedTimes:
    """The column of times, and what was found in it. Not private."""

    column: str | None
    zone: str | None
    format: str | None = None
    others: tuple[str, ...] = ()  # columns that look like times too
    problem: str = ""
    late: int = 0
    jumps_back: int = 0  # how often time goes back
    latest: int = 0  # by how much at most
    clock: Clock | None = None
    oldest: int = 0
    newest: int = 0
    repeated: int = 0  # rows with the time of the row before, in an hour that comes twice
    second_passes: int = 0  # rows that were told to be of the second such hour

    @classmethod
    def found(
        cls,
        source: str,
        column: str | None,
        zone: str | None,
        format: str | None,  # noqa: A002  # --time-format
        reading: dict[str, Any],
    ) -> CheckedTimes:
        """The column that was named, or the first that looks like times; and their form."""
        if is_standard(source) or reading.get("header") is False or format is not None:
            return cls(column, zone, format)
        from tidegate.io.column_choice import time_columns

        plain = time_columns(source, reading["format"], reading["delimiter"])
        patterns = columns_with_time_patterns(source, reading)
        names = [column] if column is not None else [*plain, *patterns]
        chosen = names[0] if names else None
        return cls(chosen, zone, patterns.get(chosen or ""), tuple(names[1:]))

    def source(self) -> dict[str, Any]:
        """How to open the source."""
        if self.column is None or self.problem:
            return {}
        how = {"zone": self.zone, "time_format": self.format}
        return {"time": self.column, "late": "keep", **how}

    def push(self, times: Times | None) -> None:
        """Look at the times of some rows."""
        if times is None or not times.ticks.size:
            return
        ticks = times.ticks
        before = int(ticks[0]) if self.clock is None else self.newest
        ahead = np.maximum.accumulate(np.concatenate(([before], ticks)))[1:]
        self.late += int((ticks < ahead).sum())
        self.jumps_back += int((np.diff(ticks, prepend=before) < 0).sum())
        self.latest = max(self.latest, int((ahead - ticks).max()))
        self.oldest = min(int(ticks.min()), before if self.clock is None else self.oldest)
        self._see_hours_that_come_twice(times.clock, ticks, before)
        self.newest, self.clock = int(ahead[-1]), times.clock

    def _see_hours_that_come_twice(self, clock: Clock, ticks: IntArray, before: int) -> None:
        """Count rows in hours that the clock showed twice: repeated times may be the second."""
        if clock.zone is None or clock.zone == "UTC":
            return
        local = clock.local(ticks)
        early, late = (offsets_of(clock.zone, local, local=True, fold=fold) for fold in (0, 1))
        first = (early != late) & (ticks == local - early)
        repeated = np.diff(ticks, prepend=before if self.clock is not None else ticks[0] - 1) == 0
        self.repeated += int((first & repeated).sum())
        self.second_passes += int(((early != late) & ~first).sum())

    def refused(self, error: InputError) -> bool:
        """Whether a release would refuse a time; values are then checked without times."""
        if not self.source() or not str(error).startswith("time at "):
            return False
        self.problem = str(error)
        return True

    def facts(self) -> list[tuple[str, str]]:
        """The facts to print, line by line."""
        if self.column is None:
            return []
        found = [("time", f"column {self.column!r}")]
        if self.others:
            named = ", ".join(map(repr, self.others))
            found = [("time", f"column {self.column!r} (--time; others could be: {named})")]
        if self.problem:
            return [*found, ("order", f"a release would stop: {self.problem}")]
        if self.clock is None:
            return found
        ends = Clock(self.clock.zone).texts(np.array([self.oldest, self.newest]))
        zone = ""
        if not self.clock.zone:
            zone = "; times have no zone (--zone says where they were written)"
        elif self.clock.zone == "UTC" and self.zone is None:  # whatever offsets they came with
            zone = "; days begin at midnight UTC (--zone Europe/Berlin: at midnight there)"
        found.append(("from, to", f"{ends[0]}, {ends[1]}{zone}"))
        order = "rows are in order of time"
        if self.turned_back:
            order = (
                f"time goes back by {-(-self.latest // _MINUTE)} minutes, as if clocks were turned "
                "back: --zone, such as Europe/Berlin, tells the two hours apart. Do not sort"
            )
        elif self.late:
            order = f"{self.late:,} rows are older than one before: sort them, or use --late keep"
        found.append(("order", order))
        if self.repeated and not self.second_passes:
            found.append(
                (
                    "clocks",
                    f"{self.repeated:,} rows repeat a time of the hour that comes twice when "
                    "clocks are turned back; all count as the first. Write times with offsets",
                )
            )
        if doubt := doubt_about_numbers(self.clock.unit, self.newest):
            found.append(("1970", doubt))
        return found

    def options(self) -> dict[str, str]:
        """The options about times for the recommended command."""
        if self.column is None or self.problem:
            return {}
        options = {"time": self.column}
        if self.zone is not None:
            options["zone"] = self.zone
        if self.format is not None:
            options["time-format"] = self.format
        if self.turned_back:
            return {**options, "zone": "ZONE"}
        return {**options, "late": "keep"} if self.late else options

    @property
    def turned_back(self) -> bool:
        """Whether wall-clock times go back by an hour, and rarely: the end of summer time.

        Rows that come late by themselves do it more often.
        """
        if self.clock is None or self.clock.zone or not self.late:
            return False
        years = 1 + (self.newest - self.oldest) // (365 * DAY)
        return self.latest <= 60 * _MINUTE and self.jumps_back <= years
