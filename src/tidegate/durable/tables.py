"""The tables of a state file, and what one commit writes into them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tidegate.run.phases import Phase

FORMAT = 4
SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE state (one INTEGER PRIMARY KEY CHECK (one = 1), body BLOB NOT NULL);
CREATE TABLE journal (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE users (number INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE inputs (number INTEGER PRIMARY KEY, digests BLOB NOT NULL);
CREATE TABLE phases (start INTEGER PRIMARY KEY, threshold REAL NOT NULL, epoch TEXT NOT NULL);
"""
TABLES = ("facts", "state", "journal", "users", "inputs", "phases")
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
