"""Models of answers of `POST …/query`: all fields of the library's answers (`answer_models`)."""

from __future__ import annotations

from typing import Literal

from tidegate.service.answer_models import AnswerModel

Number = float | Literal["inf", "-inf", "nan"]  # JSON holds no infinity
Numbers = list[Number]


class FullQueryAnswer(AnswerModel):
    """All fields of `tidegate.Answer`."""

    start: int
    end: int
    estimate: Number
    noise_error: Number
    prediction_error: Number
    truncation_error: Number
    low: Number
    high: Number
    confidence: float
    threshold: Number
    highest: Number | None
    full: Number | None
    floor: Number
    lowest_floor: Number | None
    empty: Number | None
    capped: bool
    unseen: Number
    limit: Number | None
    note: str
    span: str
    bound: Number | None
    lower: Number


class FullAnswers(AnswerModel):
    """All fields of `tidegate.Answers`: a list for each."""

    start: list[int]
    end: list[int]
    estimate: Numbers
    noise_error: Numbers
    prediction_error: Numbers
    truncation_error: Numbers
    low: Numbers
    high: Numbers
    confidence: float
    threshold: Number
    caps: list[Numbers] | None
    capped: bool
    unseen: Numbers | None
    limit: Numbers | None
    note: str
    span: str
    bound: Number | None
    lower: Number


class OneAnswer(AnswerModel):
    """The answer about one range."""

    answer: FullQueryAnswer


class ManyAnswers(AnswerModel):
    """The answers about many ranges."""

    answers: FullAnswers


class ClockFacts(AnswerModel):
    """How times are written."""

    zone: str | None
    unit: str | None


class AnswersByTime(ManyAnswers):
    """A table by time: edges are nanoseconds since 1970, as texts."""

    edges: list[str]
    clock: ClockFacts
    rows: list[int]


class AnswersByKey(AnswerModel):
    """A table for each key."""

    tables: dict[str, AnswersByTime | ManyAnswers]
    note: str


class MovingAnswers(ManyAnswers):
    """Sums over a sliding window; spans are nanoseconds since 1970, as texts."""

    rows: list[int]
    spans: list[list[str]] | None
    clock: ClockFacts | None


QueryAnswer = OneAnswer | AnswersByTime | ManyAnswers | AnswersByKey | MovingAnswers
