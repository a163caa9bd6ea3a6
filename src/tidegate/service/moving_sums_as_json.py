"""Moving sums over HTTP: those of the library (`record.moving_sums`) as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.errors import QueryError
from tidegate.keyed.keyed_views_for_threads import KeyedView
from tidegate.record.moving_sums import MovingSums, MovingWindows
from tidegate.service.answers_json import View, answer_column, no_keys_to_answer

MOST_WINDOWS = 2000  # in an answer of `GET …/moving_sums_as_json`: what a chart shows


def moving_sums_as_json(view: View, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The sums and means over windows of one length, oldest first: a list for each column."""
    every = asked.get("every")
    names = {"start": "start", "end": "end", "from": "from_", "to": "to"}
    windows = MovingWindows(
        _moving_rows_or_time(asked["over"]),
        None if every is None else _moving_rows_or_time(every),
        confidence=asked["confidence"],
        most=MOST_WINDOWS,
        **{name: asked[word] for word, name in names.items() if word in asked},
    )
    if not isinstance(view, KeyedView):
        no_keys_to_answer(asked)
    found = moving_windows_of(view, windows, asked.get("key"))
    columns = {name: column for name, column in found.columns().items() if name not in names}
    ends: dict[str, Any] = dict(zip(("from", "to"), found.texts(), strict=True))
    if found.spans is None:
        ends = {"start": found.answers.start, "end": found.answers.end}
    plain = {name: answer_column(column) for name, column in (ends | columns).items()}
    facts = {name: asked[name] for name in ("over", "every", "confidence") if name in asked}
    return {"columns": plain, **facts, "guarantee": view.guarantee}


def moving_windows_of(view: View, windows: MovingWindows, key: str | None) -> MovingSums:
    """The windows for a stream, or for one of its keys."""
    if not isinstance(view, KeyedView):
        return view.moved_over(windows)
    if key is None:
        raise QueryError("key: a moving sum is of one key; name it")
    return view.moved_over(windows, key)


def _moving_rows_or_time(length: str) -> int | str:
    return int(length) if length.isascii() and length.isdigit() else length
