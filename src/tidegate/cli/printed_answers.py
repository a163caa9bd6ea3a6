"""Print answers by time and ratios as text or JSON, followed by the notes that both share.

The same notes stand under every table: where values were cut, the guarantee, what is doubtful.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from tidegate.errors import QueryError, SettingError
from tidegate.tables.plain_text import plain_number, plain_percent, table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tidegate.keyed.keyed_file import KeyedFile
    from tidegate.record.answer import Answer
    from tidegate.record.range_queries_and_answers import Answers
    from tidegate.record.record import Record
    from tidegate.record.times.time_ranges_and_tables import TimeTable
    from tidegate.released import ReleasedFile

EVEN = 1.05  # how much further an interval may reach to one side and still be written as ±
USELESS = (
    "that is as much as the sum itself, so hardly anything is known of it. Use more epsilon, more "
    "values, a smaller unit of privacy, or a bound closer to the values"
)


def printed_advice(answers: Answer | Answers) -> str:
    """Advice for when most values lie at the cap."""
    return "a larger bound" if answers.beyond_bound else "more epsilon, or more values"


def printed_remarks(file: ReleasedFile | KeyedFile, answers: Answers, note: str) -> list[str]:
    """Caps, guarantee, warnings and notes."""
    beyond = f" {answers.beyond_bound}" if answers.beyond_bound else ""
    speaks = " These are sums of capped values." if answers.capped else ""
    first = f"{_printed_cut(file, answers)}{speaks}{beyond} {file.guarantee}."
    from tidegate.record.answer_text import (  # on demand: as below
        text_of_far_limits,
        text_of_open_ends,
    )

    ends = text_of_open_ends(answers), text_of_far_limits(answers)
    return [
        first,
        *warned(answers),
        *filter(
            None,
            (*ends, answers.note, getattr(file, "shared", ""), note),
        ),
    ]


def notes_by_key(file: KeyedFile, rows: list[tuple[str, Answer | None]]) -> list[str]:
    """The notes of all answers, each sentence once, without those about the whole file."""
    said = [one.note.replace(file.unfinished, "").strip() for _, one in rows if one]
    return list(dict.fromkeys(filter(None, said)))


def warned(answers: Answers) -> list[str]:
    """The warnings about the answers only."""
    from tidegate.record.answer_text import text_of_cautions  # on demand: `--help` needs no numbers

    found = [f"{line} Use {printed_advice(answers)}." for line in text_of_cautions(answers)]
    wide = answers.high - answers.low >= 2 * abs(answers.estimate)
    wide &= answers.end > answers.start  # the sum of no rows is known
    if not found and len(answers) and wide.all():
        found.append("Warning: intervals are wider than the sums: hardly anything is known.")
    return found


def printed_facts(file: ReleasedFile | KeyedFile, answers: Answers, note: str) -> dict[str, Any]:
    """The facts about an answer, for JSON."""
    return {
        "file": str(file.path),
        "guarantee": file.guarantee,
        "confidence": answers.confidence,
        "threshold": answers.threshold,
        "floor": answers.floor,
        "capped": answers.capped,
        "complete": not file.unfinished,
        "warnings": warned(answers),
        "note": " ".join(filter(None, (answers.note, note))),
    }


def _printed_cut(file: ReleasedFile | KeyedFile, answers: Answers) -> str:
    """The caps of values, or of events' values, as a sentence."""
    pipeline = file.pipeline
    if pipeline.ticks is None:
        return printed_caps(answers)
    ends = f"{answers.threshold:g}"
    if answers.highest != answers.threshold:
        ends = f"between {ends} and {answers.highest:g}"
    below = "below 0 as well" if pipeline.lattice.bottom else "and below 0 as 0"
    return f"The value of an event was capped at {ends}, {below}."


def printed_caps(answers: Answers) -> str:
    """The lower and the upper cap of values."""
    if answers.lowest_floor:
        ends = (answers.lowest_floor, answers.floor), (answers.threshold, answers.highest)
        low, high = (f"{a:g}" if a == b else f"{a:g} to {b:g}" for a, b in ends)
        return f"Values were capped to [{low}, {high}]."
    if answers.highest == answers.threshold:
        return f"Values were capped at {answers.threshold:g}; values below 0 counted as 0."
    caps = f"between {answers.threshold:g} and {answers.highest:g}"
    return f"Values were capped; the cap moved {caps}. Values below 0 counted as 0."


