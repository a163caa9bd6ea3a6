"""The tables of a state file, and what one commit writes into them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidegate.run.phased_run import Phase

FORMAT = 5
SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), body BLOB NOT NULL);
CREATE TABLE journal (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE users (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE inputs (number INTEGER PRIMARY KEY, digests BLOB NOT NULL);
CREATE TABLE phases (start INTEGER PRIMARY KEY, threshold REAL NOT NULL, epoch TEXT NOT NULL);
"""
WAY_ON = "restore it, or begin again with --new-epoch, which is charged (see the runbook)"
TABLES = ("facts", "state", "journal", "users", "inputs", "phases")
# The floor of a phase is a fact of its own, and only where it is not 0: older states can be
# continued.
SELECT_PHASES = """
SELECT start, threshold, epoch, coalesce(value, 0.0)
FROM phases LEFT JOIN facts ON name = 'floor ' || start ORDER BY start
"""
# In memory: VACUUM would put a copy of everything into a temporary file on another disk.
PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "temp_store=MEMORY")


@dataclass
class UserRows:
    """Rows about users that one commit adds, or (`replace`) writes in place of all others."""

    bodies: list[bytes] = field(default_factory=list)
    replace: bool = False


class Changes(NamedTuple):
    """What one commit adds beside the state."""

    journal: list[bytes]
    inputs: bytes
    phases: list[Phase]
    users: UserRows


def write_phases(database: sqlite3.Connection, phases: Iterable[Phase]) -> None:
    """Add phases, in the open transaction."""
    for phase in phases:
        row = (phase.start, phase.threshold, phase.epoch)
        database.execute("INSERT INTO phases VALUES (?, ?, ?)", row)
        if phase.floor:
            fact = (f"floor {phase.start}", phase.floor)
            database.execute("INSERT INTO facts VALUES (?, ?)", fact)
