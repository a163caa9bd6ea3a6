"""Print count, sum and mean of events by key: `tidegate query` of a run with --mean and --by."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidegate.cli.asked_by_key import AskedByKey
from tidegate.cli.printed_answers import notes_by_key
from tidegate.cli.printed_means import PARTS, cells_of, plain
from tidegate.cli.query_keys_and_simulations import (
    caps_by_key,
    unknown_keys,
    warnings_by_key,
)
from tidegate.run.column_budgets import COUNT
from tidegate.tables.plain_text import plain_percent, table

if TYPE_CHECKING:
    from tidegate.keyed.released_means_by_key import ReleasedMeansByKey
    from tidegate.record.means_of_events import CountSumMean, MeansTable

Row = dict[str, Any]
_ENDS = ("estimate", "low", "high")


def printed_means_by_key(means: ReleasedMeansByKey, asked: AskedByKey) -> str:
    """Count, sum and mean for each key or for the total of all keys, column by column."""
    asked.check()
    confidence = asked.confidence
    found: dict[str, list[Row]] = {}
    said: list[str] = []
    notes: list[str] = []
    for column in (name for name in means.names if name != COUNT):
        one = means.of(column)
        found[column], doubts = (
            _of_range(one, asked) if asked.every is None else _by_time(one, asked.every, asked)
        )
        said += [f"{column}: {line}" for line in doubts]
        notes += [one[name].unfinished for name in (column, COUNT)]
    notes = list(dict.fromkeys(filter(None, notes)))
    if asked.as_json:
        rows = [{"column": column, **row} for column, part in found.items() for row in part]
        clean = [{name: plain(value) for name, value in row.items()} for row in rows]
        facts = {"guarantee": means.guarantee, "confidence": confidence, "warnings": said}
        facts |= {"note": " ".join(notes), "means": clean}
        return json.dumps(facts, indent=1, ensure_ascii=False)
    interval = f"{plain_percent(confidence)} interval"
    blocks = []
    for column, rows in found.items():
        places = [name for name in ("key", "from", "ticks") if name in rows[0]]
        head = (*places, COUNT, interval, f"sum of {column}", interval, f"mean {column}", interval)
        cells = [
            (
                *(str(row[name]) for name in places),
                *(cell for part in PARTS for cell in cells_of(row, part)),
            )
            for row in rows
        ]
        blocks += [table(head, cells), ""]
    return "\n".join([*blocks, f"{means.guarantee}, all columns together.", *said, *notes])


def _of_range(means: ReleasedMeansByKey, asked: AskedByKey) -> tuple[list[Row], list[str]]:
    """A row for each key and one for the total; and warnings about the sums."""

    def refuse() -> None:
        means.query(confidence=asked.confidence, **asked.where)  # it raises the error

    answers = asked.of_each(means.query, means.keys, refuse)
    sums = [(name, None if one is None else one.sum) for name, one in answers]
    file = means[means.title]
    doubts = [
        *warnings_by_key(sums), *caps_by_key(file, sums), *unknown_keys(sums),
        *notes_by_key(file, sums),
    ]  # fmt: skip
    return [{"key": name, **_facts(one)} for name, one in answers], doubts


def _facts(one: CountSumMean | None) -> Row:
    ticks = None if one is None else one.count.end - one.count.start
    row: Row = {"ticks": ticks}
    parts = (None, None, None) if one is None else (one.count, one.sum, one.mean)
    for name, part in zip(PARTS, parts, strict=True):
        for end in _ENDS:
            label = name if end == "estimate" else f"{name}_{end}"
            row[label] = math.nan if part is None else float(getattr(part, end))
    return row


def _by_time(
    means: ReleasedMeansByKey, every: str, asked: AskedByKey
) -> tuple[list[Row], list[str]]:
    """A row for each key and interval of time, or for each interval of the total."""
    if asked.total:
        whole = means.totals(every, **asked.times)
        return list(_rows(whole)), whole.said
    found = means.table(every, **asked.times)
    rows = [{"key": key, **row} for key, part in found.parts.items() for row in _rows(part)]
    return rows, [found.note] if found.note else []


def _rows(found: MeansTable) -> Iterator[Row]:
    columns = {name: column.tolist() for name, column in found.columns().items()}
    columns = {"from": found.times, **columns}
    del columns["time"]
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(columns, row, strict=True))
