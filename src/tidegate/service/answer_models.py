"""Models of answers about streams, values and the ledger, for the OpenAPI document.

They describe, and check nothing when a request is answered: that would take longer than most
answers. Tests hold every answer against them. Numbers that JSON cannot hold are texts or null.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Kind = Literal["readings", "events", "keyed readings", "keyed events"]


class AnswerModel(BaseModel):
    """Base of all answers: fields that are not named here are refused."""

    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """Problem details (RFC 9457): what happened, and what to do. Never a value."""

    model_config = ConfigDict(extra="forbid")

    type: str = Field(examples=["about:blank"])
    title: str
    status: int
    detail: str
    seen: int | None = Field(None, description="The stream's position, if `start` was another.")
    column: str | None = Field(None, description="The column of a row that was refused.")


# -- streams ---------------------------------------------------------------------------------------


class Checked(AnswerModel):
    """The guarantee of settings, and warnings about them."""

    guarantee: str
    withheld: int = Field(description="Values that choose the threshold and are not released.")
    warm_up: int
    warnings: list[str]


class ExpectedErrors(AnswerModel):
    """The errors to expect of sums over this many rows."""

    length: int
    standard_error: float
    noise_error: float
    threshold: float


class Planned(Checked):
    """The errors to expect from settings."""

    errors: list[ExpectedErrors]


class StreamFacts(AnswerModel):
    """The public facts of a stream, as created."""

    name: str
    kind: Kind
    epoch: int
    settings: dict[str, Any]
    source: str
    part: str | None
    created: str
    retired: str | None
    guarantee: str
    row_of: str | None = Field(None, description="The name of the rows that have this column.")
    closed_by: str | None = Field(None, alias="closed by", description="Whose clock closes ticks.")
    keys: str | None = None
    threshold: str | None = Field(None, description="`shared`: one for all keys; or one for each.")


class Phase(AnswerModel):
    """A threshold, and the position from which on it held."""

    start: int
    threshold: float | None


class StreamState(AnswerModel):
    """The present public facts of a stream."""

    kind: Kind
    source: str
    guarantee: str
    released: int
    withheld: int
    threshold: float | None
    zone: str | None
    timed: bool
    taken: int | None = Field(None, description="Readings only: the number of events is secret.")
    warming: int | None = None
    phases: list[Phase] | None = None
    keys: int | None = None


class StreamKind(AnswerModel):
    """The facts that a producer must know about a stream."""

    kind: Kind


class Finished(AnswerModel):
    """Open warm-ups have ended."""

    finished: Literal[True]


class KeysPage(AnswerModel):
    """Keys, and the number of released rows of each."""

    keys: list[str]
    released: list[int]
    next: int | None


class ColumnsFacts(AnswerModel):
    """The streams of rows with several values."""

    name: str
    columns: dict[str, StreamFacts]
    guarantee: str


# -- values ----------------------------------------------------------------------------------------


class TakenValues(AnswerModel):
    """The outcome of a push: its values are durable."""

    start: int | None = Field(description="The place of the first value; null for events.")
    count: int
    repeated: bool = Field(description="They were taken before: nothing was released now.")


class TakenColumns(AnswerModel):
    """The outcome of a push of rows with several values."""

    columns: dict[str, TakenValues]


class ClockTaken(AnswerModel):
    """The ticks that were over at that time are released."""

    until: str


class ReleasedRows(AnswerModel):
    """Released rows, as a list for each column."""

    first: int
    values: list[float]
    levels: list[float]
    places: list[int] | None = Field(None, description="Each row's place, where some are left out.")
    keys: list[str] | None = None
    positions: list[int] | None = Field(None, description="Each row's position within its key.")
    times: list[str] | None = Field(None, description="Nanoseconds since 1970.")


class ReleasedPage(AnswerModel):
    """A page of released rows."""

    rows: list[ReleasedRows]
    next: int = Field(description="Where the next page begins.")
    more: bool


class SumOfRange(AnswerModel):
    """A sum with its interval."""

    start: int
    end: int
    estimate: float
    low: float | None
    high: float | None = Field(description="null: there is no upper end.")
    standard_error: float | None
    confidence: float
    capped: bool
    threshold: float
    highest: float | None
    warning: str | None


class MeanOfRange(AnswerModel):
    """A mean with its interval."""

    estimate: float
    low: float | None
    high: float | None


class Sums(AnswerModel):
    """The sum, the number of rows and the mean of a range."""

    sum: SumOfRange
    count: int
    mean: MeanOfRange | None
    words: str
    guarantee: str


class Table(AnswerModel):
    """Sums for each part of a range: a list for each column, null for missing numbers."""

    columns: dict[str, list[float | str | None]]
    confidence: float
    guarantee: str
    note: str | None = None


class MovingSumColumns(AnswerModel):
    """Sums and means over a sliding window."""

    columns: dict[str, list[float | str | None]]
    over: str
    every: str | None = None
    confidence: float
    guarantee: str
