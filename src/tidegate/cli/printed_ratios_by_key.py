"""Print ratios of two columns by key as text or JSON: `tidegate query --ratio` of keyed files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.cli.asked_by_key import AskedByKey
from tidegate.cli.printed_answers import columns_of_ratio, notes_by_key, printed_ratio
from tidegate.cli.query_keys_and_simulations import (
    caps_by_key,
    unknown_keys,
    warnings_by_key,
)
from tidegate.errors import QueryError, SettingError
from tidegate.record.mean_and_ratio import ratio
from tidegate.tables.plain_text import plain_number, plain_percent, table

if TYPE_CHECKING:
    from tidegate.keyed.keyed_file import KeyedFile
    from tidegate.record.answer import Answer
    from tidegate.record.range_queries_and_answers import Answers
    from tidegate.record.record import Record
    from tidegate.record.times.time_ranges_and_tables import TimeTable

Row = dict[str, Any]


def printed_ratios(
    released: Path | str,
    wanted: str,
    sums: Callable[[Record], tuple[list[str], Answers]],
    of_keys: Callable[[], AskedByKey],
    *,
    format: str | None,  # noqa: A002  # as in open_source
    as_json: bool,
    by_key: bool,
) -> str:
    """The ratios of one run's columns: by key if they have keys, else over the ranges of `sums`."""
    names = columns_of_ratio(wanted)
    columns = _keyed_columns_of_ratio(released, names, format)
    if columns is not None:
        return printed_ratios_by_key(columns, of_keys())
    if by_key and _files_exist(released, names):
        raise SettingError("key", "this release has no keys: it was made without --by")
    return printed_ratio(released, names, sums, format, as_json=as_json)


def printed_ratios_by_key(columns: dict[str, KeyedFile], asked: AskedByKey) -> str:
    """The ratio of each key and of their total, over a range or by time."""
    from tidegate.released.released_columns import guarantee_together

    asked.check()
    guarantee = guarantee_together(columns)
    (above, tops), (below, bottoms) = columns.items()
    said: list[str] = []
    if asked.every is None:
        rows, said = _of_range(columns, asked)
    elif asked.total:
        both = (one.totals(asked.every, **asked.times) for one in (tops, bottoms))
        rows = _by_time(*both)
    else:
        of_tops, of_bottoms = (one.table(asked.every, **asked.times) for one in (tops, bottoms))
        rows = []
        for key, part in of_tops.parts.items():
            rows += [{"key": key, **row} for row in _by_time(part, of_bottoms[key])]
        said = [of_tops.note] if of_tops.note else []
    notes = list(dict.fromkeys(filter(None, (tops.unfinished, bottoms.unfinished))))
    places = [name for name in ("key", "from") if name in rows[0]]
    if asked.as_json:
        names = {"above": above, "below": below}
        clean = [
            {names.get(name, name): _plain(value) for name, value in row.items()} for row in rows
        ]
        facts = {"guarantee": guarantee, "confidence": asked.confidence, "warnings": said}
        facts |= {"note": " ".join(notes), "ratios": clean}
        return json.dumps(facts, indent=1, ensure_ascii=False)
    interval = f"{plain_percent(asked.confidence)} interval"
    head = (*places, above, below, f"{above}/{below}", interval)
    cells = [
        (
            *(row[name] for name in places),
            *("" if row[name] is None else plain_number(row[name]) for name in ("above", "below")),
            *(
                ("not known", "")
                if row["ratio"] is None
                else (f"{row['ratio']:.5g}", f"{row['low']:.5g} to {row['high']:.5g}")
            ),
        )
        for row in rows
    ]
    promise = f"{guarantee}, all columns together."
    return "\n".join([table(head, cells), "", promise, *said, *notes])


def _of_range(columns: dict[str, KeyedFile], asked: AskedByKey) -> tuple[list[Row], list[str]]:
    """A row for each key, and one for the total; what is doubtful about the sums."""
    tops, bottoms = columns.values()

    def both(**where: Any) -> tuple[Answer, Answer]:
        return tops.query(**where), bottoms.query(**where)

    def refuse() -> None:
        both(confidence=asked.confidence, **asked.where)  # it says what is wrong

    answers = asked.of_each(both, tops.keys, refuse)
    rows = [{"key": key, **_row(*(pair or (None, None)))} for key, pair in answers]
    said, sums = [], []
    for at, (name, file) in enumerate(columns.items()):
        sums = [(key, None if pair is None else pair[at]) for key, pair in answers]
        doubts = *warnings_by_key(sums), *caps_by_key(file, sums), *notes_by_key(file, sums)
        said += [f"{name}: {line}" for line in doubts]
    return rows, [*said, *unknown_keys(sums)]


def _by_time(tops: Any, bottoms: Any) -> list[Row]:
    """A row for each part of a range of time."""
    first: TimeTable = tops
    second: TimeTable = bottoms
    return [
        {"from": time, **_row(first.answers[at], second.answers[at])}
        for at, time in enumerate(first.times)
    ]


def _row(above: Answer | None, below: Answer | None) -> Row:
    """The sums, and their ratio if the one below cannot be 0."""
    row: Row = {"above": None, "below": None, "ratio": None, "low": None, "high": None}
    if above is None or below is None:
        return row
    row |= {"above": above.estimate, "below": below.estimate}
    try:
        found = ratio(above, below)
    except QueryError as error:
        return {**row, "problem": str(error)}
    return {**row, "ratio": found.estimate, "low": found.low, "high": found.high}


def _keyed_columns_of_ratio(
    released: Path | str,
    names: list[str],
    format: str | None,  # noqa: A002  # as in open_source
) -> dict[str, KeyedFile] | None:
    """The files of these columns, if they have keys."""
    from tidegate.keyed.keyed_file import KeyedFile, open_one_file
    from tidegate.released.released_columns import column_file

    if not _files_exist(released, names):
        return None  # `open_columns` says which there are
    paths = {name: Path(column_file(released, name)) for name in names}
    files = {name: open_one_file(path, format) for name, path in paths.items()}
    keyed = {name: file for name, file in files.items() if isinstance(file, KeyedFile)}
    return keyed if len(keyed) == len(files) else None


def _plain(value: Any) -> Any:
    """What JSON has for it: null, where an interval has no end."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _files_exist(released: Path | str, names: list[str]) -> bool:
    from tidegate.released.released_columns import column_file

    return all(Path(column_file(released, name)).exists() for name in names)
