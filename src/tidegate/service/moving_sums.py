"""Moving sums: over a window that slides, with its interval at each of its ends.

`GET …/moving?over=1d&every=1h` is what a chart needs: the sum of the last day, once an hour. Each
number is the answer of `queries(starts, ends)` in the library, bit for bit: windows overlap, which
costs nothing, since an answer is post-processing of released rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tidegate.clock import SECOND, Clock
from tidegate.errors import QueryError
from tidegate.keyed.views_for_other_threads import KeyedView
from tidegate.lattice import IntArray
from tidegate.record.range_queries_and_answers import Answers
from tidegate.record.record import Record
from tidegate.record.times.sums_over_time import check_known, forgotten_until, places_of
from tidegate.record.times.time_ranges import asked as ends_of
from tidegate.record.times.time_ranges import length_of
from tidegate.service.answers_json import View, no_keys, plain_column

MOST_WINDOWS = 2000  # in an answer
_STEPS = 4  # ends of windows in a window, unless `every` says more or fewer
_NO_LENGTH = "must be a fixed length of time, up to weeks (1h, 1d, 1w), or a number of rows (1000)"


def moving(view: View, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The sums and means over windows of one length, oldest first."""
    if isinstance(view, KeyedView):
        if "key" not in asked:
            raise QueryError("key: a moving sum is of one key; name it")
        with view._reading():
            columns = _columns(view.record(asked["key"]), asked)
    else:
        no_keys(asked)
        with view.record() as record:
            if record is None:
                raise QueryError("nothing is released yet")
            columns = _columns(record, asked)
    plain = {name: plain_column(column) for name, column in columns.items()}
    facts = {name: asked[name] for name in ("over", "every", "confidence") if name in asked}
    return {"columns": plain, **facts, "guarantee": view.guarantee}


def _columns(record: Record, asked: Mapping[str, Any]) -> dict[str, Any]:
    over, every = asked["over"], asked.get("every")
    if over.isascii() and over.isdigit():
        return _sums_by_rows(record, asked, int(over), every)
    return _sums_by_time(record, asked, _length("over", over), every)


def _sums_by_rows(
    record: Record, asked: Mapping[str, Any], over: int, every: str | None
) -> dict[str, Any]:
    if "from" in asked or "to" in asked:
        raise QueryError("from and to need a length of time, such as over=1d")
    if over < 1:
        raise QueryError(f"over {_NO_LENGTH}")
    step = max(1, over // _STEPS)
    if every is not None:
        if not (every.isascii() and every.isdigit() and int(every)):
            raise QueryError("every must be a number of rows, as over is")
        step = int(every)
    first = max(record.start, asked.get("start", 0)) + over
    last = min(record.end, asked.get("end", record.end))
    ends = _ends(first, last, step)
    sums = record.answers(ends - over, ends, asked["confidence"], None)
    return {"start": ends - over, "end": ends, **_numbers(sums, ends * 0 + over)}


def _sums_by_time(
    record: Record, asked: Mapping[str, Any], over: int, every: str | None
) -> dict[str, Any]:
    if "start" in asked or "end" in asked:
        raise QueryError("start and end need a number of rows, such as over=1000")
    index = record.time_index
    step = max(SECOND, over // _STEPS) if every is None else _length("every", every)
    first, last = ends_of(index, asked.get("from"), asked.get("to")).tolist()
    known = forgotten_until([record]) or index.first_time
    ends = _ends(max(first, known) + over, min(last, index.last_time + 1), step)
    if ends.size:
        check_known([record], int(ends[0]) - over)
    # No row is late: over HTTP such rows are refused.
    begin, end = places_of(record, ends - over), places_of(record, ends)
    numbers = _numbers(record.answers(begin, end, asked["confidence"], None), end - begin)
    clock = Clock(index.clock.zone)
    return {"from": clock.texts(ends - over), "to": clock.texts(ends), **numbers}


def _ends(first: int, last: int, step: int) -> IntArray:
    """Where windows end: at multiples of the step, so that they stay where they are; and at last.

    No window is shown before a whole one is known.
    """
    if last < first:
        return np.zeros(0, dtype=np.int64)
    begin = -(-first // step) * step
    if (last - begin) // step + 1 > MOST_WINDOWS:
        raise QueryError(f"every is too short: more than {MOST_WINDOWS:,} windows")
    ends = np.arange(begin, last + 1, step)
    return ends if ends.size and ends[-1] == last else np.append(ends, last)


def _numbers(sums: Answers, rows: IntArray) -> dict[str, Any]:
    found: dict[str, Any] = {"rows": rows}
    some = np.where(rows > 0, rows, np.nan)
    for end in ("estimate", "low", "high"):
        more = "" if end == "estimate" else f"_{end}"
        found[f"sum{more}"] = getattr(sums, end)
        found[f"mean{more}"] = getattr(sums, end) / some
    return found


def _length(name: str, given: str) -> int:
    try:
        return length_of(given)
    except QueryError:
        raise QueryError(f"{name} {_NO_LENGTH}") from None
