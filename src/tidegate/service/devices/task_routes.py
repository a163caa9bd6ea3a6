"""Routes of operators and readers: begin and retire tasks, sums by time."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictFloat

from tidegate.errors import SettingError
from tidegate.local.round_schedule import check_round_is_announceable
from tidegate.local.task import RoundCalendar
from tidegate.local.topl import Topl
from tidegate.randomness import random_bytes
from tidegate.service.access import Access
from tidegate.service.devices.answers_by_time import answers_by_time, described_with_answers
from tidegate.service.devices.device_queue import DeviceQueue
from tidegate.service.devices.stored_tasks import TaskFacts
from tidegate.service.devices.task_answer_models import Collection, TaskPlain, TaskState
from tidegate.service.http_etags import etagged_answer
from tidegate.service.openapi_document import documented_answers
from tidegate.service.strict_json import StrictRoute

_ID_BYTES = 32
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,119}$"  # as of streams


class NewTask(BaseModel):
    """A task to begin: what devices are asked, and when."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(pattern=_NAME, examples=["steps"])
    epsilon: str | StrictFloat = Field(examples=["1"], description="What a report costs.")
    bound: str | StrictFloat = Field(
        examples=["100"], description="The public upper bound of a value."
    )
    every: str = Field("1d", description="How long a round lasts: a device answers once in it.")
    zone: str = Field("UTC", description="Whose days.")
    grace: str = Field("", description="How long late reports count; a quarter of a round.")
    shuffled: bool = Field(False, description="Reports come from a shuffler, not from devices.")
    population: int | None = Field(
        None, ge=1, le=1 << 53, description="How many devices there are."
    )
    settings: dict[str, Any] = Field(
        default_factory=dict, description="Further settings of tidegate.topl."
    )

    def facts(self) -> TaskFacts:
        """The checked task."""
        for name in ("epsilon", "bound"):
            if name in self.settings:
                raise SettingError(name, "stands beside settings, not in it")
        topl = Topl.from_settings({**self.settings, "epsilon": self.epsilon, "bound": self.bound})
        check_round_is_announceable(topl)
        calendar = RoundCalendar(every=self.every, zone=self.zone, grace=self.grace)
        task_id = base64.urlsafe_b64encode(random_bytes(_ID_BYTES)).decode().rstrip("=")
        return TaskFacts(
            0, task_id, self.name, topl, calendar, self.shuffled, self.population, "", None
        )


def task_routes(queue: DeviceQueue, access: Access) -> APIRouter:
    """The routes under `/v1/tasks` that are not for devices."""
    routes = APIRouter(prefix="/v1/tasks", route_class=StrictRoute)
    read, manage = [access.allowed("read")], [access.allowed("manage")]
    facts_of = [access.allowed("read facts")]

    @routes.post("", dependencies=manage, **documented_answers(TaskPlain, 201))
    async def begin(new: NewTask) -> dict[str, Any]:
        facts = await asyncio.to_thread(new.facts)
        made = await asyncio.wrap_future(queue.create(facts))
        return made.plain()

    @routes.get("", dependencies=facts_of, **documented_answers(list[TaskPlain], tagged=True))
    async def listed(request: Request) -> Response:
        found = await asyncio.to_thread(queue.listed)
        return etagged_answer(request, [one.plain() for one in found])

    @routes.get("/{task_id}", dependencies=facts_of, **documented_answers(TaskState, tagged=True))
    async def one(request: Request, task_id: str) -> Response:
        return etagged_answer(
            request, await asyncio.to_thread(described_with_answers, queue, task_id)
        )

    @routes.post("/{task_id}/retire", dependencies=manage, **documented_answers(TaskPlain))
    async def retire(task_id: str) -> dict[str, Any]:
        return (await asyncio.wrap_future(queue.retire(task_id))).plain()

    @routes.get(
        "/{task_id}/collection",
        dependencies=read,
        openapi_extra=_COLLECTION,
        **documented_answers(Collection, tagged=True),
    )
    async def collection(request: Request, task_id: str) -> Response:
        asked = request.query_params
        return etagged_answer(
            request, await asyncio.to_thread(answers_by_time, queue, task_id, asked)
        )

    return routes


def _task_parameter(name: str, text: str) -> dict[str, Any]:
    schema = {"type": "string"}
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": text}


_COLLECTION = {
    "parameters": [
        _task_parameter("from", "The beginning of the interval, as ISO 8601; that of a round."),
        _task_parameter("to", "Its end."),
        _task_parameter(
            "every", "A row for each part of this length; without it, one row a round."
        ),
        _task_parameter("population", "How many devices there are; default: the task's."),
        _task_parameter("confidence", "The confidence of the intervals, 0.95 by default."),
    ]
}
