"""The parts of `tidegate check` about the times of rows and the streams that rows become."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate.cli.check_reading_options import columns_with_time_patterns
from tidegate.cli.pipeline_from_options import SHORTEST_KEY, rows_of_an_average_row
from tidegate.clock import SECOND, Clock, offsets_of
from tidegate.errors import InputError, SettingError
from tidegate.io.file_kind_and_row_count import is_standard
from tidegate.lattice import IntArray
from tidegate.timestamps import Times
from tidegate.timestamps_in_bulk import doubt_about_numbers

if TYPE_CHECKING:
    from tidegate.io import Batch
    from tidegate.plan.data_profile import DataProfile
    from tidegate.run.pipeline import Pipeline


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
    second_passes: int = 0  # rows that were recognised as of the second such hour

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
        """How to open the source with these times."""
        if self.column is None or self.problem:
            return {}
        return {"time": self.column, "late": "keep", "zone": self.zone, "time_format": self.format}

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
        years = 1 + (self.newest - self.oldest) // (365 * _DAY)
        return self.latest <= 60 * _MINUTE and self.jumps_back <= years


_MINUTE, _DAY = 60 * SECOND, 86_400 * SECOND


@dataclass
class CheckedStreams:
    """The streams that --by and --every make of the rows. Not private."""

    by: str | None = None
    every: str | None = None
    rows_of_key: Counter[str] = field(default_factory=Counter)
    events_of_tick: Counter[int] = field(default_factory=Counter)
    twice: int = 0  # rows that are like another one of the same push

    def check(self, timing: CheckedTimes) -> None:
        """Refuse what a release would refuse, before anything is read."""
        if self.every is not None:
            if timing.column is None:
                raise SettingError("every", "needs the times of events: give --time")
            _ = self._length

    @property
    def _length(self) -> int:
        from tidegate.record.times.time_ranges_and_tables import length_of_time

        return length_of_time(self.every or "1d")

    def push(self, batch: Batch) -> None:
        """Count the rows of each key, and the events of each tick."""
        if self.by is not None and batch.users is not None:
            self.rows_of_key.update(map(str, batch.users.tolist()))
        if self.every is not None and batch.times is not None:
            ticks, counts = np.unique(batch.times.ticks // self._length, return_counts=True)
            found = zip(ticks.tolist(), counts.tolist(), strict=True)
            self.events_of_tick.update(dict(found))
        if batch.times is not None and (np.diff(batch.times.ticks) <= 0).any():
            columns = [batch.times.ticks, np.nan_to_num(np.asarray(batch.values, np.float64))]
            if self.by is not None and batch.users is not None:
                columns.append(np.unique(batch.users.tolist(), return_inverse=True)[1])
            order = np.lexsort(columns)
            same = [np.diff(column[order]) == 0 for column in columns]
            self.twice += int(np.logical_and.reduce(same).sum())

    def source(self) -> dict[str, Any]:
        """How to open the source with these keys."""
        return {} if self.by is None else {"by": self.by}

    def facts(self) -> list[tuple[str, str]]:
        """The facts to print, line by line."""
        found = []
        if self.by is not None:
            counts = sorted(self.rows_of_key.values())
            sizes = f"{counts[0]:,} to {counts[-1]:,} rows each, half of them at most"
            found.append(
                ("keys", f"{len(counts):,} in {self.by!r}: {sizes} {self._typical_rows:,}")
            )
        if self.twice:
            alike = "time and value" if self.by is None else "time, key and value"
            said = f"{self.twice:,} rows have the {alike} of another. If they were sent twice, "
            found.append(("repeated", said + "remove them: each counts"))
        if self.every is not None:
            ticks, busy = self._ticks, len(self.events_of_tick)
            most = max(self.events_of_tick.values())
            mean = sum(self.events_of_tick.values()) / ticks
            sizes = f"{mean:.3g} events in the mean, {most:,} in the busiest"
            empty = f"{1 - busy / ticks:.1%} have none"
            found.append(("ticks", f"{ticks:,} of {self.every}: {sizes}; {empty}"))
        return found

    @property
    def _typical_rows(self) -> int:
        return int(np.median(list(self.rows_of_key.values()) or [1]))

    @property
    def _ticks(self) -> int:
        return max(self.events_of_tick) - min(self.events_of_tick) + 1

    def values(self, profile: DataProfile) -> int:
        """How many values one stream has: ticks, or the rows of a key of middle size."""
        if self.every is not None:
            return self._ticks
        return max(1, profile.rows) if self.by is None else max(1, self._typical_rows)

    def horizon(self, profile: DataProfile) -> int:
        """The horizon for the command; with keys the one that a release chooses by itself."""
        if self.by is None or self.every:
            return self.values(profile)
        return max(SHORTEST_KEY, rows_of_an_average_row(self.rows_of_key.values()))

    def share(self, profile: DataProfile) -> float:
        """The share of all rows that belong to one stream."""
        return 1.0 if self.by is None else self._typical_rows / max(1, profile.rows)

    def pipeline(
        self, budget: str, bound: Fraction, timing: CheckedTimes, **settings: Any
    ) -> Pipeline:
        """The pipeline that a release would run for one stream."""
        from tidegate.methods._events import events
        from tidegate.methods.adaptive import adaptive

        if self.every is None:
            return adaptive(budget, bound, **settings)
        start, _ = self._days(timing)
        zone = timing.clock.zone if timing.clock is not None else None
        return events(budget, bound, every=self.every, start=start, zone=zone, **settings)

    def _days(self, timing: CheckedTimes) -> tuple[str, str]:
        """The day of the first row, and the day after the last."""
        clock = Clock(timing.clock.zone if timing.clock is not None else None)
        texts = clock.texts(np.array([timing.oldest, timing.newest + _DAY]))
        return texts[0][:10], texts[1][:10]

    def options(self, timing: CheckedTimes) -> dict[str, str | None]:
        """The options for the recommended command. None: leave this option out."""
        found: dict[str, str | None] = {}
        if self.by is not None:
            found |= {"by": self.by, "keys": "keys.txt"}
        if self.every is not None:
            start, until = self._days(timing)
            # Events come in any order.
            found |= {"every": self.every, "start": start, "until": until, "late": None}
        return found

    def notes(self) -> list[str]:
        """What the recommended command assumes."""
        found = []
        if self.by is not None:
            found.append(
                "(keys.txt: all keys that there may be, one a line; from public knowledge, not "
                "from this file. A total over all keys is more accurate than one of a key.)"
            )
        if self.every is not None:
            found.append("(Choose --start and --until from public knowledge, too.)")
        return found
