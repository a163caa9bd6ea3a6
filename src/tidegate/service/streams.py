"""The streams of a service: created, retired, and opened when they are needed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import insert, select, update

from tidegate.durable import DurableRelease
from tidegate.errors import MissingError, RefusedError, SettingError
from tidegate.exact_numbers import said
from tidegate.ledger import Ledger
from tidegate.run.pipeline import Pipeline
from tidegate.service import schema
from tidegate.service.database import Database
from tidegate.service.sql_store import SqlChain, SqlStore

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")


@dataclass(frozen=True)
class Stream:
    """The public facts of a stream."""

    name: str
    settings: dict[str, Any]
    source: str
    created: str
    retired: str | None

    @property
    def pipeline(self) -> Pipeline:
        """What it is released by."""
        return Pipeline.from_settings(self.settings)


class Streams:
    """Everything in memory that belongs to streams. Only the gate's thread changes it."""

    def __init__(self, database: Database, key: bytes | None, cap: Any) -> None:
        self._database = database
        self._key = key
        self._cap = cap
        self._ledger: Ledger | None = None
        self._runs: dict[str, DurableRelease] = {}
        self._retired: set[str] = set()

    def open_ledger(self) -> None:
        """Verify the ledger, unless that was done; in the open transaction."""
        if self._ledger is None:
            self._ledger = Ledger.over(SqlChain(self._database), cap=self._cap)

    def forget(self) -> None:
        """What is in memory may be ahead of the database: drop it."""
        self._ledger = None
        self._runs = {}
        self._retired = set()

    @property
    def ledger_open(self) -> bool:
        """Whether the ledger was verified since memory was forgotten."""
        return self._ledger is not None

    @property
    def ledger(self) -> Ledger:
        """What was spent."""
        if self._ledger is None:
            raise AssertionError("the ledger is opened first")
        return self._ledger

    # -- in the gate's transaction ---------------------------------------------------------------

    def create(self, name: str, pipeline: Pipeline, source: str | None = None) -> Stream:
        """A new stream; its first value is charged to `source`."""
        if not _NAME.fullmatch(name):
            problem = "must have up to 120 letters, digits, dots, dashes or underscores"
            raise SettingError("name", f"{problem}, and begin with a letter or a digit")
        if self.find(name) is not None:
            raise RefusedError(f"there is a stream {name!r} already")
        stream = Stream(
            name,
            json.loads(json.dumps(pipeline.settings())),
            source or name,
            datetime.now(UTC).isoformat(timespec="seconds"),
            None,
        )
        row = {**vars(stream), "settings": json.dumps(stream.settings)}
        self._database.connection.execute(insert(schema.streams).values(**row))
        self._open(stream)
        return stream

    def retire(self, name: str) -> Stream:
        """Take no more values. What was released stays, and can be asked."""
        stream = self.existing(name)
        if stream.retired is None:
            table = schema.streams
            when = datetime.now(UTC).isoformat(timespec="seconds")
            change = update(table).where(table.c.name == name).values(retired=when)
            self._database.connection.execute(change)
            self._retired.add(name)
        return self.existing(name)

    def writable(self, name: str) -> DurableRelease:
        """The release of a stream that takes values."""
        run = self.run(name)
        if name in self._retired:
            raise RefusedError(f"the stream {name!r} was retired: it takes no values")
        return run

    def run(self, name: str) -> DurableRelease:
        """The release of a stream, as it was committed."""
        if name not in self._runs:
            self._open(self.existing(name))
        return self._runs[name]

    def loaded(self, name: str) -> bool:
        """Whether `run` needs no transaction."""
        return name in self._runs

    def _open(self, stream: Stream) -> None:
        if stream.retired is not None:
            self._retired.add(stream.name)
        store = SqlStore(self._database, stream.name, self.ledger)
        self._runs[stream.name] = DurableRelease.continued(
            store, stream.pipeline, key=self._key, source=stream.source
        )

    def find(self, name: str) -> Stream | None:
        """A stream of this name, in the open transaction."""
        query = select(schema.streams).where(schema.streams.c.name == name)
        row = self._database.connection.execute(query).one_or_none()
        return None if row is None else _stream(row)

    def existing(self, name: str) -> Stream:
        """A stream that must be there."""
        found = self.find(name)
        if found is None:
            raise MissingError(f"there is no stream {said(name)}")
        return found

    # -- from any thread -------------------------------------------------------------------------

    def listed(self) -> list[Stream]:
        """All streams that are committed, by name."""
        with self._database.reading() as connection:
            query = select(schema.streams).order_by(schema.streams.c.name)
            return [_stream(row) for row in connection.execute(query)]


def _stream(row: Any) -> Stream:
    return Stream(row.name, json.loads(row.settings), row.source, row.created, row.retired)
