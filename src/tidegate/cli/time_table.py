"""A table by time: text for people, or JSON."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from tidegate.cli.remarks import facts, remarks
from tidegate.cli.tables import percent, shown, table

if TYPE_CHECKING:
    from tidegate.keyed.released_file import KeyedFile
    from tidegate.record.time_ranges import TimeTable
    from tidegate.released import ReleasedFile


def printed(found: TimeTable, file: ReleasedFile | KeyedFile, *, as_json: bool) -> str:
    """The table as text."""
    columns = {name: column.tolist() for name, column in found.columns().items()}
    columns["time"] = found.times
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if as_json:
        plain = [{name: _plain(value) for name, value in row.items()} for row in rows]
        public = {**facts(file, found.answers, file.note), "zone": found.clock.zone, "rows": plain}
        return json.dumps(public, indent=1, ensure_ascii=False)
    sure = percent(found.answers.confidence)
    head = ("from", "rows", "sum", f"± ({sure})", "mean", f"± ({sure})", "per second")
    lines = [
        (
            row["time"],
            f"{row['rows']:,}",
            shown(row["sum"]),
            shown((row["sum_high"] - row["sum_low"]) / 2),
            _shown(row["mean"]),
            _shown((row["mean_high"] - row["mean_low"]) / 2),
            f"{row['rate']:.4g}",
        )
        for row in rows
    ]
    return "\n".join([table(head, lines), "", *remarks(file, found.answers, file.note)])


def _shown(number: float) -> str:
    return "" if math.isnan(number) else f"{number:.5g}"


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
