"""Print count, sum and mean of events as text or JSON: `tidegate query` of a run with --mean."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from tidegate.cli.printed_answers import warned
from tidegate.record.means_of_events import means_of
from tidegate.run.column_budgets import COUNT
from tidegate.tables.plain_text import plain_number, plain_percent, table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidegate.record.range_queries_and_answers import Answers
    from tidegate.record.record import Record
    from tidegate.released.released_means import ReleasedMeans

PARTS = (COUNT, "sum", "mean")
_ENDS = ("estimate", "low", "high")


def printed_means(
    means: ReleasedMeans,
    ask: Callable[[Record], tuple[list[str], Answers]],
    *,
    as_json: bool,
) -> str:
    """Count, sum and mean for every range that `ask` asks of both streams, column by column."""
    ranges, counts = ask(means[COUNT].record)
    columns = [name for name in means.names if name != COUNT]
    rows: list[dict[str, Any]] = []
    said, notes = [f"{COUNT}: {line}" for line in warned(counts)], [counts.note]
    for column in columns:
        one = means.of(column)
        _, sums = ask(one.sums)
        ratios = means_of(sums, counts, one.ends)
        parts: dict[str, Mapping[str, Any]]
        parts = {COUNT: _printed_mean_ends(counts), "sum": _printed_mean_ends(sums), "mean": ratios}
        for at, name in enumerate(ranges):
            row: dict[str, Any] = {"range": name, "column": column}
            for part, ends in parts.items():
                for end in _ENDS:
                    label = part if end == "estimate" else f"{part}_{end}"
                    row[label] = float(ends[end][at])
            rows.append(row)
        said += [f"{column}: {line}" for line in warned(sums)]
        notes += [sums.note, *(one[name].record.note for name in (column, COUNT))]
    every = [*dict.fromkeys(filter(None, notes))]
    note = [one for one in every if not any(one in other for other in every if other != one)]
    if as_json:
        facts = {"guarantee": means.guarantee, "confidence": counts.confidence}
        found = [{name: plain(value) for name, value in row.items()} for row in rows]
        return json.dumps(
            {**facts, "warnings": said, "note": " ".join(note), "means": found},
            indent=1,
            ensure_ascii=False,
        )
    interval = f"{plain_percent(counts.confidence)} interval"
    blocks = []
    for column in columns:
        head = ("range", COUNT, interval, f"sum of {column}", interval, f"mean {column}", interval)
        cells = [
            (row["range"], *(cell for part in PARTS for cell in cells_of(row, part)))
            for row in rows
            if row["column"] == column
        ]
        blocks += [table(head, cells), ""]
    return "\n".join([*blocks, f"{means.guarantee}, all columns together.", *said, *note])


def _printed_mean_ends(answers: Answers) -> dict[str, Any]:
    return {end: getattr(answers, end) for end in _ENDS}


def plain(value: Any) -> Any:
    """The number for JSON: null where it is not known."""
    return None if isinstance(value, float) and math.isnan(value) else value


def cells_of(row: Mapping[str, Any], part: str) -> tuple[str, str]:
    """The estimate and the interval of a count, a sum or a mean, as text."""
    estimate, low, high = (row[part], row[f"{part}_low"], row[f"{part}_high"])
    if math.isnan(estimate):
        return "not known", ""
    text = _printed_mean_digits if part == "mean" else plain_number
    return text(estimate), f"{text(low)} to {text(high)}"


def _printed_mean_digits(number: float) -> str:
    return f"{number:.5g}"
