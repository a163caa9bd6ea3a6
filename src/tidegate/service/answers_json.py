"""Facts and answers of a stream as JSON, and back: the client shows what the service sends.

Everything here is released data: asked of a view of a stream, while the gate goes on. Numbers that
JSON cannot hold (an interval without an upper end) are texts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate.clock import Clock
from tidegate.durable import DurableRelease
from tidegate.durable.journal import JournalView
from tidegate.errors import QueryError
from tidegate.keyed.committed_keyed_release import CommittedKeyed
from tidegate.keyed.keyed_views_for_threads import KeyedView
from tidegate.record.answer import Answer
from tidegate.record.moving_sums import MovingSums
from tidegate.record.range_queries_and_answers import Answers
from tidegate.record.times.time_ranges_and_tables import TimeTable

if TYPE_CHECKING:  # the client needs no database
    from tidegate.service.open_streams import Run

_NO_NUMBERS = ("inf", "-inf", "nan")
_POSITIONS = ("start", "end")
_ERRORS = ("noise_error", "prediction_error", "truncation_error")
_ARRAYS = (*_POSITIONS, *_ERRORS, "estimate", "low", "high", "caps", "unseen", "limit")


def encoded_answers(answers: Answer | Answers) -> dict[str, Any]:
    """All fields of one answer or many, as JSON."""
    return {one.name: _plain_answer_value(getattr(answers, one.name)) for one in fields(answers)}


def decoded_answer(content: dict[str, Any]) -> Answer:
    """The inverse of `encoded_answers` for one answer; ignores fields of a newer service."""
    found = {one.name: content[one.name] for one in fields(Answer) if one.name in content}
    return Answer(**{name: _answer_number(value) for name, value in found.items()})


def decoded_answers(content: dict[str, Any]) -> Answers:
    """The inverse of `encoded_answers`; ignores fields of a newer service."""
    found: dict[str, Any] = {}
    for one in fields(Answers):
        if one.name not in content:
            continue
        value = content[one.name]
        if one.name in _ARRAYS and value is not None:
            kind = np.int64 if one.name in _POSITIONS else np.float64
            value = np.array(value, dtype=kind)
        found[one.name] = value
    return Answers(**found)


def encoded_table_answers(table: TimeTable) -> dict[str, Any]:
    """All fields of a table by time. Times are texts: JSON numbers cannot hold them exactly."""
    return {
        "answers": encoded_answers(table.answers),
        "edges": [str(edge) for edge in table.edges.tolist()],
        "clock": table.clock.plain(),
        "rows": table.rows.tolist(),
    }


def decoded_table_answers(content: dict[str, Any]) -> TimeTable:
    """The inverse of `encoded_table_answers`."""
    return TimeTable(
        decoded_answers(content["answers"]),
        np.array([int(edge) for edge in content["edges"]], dtype=np.int64),
        Clock.from_plain(content["clock"]),
        np.array(content["rows"], dtype=np.int64),
    )


def encoded_moving_answers(sums: MovingSums) -> dict[str, Any]:
    """All fields of moving sums; times as texts."""
    times: dict[str, Any] = {"spans": None, "clock": None}
    if sums.spans is not None and sums.clock is not None:
        texts = [[str(tick) for tick in one] for one in sums.spans.tolist()]
        times = {"spans": texts, "clock": sums.clock.plain()}
    return {"answers": encoded_answers(sums.answers), "rows": sums.rows.tolist(), **times}


def decoded_moving_answers(content: dict[str, Any]) -> MovingSums:
    """The inverse of `encoded_moving_answers`."""
    rows = np.array(content["rows"], dtype=np.int64)
    if content["spans"] is None:
        return MovingSums(decoded_answers(content["answers"]), rows)
    spans = np.array([[int(tick) for tick in one] for one in content["spans"]], dtype=np.int64)
    clock = Clock.from_plain(content["clock"])
    return MovingSums(decoded_answers(content["answers"]), rows, spans.reshape(2, -1), clock)


def _plain_answer_value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain_answer_value(one) for one in value.tolist()]
    if isinstance(value, list):
        return [_plain_answer_value(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _answer_number(value: Any) -> Any:
    return float(value) if value in _NO_NUMBERS else value


_NAMES = ("start", "end", "estimate", "low", "high", "standard_error", "confidence", "capped")
View = JournalView | KeyedView  # what questions are asked of


def view_to_answer(run: Run, keys: Iterable[str] | None = None) -> View:
    """A view of a stream; for a stream with keys, of those that a query needs.

    Made under the gate's lock, in microseconds. What is asked of it holds up nothing: released data
    are public, and no answer changes what is released.
    """
    return run.release.view(keys) if isinstance(run, CommittedKeyed) else run.view()


def described_answers(run: Run) -> dict[str, Any]:
    """The public facts of a stream. The numbers of events and of droppable rows are not public."""
    if isinstance(run, CommittedKeyed):
        release = run.release
        clock = release.clock
        facts: dict[str, Any] = {
            "kind": "keyed events" if run.specification.pipeline.ticks else "keyed readings",
            "source": run.source,
            "guarantee": str(release.guarantee),
            "keys": len(release.keys),
            "released": release.position,
            "withheld": release.holding,
            "threshold": release.threshold,
        }
    else:
        clock = run.clock
        events = run.pipeline.ticks is not None
        facts = {
            "kind": "events" if events else "readings",
            "source": run.source,
            "guarantee": str(run.guarantee),
            **({} if events else {"taken": run.seen}),
            "released": run.position,
            "withheld": run.holding,
            "warming": run.warming,
            "threshold": run.threshold,
            "phases": [{"start": one.start, "threshold": one.threshold} for one in run.phases],
        }
    return {**facts, "zone": None if clock is None else clock.zone, "timed": clock is not None}


def sums_as_json(view: View, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The sum and the mean over a range of positions or times."""
    confidence = asked["confidence"]
    by_time: dict[str, Any] = {"from_": asked.get("from"), "to": asked.get("to")}
    if {"start", "end"} & asked.keys() and {"from", "to"} & asked.keys():
        raise QueryError("a range is of positions (start, end) or of time (from, to), not of both")
    if isinstance(view, KeyedView):
        start, end = asked.get("start"), asked.get("end")
        chosen = _keys_of_answer(asked)
        if "key" in asked:
            chosen = {"key": asked["key"]}
        found = view.query(start, end, **chosen, **by_time, confidence=confidence)
    else:
        no_keys_to_answer(asked)
        if "from" in asked or "to" in asked:
            found = view.query(**by_time, confidence=confidence)
        else:
            end = asked.get("end", view.position)
            found = view.query(asked.get("start", 0), end, confidence)
    answer = _answer_as_json(found)
    return {
        "sum": answer,
        "count": answer["end"] - answer["start"],
        "mean": _mean_as_json(answer),
        "words": str(found),
        "guarantee": view.guarantee,
    }


