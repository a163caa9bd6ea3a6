"""The tables of local collection, in the service's database."""

from __future__ import annotations

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

tasks = Table(
    "tidegate_tasks",
    everything,
    Column("task", BigInteger, primary_key=True, autoincrement=False),
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
questions = Table(
    "tidegate_task_questions",
    everything,
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("name", String(64), primary_key=True),
    Column("body", Text, nullable=False),
)
rounds = Table(
    "tidegate_task_rounds",
    everything,
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
)
# Who was asked what, of rounds that still take reports: a digest of the name in that round.
devices = Table(
    "tidegate_task_devices",
    everything,
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("device", LargeBinary(16), primary_key=True),
    Column("slot", Integer, nullable=False),
    Column("reported", Integer, nullable=False),
)
# Batches of shufflers that were taken: a second one with the same key is the same.
batches = Table(
    "tidegate_task_batches",
    everything,
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("key", String(_NAME), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("answer", Text, nullable=False),
)

_MINE = (tasks, questions, rounds, devices, batches)


def create(connection: Connection) -> None:
    """Make those that are not there, in the open transaction."""
    everything.create_all(connection, tables=_MINE, checkfirst=True)