def printed_times(found: TimeTable, file: ReleasedFile | KeyedFile, *, as_json: bool) -> str:
    """The table by time as text."""
    columns = {name: column.tolist() for name, column in found.columns().items()}
    columns["time"] = found.times
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if as_json:
        plain = [{name: _plain_printed(value) for name, value in row.items()} for row in rows]
        public = {
            **printed_facts(file, found.answers, file.note),
            "zone": found.clock.zone,
            "rows": plain,
        }
        return json.dumps(public, indent=1, ensure_ascii=False)
    sure = plain_percent(found.answers.confidence)
    interval = f"{sure} interval"
    mean = "mean" if file.pipeline.ticks is None else "mean of a tick"
    head = ("from", "rows", "sum", interval, mean, interval, "per second")
    lines = [
        (
            row["time"],
            f"{row['rows']:,}",
            plain_number(row["sum"]),
            f"{plain_number(row['sum_low'])} to {plain_number(row['sum_high'])}",
            _printed_number(row["mean"]),
            _printed_interval(row["mean_low"], row["mean_high"]),
            f"{row['rate']:.4g}",
        )
        for row in rows
    ]
    return "\n".join([table(head, lines), "", *printed_remarks(file, found.answers, file.note)])


def _printed_number(number: float) -> str:
    return "" if math.isnan(number) else f"{number:.5g}"


def _printed_interval(low: float, high: float) -> str:
    return "" if math.isnan(low) else f"{_printed_number(low)} to {_printed_number(high)}"


def printed_spread(below: float, above: float) -> str:
    """The half width of an interval, or its reach to each side where they differ.

    >>> printed_spread(9.9, 10.1), printed_spread(20, 400)
    ('± 10.1', '+ 400 and − 20')
    """
    if max(below, above) <= EVEN * min(below, above):
        return f"± {plain_number(max(below, above))}"
    return f"+ {plain_number(above)} and − {plain_number(below)}"


def _plain_printed(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def printed_ratio(
    released: Path,
    wanted: str,
    ask: Callable[[Record], tuple[list[str], Answers]],
    format: str | None,  # noqa: A002  # as in open_source
    *,
    as_json: bool,
) -> str:
    """The ratios, by name, over the ranges for which `ask` asks each column."""
    from tidegate.record.mean_and_ratio import ratio
    from tidegate.released.released_columns import open_columns

    above, sign, below = wanted.partition("/")
    if not (above and sign and below):
        raise SettingError("ratio", "must name two columns: tip/fare")
    columns = open_columns(released, [above, below], format)
    (names, tops), (_, bottoms) = (ask(columns[name].record) for name in (above, below))
    rows: list[dict[str, Any]] = []
    for at, name in enumerate(names):
        row: dict[str, Any] = {"range": name, above: tops.estimate[at], below: bottoms.estimate[at]}
        try:
            found = ratio(tops[at], bottoms[at])
            row |= {"ratio": found.estimate, "low": found.low, "high": found.high}
        except QueryError as error:
            if len(names) == 1:
                raise
            row |= {"ratio": None, "low": None, "high": None, "problem": str(error)}
        rows.append(row)
    said = [
        f"{one}: {line}" for one, sums in ((above, tops), (below, bottoms)) for line in warned(sums)
    ]
    notes = list(dict.fromkeys(filter(None, (tops.note, bottoms.note))))
    capped = tops.capped or bottoms.capped
    if as_json:
        facts = {"guarantee": columns.guarantee, "confidence": tops.confidence, "capped": capped}
        return json.dumps(
            {**facts, "warnings": said, "note": " ".join(notes), "ratios": rows},
            indent=1,
            ensure_ascii=False,
        )
    head = ("range", above, below, f"{above}/{below}", f"{plain_percent(tops.confidence)} interval")
    cells = [
        (
            row["range"],
            *(f"{row[name]:,.0f}" for name in (above, below)),
            *(
                ("not known", "")
                if row["ratio"] is None
                else (f"{row['ratio']:.5g}", f"{row['low']:.5g} to {row['high']:.5g}")
            ),
        )
        for row in rows
    ]
    speaks = "These are ratios of sums of capped values. " if capped else ""
    promise = f"{speaks}{columns.guarantee}, all columns together."
    return "\n".join([table(head, cells), "", promise, *said, *notes])
