"""Facts and answers of a stream as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tidegate.durable import DurableRelease
from tidegate.errors import QueryError
from tidegate.record.answer import Answer


def described(run: DurableRelease) -> dict[str, Any]:
    """What is public about a stream."""
    clock = run.clock
    return {
        "source": run.source,
        "guarantee": str(run.guarantee),
        "taken": run.seen,
        "released": run.position,
        "withheld": run.holding,
        "warming": run.warming,
        "threshold": run.threshold,
        "phases": [{"start": one.start, "threshold": one.threshold} for one in run.phases],
        "zone": None if clock is None else clock.zone,
        "timed": clock is not None,
    }


def sums(run: DurableRelease, asked: Mapping[str, str]) -> dict[str, Any]:
    """The sum over a range of positions or of time."""
    confidence = _confidence(asked)
    if "from" in asked or "to" in asked:
        found = run.query(from_=asked.get("from"), to=asked.get("to"), confidence=confidence)
    else:
        start = _position(asked, "start", 0)
        found = run.query(start, _position(asked, "end", run.position), confidence)
    return {"sum": _answer(found), "words": str(found), "guarantee": str(run.guarantee)}


def table(run: DurableRelease, asked: Mapping[str, str]) -> dict[str, Any]:
    """Sums, means and rates by time, or sums over so many rows at a time."""
    every, confidence = asked.get("every", "1d"), _confidence(asked)
    if every.isdigit():
        answers = run.table(_position(asked, "every", 0), confidence)
        columns: dict[str, Any] = dict(answers.columns())
    else:
        found = run.table(every, confidence, from_=asked.get("from"), to=asked.get("to"))
        columns = {**found.columns(), "time": found.times}
    plain = {name: _plain(column) for name, column in columns.items()}
    return {"columns": plain, "confidence": confidence, "guarantee": str(run.guarantee)}


def _answer(found: Answer) -> dict[str, Any]:
    names = ("start", "end", "estimate", "low", "high", "standard_error", "confidence", "capped")
    return {name: getattr(found, name) for name in names} | {
        "threshold": found.threshold,
        "highest": found.highest,
        "warning": found.warning or None,
    }


def _plain(column: Any) -> list[Any]:
    numbers = column if isinstance(column, list) else column.tolist()
    return [None if isinstance(one, float) and math.isnan(one) else one for one in numbers]


def _position(asked: Mapping[str, str], name: str, default: int) -> int:
    text = asked.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise QueryError(f"{name} must be a position; to ask by time, use from and to")
    return int(text)


def _confidence(asked: Mapping[str, str]) -> float:
    try:
        return float(asked.get("confidence", "0.95"))
    except ValueError:
        raise QueryError("confidence must be a number between 0 and 1") from None
