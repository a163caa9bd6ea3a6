"""The part of `tidegate check` about the times of rows; same rules as a release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate.clock import Clock
from tidegate.errors import InputError
from tidegate.timestamps import Times


@dataclass
class Timing:
    """The column of times, and what was found in it."""

    column: str | None
    zone: str | None
    format: str | None = None
    others: tuple[str, ...] = ()  # columns that look like times too
    problem: str = ""
    late: int = 0
    clock: Clock | None = None
    oldest: int = 0
    newest: int = 0

    @classmethod
    def found(
        cls,
        source: str,
        column: str | None,
        zone: str | None,
        format: str | None,  # noqa: A002  # --time-format
        reading: dict[str, Any],
    ) -> Timing:
        """The column that was asked for, or the first that looks like times."""
        if column is not None or source == "-" or reading.get("header") is False:
            return cls(column, zone, format)
        from tidegate.io.column_choice import time_columns

        names = time_columns(source, reading["format"], reading["delimiter"])
        return cls(names[0] if names else None, zone, None, tuple(names[1:]))

    def source(self) -> dict[str, Any]:
        """How the source is opened."""
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
        self.oldest = min(int(ticks.min()), before if self.clock is None else self.oldest)
        self.newest, self.clock = int(ahead[-1]), times.clock

    def refused(self, error: InputError) -> bool:
        """Whether a release would refuse a time; then values are looked at without times."""
        if not self.source() or not str(error).startswith("time at "):
            return False
        self.problem = str(error)
        return True

    def facts(self) -> list[tuple[str, str]]:
        """What to tell the owner."""
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
        if self.late:
            order = f"{self.late:,} rows are older than one before: sort them, or use --late keep"
        return [*found, ("order", order)]

    def options(self) -> dict[str, str]:
        """What a command for a release needs."""
        if self.column is None or self.problem:
            return {}
        options = {"time": self.column}
        if self.zone is not None:
            options["zone"] = self.zone
        if self.format is not None:
            options["time-format"] = self.format
        return {**options, "late": "keep"} if self.late else options
