"""`POST …/query`: one route for all queries of sums, which the Python client uses."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from tidegate.durable.journal import JournalView
from tidegate.errors import QueryError
from tidegate.keyed.keyed_views_for_threads import KeyedView
from tidegate.record.moving_sums import MovingWindows
from tidegate.record.times.time_ranges_and_tables import TimeTable
from tidegate.service.access import Access
from tidegate.service.answers_json import (
    View,
    encoded_answers,
    encoded_moving_answers,
    encoded_table_answers,
    view_to_answer,
)
from tidegate.service.gate import GateThread
from tidegate.service.moving_sums_as_json import moving_windows_of
from tidegate.service.openapi_document import documented_answers
from tidegate.service.query_answer_models import QueryAnswer
from tidegate.service.strict_json import StrictRoute

_MOST_RANGES = 100_000
_MOST_KEYS = 10_000
Ends = (
    Annotated[list[int], Field(max_length=_MOST_RANGES)]
    | Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=_MOST_RANGES)]
)


class QueryQuestion(BaseModel):
    """Ranges of positions or times, a table of sums over parts, or sums over a window."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    starts: Ends | None = Field(None, examples=[[0]], description="Positions, or times as texts.")
    ends: Ends | None = Field(None, examples=[[500]])
    from_: str | None = Field(None, alias="from", examples=["2024-02-01"])
    to: str | None = Field(None, examples=["2024-03-01"])
    every: str | int | None = Field(None, examples=["1d"])
    over: str | int | None = Field(None, description="Sums over a window of this length.")
    start: int | None = Field(None, description="For windows: a position.")
    end: int | None = Field(None, description="For windows: a position.")
    confidence: float = 0.95
    as_of: int | None = None
    keys: Annotated[list[str], Field(max_length=_MOST_KEYS)] | None = Field(
        None, description="One key, or a group whose total is asked for; without it, all."
    )
    each: bool = Field(False, description="A table for each key, instead of one of their total.")

    def asked(self, view: View) -> dict[str, Any]:
        """The answers of a stream to this query."""
        if self.over is not None:
            return self._moving(view, self.over)
        if isinstance(view, KeyedView):
            return self._keyed(view)
        if self.keys is not None or self.each:
            raise QueryError("this stream has no keys")
        if self.every is not None:
            return self._table(view, self.every)
        if self.starts is not None and self.ends is not None:
            if self.from_ is not None or self.to is not None:
                raise QueryError("give a range once: starts and ends, or from and to")
            many = view.queries(self.starts, self.ends, self.confidence, as_of=self.as_of)
            return {"answers": encoded_answers(many)}
        found = view.query(
            from_=self.from_, to=self.to, confidence=self.confidence, as_of=self.as_of
        )
        return {"answer": encoded_answers(found)}

    def _moving(self, view: View, over: str | int) -> dict[str, Any]:
        """Sums over a sliding window, of a stream or of one key."""
        ends: dict[str, Any] = {"start": self.start, "end": self.end}
        ends |= {"from_": self.from_, "to": self.to}
        windows = MovingWindows(
            over, self.every, **ends, confidence=self.confidence, most=_MOST_RANGES
        )
        if not isinstance(view, KeyedView) and self.keys is not None:
            raise QueryError("this stream has no keys")
        if self.keys is not None and len(self.keys) != 1:
            raise QueryError("keys: a moving sum is of one key")
        return encoded_moving_answers(
            moving_windows_of(view, windows, self.keys[0] if self.keys else None)
        )

    def _keyed(self, view: KeyedView) -> dict[str, Any]:
        """The answer about one key, or about the total of a group: one range, or by time."""
        chosen: dict[str, Any] = {"keys": self.keys, "confidence": self.confidence}
        if self.as_of is not None:
            raise QueryError("as_of: a stream with keys answers as of now")
        if self.each:
            return self._of_each(view)
        if isinstance(self.every, int):
            raise QueryError("every must be a length of time for a stream with keys, such as 1d")
        if self.every is not None:
            found = view.totals(self.every, from_=self.from_, to=self.to, **chosen)
            return encoded_table_answers(found)
        if self.starts is None or self.ends is None:
            answer = view.query(from_=self.from_, to=self.to, **chosen)
        elif len(self.keys or ()) == 1 and self.keys is not None:
            with view._reading():  # others may ask the same record
                record = view.record(self.keys[0])
                many = record.queries(self.starts, self.ends, self.confidence)
            return {"answers": encoded_answers(many)}
        elif len(self.starts) == len(self.ends) == 1:
            answer = view.query(self.starts[0], self.ends[0], **chosen)
        else:
            raise QueryError("starts and ends: one range at a time for the total over keys")
        return {"answer": encoded_answers(answer)}

    def _of_each(self, view: KeyedView) -> dict[str, Any]:
        """A table for each key."""
        if self.every is None:
            raise QueryError("each needs every: a length of time, such as 1d, or a number of rows")
        found = view.table(
            self.every, keys=self.keys, from_=self.from_, to=self.to, confidence=self.confidence
        )
        tables = {
            key: encoded_table_answers(part)
            if isinstance(part, TimeTable)
            else {"answers": encoded_answers(part)}
            for key, part in found.parts.items()
        }
        return {"tables": tables, "note": found.note}

    def _table(self, view: JournalView, every: str | int) -> dict[str, Any]:
        if isinstance(every, int):
            return {"answers": encoded_answers(view.table(every, self.confidence))}
        found = view.table(every, self.confidence, from_=self.from_, to=self.to)
        return encoded_table_answers(found)


def query_route(gate: GateThread, access: Access) -> APIRouter:
    """`POST /v1/streams/{name}/query`."""
    routes = APIRouter(prefix="/v1/streams", route_class=StrictRoute)

    @routes.post(
        "/{name}/query", dependencies=[access.allowed("read")], **documented_answers(QueryAnswer)
    )
    async def query(name: str, question: QueryQuestion) -> dict[str, Any]:
        view = await asyncio.to_thread(
            gate.ask, name, lambda run: view_to_answer(run, question.keys)
        )
        return await gate.work_out(lambda: question.asked(view))

    return routes
