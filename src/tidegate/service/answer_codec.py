"""Answers as JSON, and back: what the service sends is what its client shows.

Everything here is released data. Numbers that JSON cannot hold (an interval without an upper end)
are texts.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np

from tidegate.clock import Clock
from tidegate.record.answer import Answer
from tidegate.record.answers import Answers
from tidegate.record.time_ranges import TimeTable

_NO_NUMBERS = ("inf", "-inf", "nan")
_POSITIONS = ("start", "end")
_ERRORS = ("noise_error", "prediction_error", "truncation_error")
_ARRAYS = (*_POSITIONS, *_ERRORS, "estimate", "low", "high", "caps", "unseen")


def encoded(answers: Answer | Answers) -> dict[str, Any]:
    """All fields of an answer, or of many."""
    return {one.name: _plain(getattr(answers, one.name)) for one in fields(answers)}


def decoded_answer(content: dict[str, Any]) -> Answer:
    """The answer that `encoded` was given; fields of a newer service are left out."""
    found = {one.name: content[one.name] for one in fields(Answer) if one.name in content}
    return Answer(**{name: _number(value) for name, value in found.items()})


def decoded(content: dict[str, Any]) -> Answers:
    """The same for many answers."""
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


def encoded_table(table: TimeTable) -> dict[str, Any]:
    """All fields of a table by time. Times are texts: they exceed what JSON numbers hold."""
    return {
        "answers": encoded(table.answers),
        "edges": [str(edge) for edge in table.edges.tolist()],
        "clock": table.clock.plain(),
        "rows": table.rows.tolist(),
    }


def decoded_table(content: dict[str, Any]) -> TimeTable:
    """The table that `encoded_table` was given."""
    return TimeTable(
        decoded(content["answers"]),
        np.array([int(edge) for edge in content["edges"]], dtype=np.int64),
        Clock.from_plain(content["clock"]),
        np.array(content["rows"], dtype=np.int64),
    )


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(one) for one in value.tolist()]
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _number(value: Any) -> Any:
    return float(value) if value in _NO_NUMBERS else value
