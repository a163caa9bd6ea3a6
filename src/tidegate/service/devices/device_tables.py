"""The tables of local collection, in the service's database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
)

from tidegate.service.database_schema import tables as everything

_NAME = 200


def _number_column(name: str) -> Column[Any]:
    return Column(name, BigInteger, primary_key=True, autoincrement=False)


def _task_column(name: str, *columns: Column[Any]) -> Table:
    return Table(f"tidegate_task_{name}", everything, _number_column("task"), *columns)


tasks = Table(
    "tidegate_tasks",
    everything,
    _number_column("task"),
    Column("task_id", String(43), nullable=False, unique=True),
    Column("name", String(_NAME), nullable=False, unique=True),
    Column("settings", Text, nullable=False),
    Column("calendar", Text, nullable=False),
    Column("shuffled", Integer, nullable=False),
    Column("population", BigInteger),
    Column("created", String(40), nullable=False),
    Column("retired", String(40)),
    # The survey: as it was when its present questions opened, and since which round that is.
    Column("state", Text, nullable=False),
    Column("began", BigInteger, nullable=False),
    Column("asked", BigInteger, nullable=False),
    Column("asked_last", Float(53), nullable=False),
)
questions = _task_column(
    "questions",
    Column("name", String(64), primary_key=True),
    Column("body", Text, nullable=False),
)
rounds = _task_column(
    "rounds",
    _number_column("number"),
    Column("body", Text, nullable=False),
)
# Devices and their questions, for rounds that still take reports: a digest of each name.
devices = _task_column(
    "devices",
    _number_column("number"),
    Column("device", LargeBinary(16), primary_key=True),
    Column("slot", Integer, nullable=False),
    Column("reported", Integer, nullable=False),
)
# Batches of shufflers that were taken: a second one with the same key is the same.
batches = _task_column(
    "batches",
    Column("key", String(_NAME), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("answer", Text, nullable=False),
)

_MINE = (tasks, questions, rounds, devices, batches)


def create(connection: Connection) -> None:
    """Create missing tables, in the open transaction."""
    everything.create_all(connection, tables=_MINE, checkfirst=True)
