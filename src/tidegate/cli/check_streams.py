"""The part of `tidegate check` about the streams that rows become: by key, per tick."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate.cli.check_declared_keys import CheckedDeclaredKeys
from tidegate.cli.check_times import DAY, CheckedTimes
from tidegate.cli.pipeline_from_options import SHORTEST_KEY, rows_of_an_average_row
from tidegate.clock import Clock
from tidegate.errors import SettingError

if TYPE_CHECKING:
    from tidegate.io import Batch
    from tidegate.plan.data_profile import DataProfile
    from tidegate.run.pipeline import Pipeline


@dataclass
class CheckedStreams:
    """The streams that --by and --every make of the rows. Not private."""

    by: str | None = None
    every: str | None = None
    keys: str | None = None  # the file of the declared ones
    rows_of_key: Counter[str] = field(default_factory=Counter)
    events_of_tick: Counter[int] = field(default_factory=Counter)
    twice: int = 0  # rows that are like another one of the same push

    def check(self, timing: CheckedTimes) -> None:
        """Refuse what a release would refuse, before anything is read."""
        self.declared = CheckedDeclaredKeys(self.keys, self.by)
        if self.every is not None:
            if timing.column is None:
                raise SettingError("every", "needs the times of events: give --time")
            _ = self._length

    def begin_again(self) -> None:
        """Forget what was seen: the input is read anew."""
        self.rows_of_key.clear()
        self.twice = self.declared.dropped = 0

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
        """How to open the source."""
        return {} if self.by is None else {"by": self.by, "declared": self.declared.rows}

    def facts(self) -> list[tuple[str, str]]:
        """The facts to print, line by line."""
        found = []
        if self.by is not None:
            counts = sorted(self.rows_of_key.values())
            sizes = f"{counts[0]:,} to {counts[-1]:,} rows each, half of them at most"
            found.append(
                ("keys", f"{len(counts):,} in {self.by!r}: {sizes} {self._typical_rows:,}")
            )
            found += self.declared.facts(len(counts))
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
        texts = clock.texts(np.array([timing.oldest, timing.newest + DAY]))
        return texts[0][:10], texts[1][:10]

    def options(self, timing: CheckedTimes) -> dict[str, str | None]:
        """The options for the recommended command. None: leave this option out."""
        found: dict[str, str | None] = {}
        if self.by is not None:
            found |= {"by": self.by, "keys": self.keys or "keys.txt"}
        if self.every is not None:
            start, until = self._days(timing)
            # Events come in any order.
            found |= {"every": self.every, "start": start, "until": until, "late": None}
        return found

    def notes(self) -> list[str]:
        """What the recommended command assumes."""
        found = []
        if self.by is not None and self.keys is None:
            found.append(
                "(keys.txt: all keys that there may be, one a line; from public knowledge, not "
                "from this file. A total over all keys is more accurate than one of a key.)"
            )
        if self.every is not None:
            found.append("(Choose --start and --until from public knowledge, too.)")
        return found
