"""Tasks, rounds and batches in the database: create, load, save, retire."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from tidegate.errors import MissingError, RefusedError
from tidegate.local.task import RoundCalendar, Task, TaskRound
from tidegate.local.task.task_round import round_slot_as_plain, round_slot_from_plain
from tidegate.local.topl import Topl
from tidegate.service.devices.device_tables import batches, devices, questions, rounds, tasks

# Statements of every group, built once: building them costs more than running them.
_ASKED = {"asked", "asked_last"}
_KEEP_ASKED = (
    update(tasks)
    .where(tasks.c.task == bindparam("of_task"))
    .values(asked=bindparam("new_asked"), asked_last=bindparam("new_last"))
)
_KEEP_ROUND = (
    update(rounds)
    .where(rounds.c.task == bindparam("of_task"), rounds.c.number == bindparam("of_number"))
    .values(body=bindparam("new"))
)


@dataclass(frozen=True)
class TaskFacts:
    """The public facts of a task; only `retired` ever changes."""

    task: int
    task_id: str
    name: str
    topl: Topl
    calendar: RoundCalendar
    shuffled: bool
    population: int | None
    created: str
    retired: str | None

    def plain(self) -> dict[str, Any]:
        """The facts as plain data."""
        return {
            "task_id": self.task_id,
            "name": self.name,
            "settings": self.topl.settings(),
            **self.calendar.plain(),
            "shuffled": self.shuffled,
            "population": self.population,
            "guarantee": str(self.topl.guarantee),
            "created": self.created,
            "retired": self.retired,
        }


@dataclass(eq=False)
class StoredTask:
    """A task in memory, and which part of it the database has."""

    facts: TaskFacts
    task: Task
    known: set[str] = field(default_factory=set)  # names of questions
    changed: set[int] = field(default_factory=set)  # numbers of rounds
    _texts: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)

    def announced(self, number: int, slot: int) -> tuple[str, str]:
        """The announcement of a slot as text, and its digest; cached."""
        if (number, slot) not in self._texts:
            made = self.task.announcement(number, slot)
            self._texts[number, slot] = made.json(), made.digest
        return self._texts[number, slot]

    def drop(self, number: int) -> None:
        """Drop a round that takes no more reports."""
        del self.task.rounds[number]
        self._texts = {place: text for place, text in self._texts.items() if place[0] != number}


def create_task(connection: Connection, facts: TaskFacts, now: float) -> None:
    """Store a new task."""
    if connection.execute(select(tasks.c.task).where(tasks.c.name == facts.name)).first():
        raise RefusedError(f"there is a task {facts.name!r} already")
    made = Task(facts.task_id, facts.topl, facts.calendar)
    last = connection.execute(select(func.max(tasks.c.task))).scalar()
    row = {
        "task": (last or 0) + 1,
        "task_id": facts.task_id,
        "name": facts.name,
        "settings": json.dumps(facts.topl.settings()),
        "calendar": json.dumps(facts.calendar.plain()),
        "shuffled": int(facts.shuffled),
        "population": facts.population,
        "created": datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds"),
        # The questions as announced: computed anew elsewhere, they might differ in a bit.
        "state": json.dumps(made.collection.plain()),
        "began": facts.calendar.number(now),
        "asked": 0,
        "asked_last": 0.0,
    }
    connection.execute(insert(tasks).values(**row))


def found_task(connection: Connection, task_id: str) -> TaskFacts:
    """The facts of an existing task."""
    row = connection.execute(select(tasks).where(tasks.c.task_id == task_id)).one_or_none()
    if row is None:
        raise MissingError("there is no such task")
    return _stored_task_facts(row)


def listed_tasks(connection: Connection) -> list[TaskFacts]:
    """The facts of all tasks, by name."""
    return [
        _stored_task_facts(row) for row in connection.execute(select(tasks).order_by(tasks.c.name))
    ]


def retire_task(connection: Connection, task_id: str, now: float) -> TaskFacts:
    """Ask no more devices; those asked may still report."""
    when = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    open_one = (tasks.c.task_id == task_id) & tasks.c.retired.is_(None)
    connection.execute(update(tasks).where(open_one).values(retired=when))
    return found_task(connection, task_id)


def loaded_task(connection: Connection, task_id: str, now: float) -> StoredTask:
    """A task as committed."""
    row = connection.execute(select(tasks).where(tasks.c.task_id == task_id)).one_or_none()
    if row is None:
        raise MissingError("there is no such task")
    facts = _stored_task_facts(row)
    task = Task(facts.task_id, facts.topl, facts.calendar)
    task.asked, task.asked_last = row.asked, row.asked_last
    task.rounds = {
        one.number: one for one in task_rounds_between(connection, facts.task, row.began)
    }
    task.restore(json.loads(row.state))
    made = StoredTask(facts, task)
    made.known = {name for one in task.rounds.values() for part in one.parts for name in part.names}
    for number in task.passed(now):
        del task.rounds[number]
    return made


def task_rounds_between(
    connection: Connection, task: int, first: int, end: int | None = None
) -> list[TaskRound]:
    """The rounds first ≤ number < end, with their questions."""
    wanted = (rounds.c.task == task) & (rounds.c.number >= first)
    if end is not None:
        wanted &= rounds.c.number < end
    query = select(rounds.c.body).where(wanted).order_by(rounds.c.number)
    bodies = [json.loads(body) for body in connection.execute(query).scalars()]
    names = {name for body in bodies for part in body["parts"] for name in part["slots"]}
    known = {}
    for name in names:  # few: a question is asked for many rounds
        at = (questions.c.task == task) & (questions.c.name == name)
        body = connection.execute(select(questions.c.body).where(at)).scalar_one()
        known[name] = round_slot_from_plain(json.loads(body))
    return [TaskRound.from_plain(body, known) for body in bodies]


def resume_task_round(connection: Connection, stored: StoredTask, number: int) -> None:
    """Reopen a round that was over, if the clock has been set back."""
    for one in task_rounds_between(connection, stored.facts.task, number, number + 1):
        stored.task.rounds[number] = one


def save_task(
    connection: Connection, stored: StoredTask, now: float, *, other_questions: bool
) -> None:
    """Store changes; forget who was asked in rounds that take no more reports."""
    task, key = stored.task, stored.facts.task
    for number in stored.changed:
        _keep_task_questions(connection, stored, number)
        _keep_task_round(connection, key, task.rounds[number])
    stored.changed = set()
    passed = task.passed(now)
    for number in passed:
        stored.drop(number)
        gone = (devices.c.task == key) & (devices.c.number == number)
        connection.execute(delete(devices).where(gone))
    row: dict[str, Any] = {"asked": task.asked, "asked_last": task.asked_last}
    if other_questions:
        row["state"] = json.dumps(task.collection.plain())
    if other_questions or (passed and task.collection.left is None):
        row["began"] = min(task.rounds, default=task.calendar.number(now))
    if row.keys() == _ASKED:
        asked = {"new_asked": task.asked, "new_last": task.asked_last}
        connection.execute(_KEEP_ASKED, {"of_task": key, **asked})
    else:
        connection.execute(update(tasks).where(tasks.c.task == key).values(**row))


def _keep_task_questions(connection: Connection, stored: StoredTask, number: int) -> None:
    for part in stored.task.rounds[number].parts:
        for name, slot in zip(part.names, part.slots, strict=True):
            if name in stored.known:
                continue
            at = (questions.c.task == stored.facts.task) & (questions.c.name == name)
            if not connection.execute(select(questions.c.name).where(at)).first():
                row = {
                    "task": stored.facts.task,
                    "name": name,
                    "body": json.dumps(round_slot_as_plain(slot)),
                }
                connection.execute(insert(questions).values(**row))
            stored.known.add(name)


def _keep_task_round(connection: Connection, task: int, one: TaskRound) -> None:
    body = json.dumps(one.plain())
    at = {"of_task": task, "of_number": one.number, "new": body}
    if not connection.execute(_KEEP_ROUND, at).rowcount:
        connection.execute(insert(rounds).values(task=task, number=one.number, body=body))


def stored_batch_answer(connection: Connection, task: int, key: str, digest: str) -> str | None:
    """The answer that a shuffler got for this batch before. None: the batch is new."""
    at = (batches.c.task == task) & (batches.c.key == key)
    row = connection.execute(select(batches.c.digest, batches.c.answer).where(at)).one_or_none()
    if row is None:
        return None
    if row.digest != digest:
        raise RefusedError("this idempotency key was used for another batch")
    return str(row.answer)


def keep_task_batch(connection: Connection, task: int, key: str, digest: str, answer: str) -> None:
    """Store the answer to a batch."""
    row = {"task": task, "key": key, "digest": digest, "answer": answer}
    connection.execute(insert(batches).values(**row))


def _stored_task_facts(row: Any) -> TaskFacts:
    return TaskFacts(
        row.task,
        row.task_id,
        row.name,
        Topl.from_settings(json.loads(row.settings)),
        RoundCalendar(**json.loads(row.calendar)),
        bool(row.shuffled),
        row.population,
        row.created,
        row.retired,
    )
