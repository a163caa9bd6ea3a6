"""`tidegate query` for a file with keys, or for one from `tidegate local simulate`."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidegate.cli.asked_by_key import AskedByKey
from tidegate.cli.printed_answers import (
    notes_by_key,
    printed_advice,
    printed_caps,
    printed_times,
    warned,
)
from tidegate.errors import SettingError
from tidegate.io import SourceError
from tidegate.tables.plain_text import plain_number, plain_percent, table

if TYPE_CHECKING:
    from tidegate.cli.query import Ranged
    from tidegate.keyed.keyed_file import KeyedFile
    from tidegate.record.answer import Answer
    from tidegate.released.checked_metadata import SimulationError

_SHOWN = ("estimate", "low", "high", "standard_error")


def answered_by_key(file: KeyedFile, asked: AskedByKey) -> str:
    """The answer as text for people, or as one JSON object."""
    asked.check()
    confidence, as_json = asked.confidence, asked.as_json
    if asked.every is not None:
        if asked.total:
            one = file.totals(asked.every, **asked.times)
            return printed_times(one, file, as_json=as_json)
        found = file.table(asked.every, **asked.times)
        columns = found.columns()
        columns["time"] = [time for part in found.parts.values() for time in part.times]
        return _table_by_key(file, columns, confidence, found.note, as_json=as_json)
    rows = asked.of_each(
        file.query, file.keys, lambda: _refuse_range_of_keys(file, asked.where, confidence)
    )
    return _rows_by_key(file, rows, confidence, as_json=as_json)


def _refuse_range_of_keys(file: KeyedFile, where: dict[str, Any], confidence: float) -> None:
    """Raise the error of a range that no key can answer; return if the range itself is fine."""
    asked = {key: file.record(key).end for key in file.measured}
    if not asked:
        return  # all keys are in their warm-up
    if where["from_"] is not None or where["to"] is not None:
        file.query(confidence=confidence, **where)
    file.query(key=max(asked, key=asked.__getitem__), confidence=confidence, **where)


def _rows_by_key(
    file: KeyedFile, rows: list[tuple[str, Answer | None]], confidence: float, *, as_json: bool
) -> str:
    if as_json:
        answers = [
            {
                "key": name,
                "rows": None if one is None else one.end - one.start,
                **{fact: None if one is None else getattr(one, fact) for fact in _SHOWN},
            }
            for name, one in rows
        ]
        said = [*warnings_by_key(rows), *unknown_keys(rows)]
        note = " ".join(notes_by_key(file, rows))
        return _json_by_key(file, confidence, "answers", answers, note, warnings=said)
    head = ("key", "rows", "sum", f"{plain_percent(confidence)} interval", "std. error")
    lines = [
        (name, "", "not known", "", "")
        if one is None
        else (
            name,
            f"{one.end - one.start:,}",
            plain_number(one.estimate),
            f"{plain_number(one.low)} to {plain_number(one.high)}",
            plain_number(one.standard_error),
        )
        for name, one in rows
    ]
    notes = [*warnings_by_key(rows), *caps_by_key(file, rows), *unknown_keys(rows)]
    notes += [f"{file.guarantee}.", *notes_by_key(file, rows), *_note_by_key(file)]
    return "\n".join([table(head, lines), "", *notes])


def unknown_keys(rows: list[tuple[str, Answer | None]]) -> list[str]:
    """The number of keys without an answer."""
    unknown = sum(one is None for _, one in rows)
    if not unknown:
        return []
    keys = sum(name != "total" for name, _ in rows)
    have = "1 key has" if unknown == 1 else f"{unknown:,} keys have"
    return [f"{have} no sum (of {keys:,}): too few rows in this range, or in its warm-up."]


def warnings_by_key(rows: list[tuple[str, Answer | None]]) -> list[str]:
    """The warnings about sums of keys, each with the number of its keys."""
    known = [one for name, one in rows if one is not None and name != "total"]
    wide = "the interval is wider than the sum: hardly anything is known"
    found: Counter[str] = Counter()
    for one in known:
        if one.warning:
            found[f"{one.warning}. Use {printed_advice(one)}"] += 1
        elif one.high - one.low >= 2 * abs(one.estimate):
            found[wide] += 1
    return [
        f"Warning ({count:,} of {len(known):,} keys): {warning}."
        for warning, count in found.items()
    ]


def caps_by_key(file: KeyedFile, rows: list[tuple[str, Answer | None]]) -> list[str]:
    """The caps, and what is assumed about upper ends of intervals."""
    known = [one for name, one in rows if one is not None and name != "total"]
    if not known or (file.pipeline.ticks is not None and file.pipeline.lattice.bound == 1):
        return []  # events are counted
    highest = max(known, key=_highest_cap)
    ends = f"at {_between(min(one.threshold for one in known), _highest_cap(highest))}"
    lowest = min(known, key=_lowest_floor)
    if _lowest_floor(lowest):
        floors = _between(_lowest_floor(lowest), max(one.floor for one in known))
        ends = f"below {floors} and above {ends.removeprefix('at ')}"
    sums = " These are sums of capped values." if any(one.capped for one in known) else ""
    cut = replace(highest, floor=lowest.floor, lowest_floor=lowest.lowest_floor).beyond_bound
    found = [" ".join(filter(None, (f"Values were cut {ends}, key by key.{sums}", cut)))]
    from tidegate.record.answer_text import (  # on demand: `--help` needs none
        FAR,
        OPEN,
        text_of_open_end,
    )

    of_ends = Counter(text_of_open_end(one) for one in known)
    words = {
        OPEN: "Too few values chose the cap to see larger ones, so upper ends are far",
        FAR: "Upper ends assume an ordinary tail above the cap, which lies far below the bound",
    }
    found += [
        f"{said} ({of_ends[end]:,} of {len(known):,} keys)."
        for end, said in words.items()
        if of_ends[end]
    ]
    return found


def _highest_cap(one: Answer) -> float:
    return one.threshold if one.highest is None else one.highest


def _lowest_floor(one: Answer) -> float:
    return one.floor if one.lowest_floor is None else one.lowest_floor


def _between(lowest: float, highest: float) -> str:
    return f"{lowest:g}" if lowest == highest else f"caps between {lowest:g} and {highest:g}"


def _table_by_key(
    file: KeyedFile, columns: dict[str, Any], confidence: float, note: str, *, as_json: bool
) -> str:
    names = list(columns)
    listed = [
        column if isinstance(column, list) else column.tolist() for column in columns.values()
    ]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*listed, strict=True)]
    if as_json:
        plain = [{name: _plain_by_key(value) for name, value in row.items()} for row in rows]
        return _json_by_key(file, confidence, "rows", plain, note)
    sure = plain_percent(confidence)
    head = ("key", "from", "rows", "sum", f"{sure} interval", "mean")
    lines = [
        (
            row["key"],
            row["time"],
            f"{row['rows']:,}",
            plain_number(row["sum"]),
            f"{plain_number(row['sum_low'])} to {plain_number(row['sum_high'])}",
            "" if math.isnan(row["mean"]) else f"{row['mean']:.5g}",
        )
        for row in rows
    ]
    said = [note] if note else []
    return "\n".join([table(head, lines), "", f"{file.guarantee}.", *said, *_note_by_key(file)])


def _json_by_key(
    file: KeyedFile,
    confidence: float,
    name: str,
    rows: list[dict[str, Any]],
    note: str = "",
    **more: Any,
) -> str:
    facts = {"file": str(file.path), "guarantee": file.guarantee, "confidence": confidence}
    said = " ".join(filter(None, (note, file.note)))
    return json.dumps({**facts, "note": said, **more, name: rows}, indent=1, ensure_ascii=False)


def _note_by_key(file: KeyedFile) -> list[str]:
    return [note for note in (file.unfinished, file.note) if note]


def _plain_by_key(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


_WHAT = "A rehearsal: one process played all devices. Devices would be promised: {}."


def answered_from_simulation(
    error: SimulationError,
    positions: Ranged | None,
    confidence: float,
    *,
    as_json: bool,
) -> str:
    """The sums over ranges of positions, with the intervals that the local model would give."""
    from tidegate.local.collected_sums import CollectedSums

    if positions is None:
        raise SettingError("from", "is for files with times: ask a rehearsal by position")
    facts = error.metadata
    try:
        collected = CollectedSums.from_plain(facts["collected"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise SourceError(
            None, "its record is damaged, or of an older version", str(error.filename)
        ) from None
    answers = collected.queries(*positions(collected.count), confidence)
    said = _WHAT.format(facts.get("would_promise", "not known"))
    names = ("start", "end", "estimate", "low", "high", "standard_error")
    columns = {name: getattr(answers, name).tolist() for name in names}
    rows: list[dict[str, Any]] = [
        dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
    ]
    if as_json:
        plain = {"simulation": True, "note": said, "confidence": answers.confidence}
        plain |= {"warnings": warned(answers), "answers": rows}
        return json.dumps(plain, indent=1, ensure_ascii=False)
    head = ("range", "sum", f"{plain_percent(answers.confidence)} interval", "std. error")
    cells = [
        (
            f"[{row['start']}, {row['end']})",
            plain_number(row["estimate"]),
            f"{plain_number(row['low'])} to {plain_number(row['high'])}",
            plain_number(row["standard_error"]),
        )
        for row in rows
    ]
    return "\n".join([table(head, cells), "", printed_caps(answers), *warned(answers), said])