def table_as_json(view: View, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Sums, means and rates by time, or sums over a number of rows each."""
    every, confidence = asked.get("every", "1d"), asked["confidence"]
    if len(every) > 18:  # digits of a place
        raise QueryError("every must be a length of time such as 1d, or a number of rows")
    length: Any = int(every) if every.isascii() and every.isdigit() else every
    by_time = {
        name: asked[word] for name, word in (("from_", "from"), ("to", "to")) if word in asked
    }
    if isinstance(view, KeyedView):
        chosen = {"keys": [asked["key"]]} if "key" in asked else _keys_of_answer(asked)
        if asked["total"]:
            if not isinstance(length, str):
                raise QueryError("a total over keys needs a length of time, such as every=1d")
            found: Any = view.totals(length, **chosen, **by_time, confidence=confidence)
        else:
            found = view.table(length, **chosen, **by_time, confidence=confidence)
    else:
        no_keys_to_answer(asked)
        found = view.table(length, confidence, **by_time)
    plain = {name: answer_column(column) for name, column in found.columns().items()}
    if "time" in plain:
        plain["time"] = _answer_times(found)
    facts = {"confidence": confidence, "guarantee": view.guarantee}
    return {"columns": plain, **facts, **({"note": found.note} if found.note else {})}


def _answer_times(found: Any) -> list[str]:
    parts = found.parts.values() if hasattr(found, "parts") else [found]
    different = {id(part.edges): part for part in parts}  # keys share their edges
    texts = {edges: part.times for edges, part in different.items()}
    return [text for part in parts for text in texts[id(part.edges)]]


def _keys_of_answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    """A group of keys: `keys=a,b`; without it, all keys."""
    return {"keys": asked["keys"].split(",")} if "keys" in asked else {}


def no_keys_to_answer(asked: Mapping[str, Any]) -> None:
    """Refuse keys in queries of a stream without keys."""
    if asked.keys() & {"key", "keys"} or asked.get("total"):
        raise QueryError("this stream has no keys")


def _answer_as_json(found: Answer) -> dict[str, Any]:
    return {name: getattr(found, name) for name in _NAMES} | {
        "threshold": found.threshold,
        "highest": found.highest,
        "warning": found.warning or None,
    }


def _mean_as_json(answer: Mapping[str, Any]) -> dict[str, float] | None:
    count = answer["end"] - answer["start"]
    names = ("estimate", "low", "high")
    return {name: answer[name] / count for name in names} if count else None


def answer_column(column: Any) -> list[Any]:
    """A column of a table for JSON; null for missing numbers."""
    numbers = column if isinstance(column, list) else column.tolist()
    if isinstance(column, np.ndarray) and (
        column.dtype.kind != "f" or bool(np.isfinite(column).all())
    ):
        return numbers
    return [None if isinstance(one, float) and not math.isfinite(one) else one for one in numbers]


def keys_to_answer(asked: Mapping[str, Any]) -> list[str] | None:
    """The keys that a query needs. None: all, or the stream has none."""
    return [asked["key"]] if "key" in asked else _keys_of_answer(asked).get("keys")


def codes_of_answer(run: Run, asked: Mapping[str, Any]) -> list[int] | None:
    """The codes of the requested keys. None: all rows."""
    names = keys_to_answer(asked)
    if names is None:
        return None
    if isinstance(run, DurableRelease):
        raise QueryError("this stream has no keys")
    return [run.release._code(name) for name in names]
