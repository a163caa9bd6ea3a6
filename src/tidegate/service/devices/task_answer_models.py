"""Models of answers about tasks of local collection: see `service.answer_models`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from tidegate.service.answer_models import AnswerModel, MeanOfRange


class TaskPlain(AnswerModel):
    """The public facts of a task."""

    task_id: str
    name: str
    settings: dict[str, Any]
    every: str
    zone: str
    grace: str
    shuffled: bool
    population: int | None
    guarantee: str
    created: str
    retired: str | None


class TaskState(TaskPlain):
    """A task, and the progress of its round."""

    round: str
    closes: str
    accepted_until: str
    asked: int
    reports: int


class CollectedAnswer(MeanOfRange):
    """A sum or a mean over reports, with its interval."""

    standard_error: float | None


class CollectedRow(AnswerModel):
    """One interval of time."""

    from_: str = Field(alias="from")
    to: str
    devices: int
    reports: int
    sum: CollectedAnswer | None
    mean: CollectedAnswer | None
    population_total: CollectedAnswer | None = None


class Collection(AnswerModel):
    """Sums and means of a task by time."""

    task_id: str
    rows: list[CollectedRow]
    confidence: float
    population: int | None
    threshold: float | None
    highest: float | None
    floor: float | None
    warnings: list[str]
    guarantee: str


class BatchOutcome(AnswerModel):
    """The outcome of a shuffler's batch."""

    accepted: int
    rejected: dict[str, int]
    shuffled: str | None
