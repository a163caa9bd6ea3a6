"""The state of one stream in the service's database, with or without keys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from tidegate.durable import StateError
from tidegate.durable.folder_lock import Anchor
from tidegate.durable.state_file import StateChanges, StateUserRows
from tidegate.keyed.keyed_store import KeyedChanges
from tidegate.ledger import Ledger
from tidegate.run.phased_run import Phase
from tidegate.service import database_schema
from tidegate.service.database import Database

_READ_AT_ONCE = 256  # rows of the journal
# Statements of every commit, built once: building them costs more than running them.
_FACTS, _STATES = database_schema.facts, database_schema.states
_CHANGE_FACT = (
    update(_FACTS)
    .where(_FACTS.c.stream == bindparam("of"), _FACTS.c.name == bindparam("fact"))
    .values(value=bindparam("new"))
)
_ADD_FACT = insert(_FACTS)
_CHANGE_STATE = (
    update(_STATES).where(_STATES.c.stream == bindparam("of")).values(body=bindparam("new"))
)
_NUMBERED = (
    database_schema.journal,
    database_schema.users,
    database_schema.inputs,
    database_schema.names,
)
_ADD = {table.name: insert(table) for table in _NUMBERED}
_CONTENT = (
    database_schema.facts,
    database_schema.states,
    database_schema.journal,
    database_schema.users,
    database_schema.inputs,
    database_schema.phases,
)


class NoSqlAnchors:
    """No anchors for a stream: the database as a whole has one (`Database`)."""

    anchor = commit = None

    def keep(self, anchor: Anchor) -> None:
        """Do nothing: the charge is part of the transaction."""

    def keep_commit(self, anchor: Anchor) -> None:
        """Do nothing: the commit is part of the transaction."""


class SqlPlace:
    """The common part of stores of streams. Writes join the open transaction of the database."""

    own_ledger = False

    def __init__(self, database: Database, name: str, ledger: Ledger) -> None:
        self._database = database
        self._name = name
        self._ledger = ledger
        self._rows: dict[str, int] = {}  # how many there are, by table
        self.lock = NoSqlAnchors()

    @property
    def place(self) -> str:
        """The stream, for messages."""
        return f"the stream {self._name!r}"

    @property
    def default_source(self) -> str:
        """The name of the stream."""
        return self._name

    def ledger(self, *, cap: Any, expected: Anchor | None, needed: bool) -> Ledger:
        """The ledger of the service, which must contain the anchor of the stream."""
        if expected is not None:
            self._ledger.check_anchor(expected)
        return self._ledger

    def close(self) -> None:
        """Do nothing: the database stays open."""

    @property
    def _open(self) -> Connection:
        return self._database.connection

    def _here(self, table: Table) -> ColumnElement[bool]:
        found: ColumnElement[bool] = table.c.stream == self._name
        return found

    # -- facts and numbered rows -----------------------------------------------------------------

    def _write_facts(self, facts: dict[str, bytes]) -> None:
        for name, value in facts.items():
            row = {"of": self._name, "fact": name, "new": value}
            if not self._open.execute(_CHANGE_FACT, row).rowcount:
                new = {"stream": self._name, "name": name, "value": value}
                self._open.execute(_ADD_FACT, new)

    def _add(self, table: Table, bodies: list[bytes]) -> None:
        if not bodies:
            return
        known = self._length(table)
        rows = [
            {"stream": self._name, "number": known + at, "body": body}
            for at, body in enumerate(bodies, start=1)
        ]
        self._open.execute(_ADD[table.name], rows)
        self._rows[table.name] = known + len(bodies)

    def _length(self, table: Table) -> int:
        if table.name not in self._rows:
            query = select(func.coalesce(func.max(table.c.number), 0)).where(self._here(table))
            self._rows[table.name] = int(self._open.execute(query).scalar_one())
        return self._rows[table.name]

    def fact(self, name: str) -> bytes | None:
        """A public fact."""
        table = database_schema.facts
        query = select(table.c.value).where(self._here(table), table.c.name == name)
        return _sql_bytes(self._open.execute(query).scalar())

    def inputs(self) -> bytes:
        """All input digests, concatenated."""
        return b"".join(self._bodies(database_schema.inputs))

    def _bodies(self, table: Table) -> list[bytes]:
        query = select(table.c.body).where(self._here(table)).order_by(table.c.number)
        return [bytes(body) for body in self._open.execute(query).scalars()]


class SqlStore(SqlPlace):
    """Stores one stream."""

    disowned = False

    # -- writing ---------------------------------------------------------------------------------

    def begin(
        self, facts: dict[str, bytes], state: bytes, users: StateUserRows, anchor: Anchor
    ) -> None:
        """Make the first commit of a release."""
        for table in _CONTENT:
            self._open.execute(delete(table).where(self._here(table)))
        self._rows = {}
        self._write_users(users)
        self._write_facts({**facts, "anchor": json.dumps(anchor).encode()})
        self._open.execute(insert(database_schema.states).values(stream=self._name, body=state))

    def commit(self, state: bytes, anchor: Anchor, changes: StateChanges) -> None:
        """Write a new state and all other new rows."""
        self._write_users(changes.users)
        self._write_facts({"anchor": json.dumps(anchor).encode()})
        self._replace(state)
        self._add(database_schema.journal, changes.journal)
        if changes.inputs:
            self._add(database_schema.inputs, [changes.inputs])
        for phase in changes.phases:
            self._open.execute(
                insert(database_schema.phases).values(
                    stream=self._name,
                    start=phase.start,
                    threshold=phase.threshold,
                    epoch=phase.epoch,
                    floor=phase.floor,
                )
            )

    def replace_state(self, state: bytes, facts: dict[str, bytes], users: StateUserRows) -> None:
        """Replace the state: another key, or erasure."""
        self._write_users(users)
        self._replace(state)
        self._write_facts(facts)

    def scrub(self) -> None:
        """Do nothing: SQLite overwrites deleted data, PostgreSQL does when it vacuums."""

    def _replace(self, state: bytes) -> None:
        if self._open.execute(_CHANGE_STATE, {"of": self._name, "new": state}).rowcount != 1:
            raise StateError(f"{self.place} has no state: the database is damaged")

    def _write_users(self, users: StateUserRows) -> None:
        if users.replace:
            self._open.execute(
                delete(database_schema.users).where(self._here(database_schema.users))
            )
            self._rows["users"] = 0
        self._add(database_schema.users, users.bodies)

    # -- reading ---------------------------------------------------------------------------------

    def anchor(self) -> Anchor | None:
        """The ledger's newest entry at the last commit."""
        fact = self.fact("anchor")
        if fact is None:
            return None
        count, head = json.loads(fact)
        return int(count), str(head)

    def state(self) -> bytes | None:
        """The last committed state."""
        query = select(database_schema.states.c.body).where(self._here(database_schema.states))
        return _sql_bytes(self._open.execute(query).scalar())

    def journal_length(self) -> int:
        """The number of rows in the journal."""
        return self._length(database_schema.journal)

    def journal_rows(self, start: int, end: int) -> list[bytes]:
        """Rows [start, end) of the journal, counted from 0; some of them."""
        table = database_schema.journal
        query = (
            select(table.c.body)
            .where(self._here(table), table.c.number > start, table.c.number <= end)
            .order_by(table.c.number)
            .limit(_READ_AT_ONCE)
        )
        with self._database.reading() as connection:
            return [bytes(body) for body in connection.execute(query).scalars()]

    def journal(self, start: int, end: int) -> Iterator[bytes]:
        """Rows [start, end) of the journal."""
        while start < end and (rows := self.journal_rows(start, end)):
            yield from rows
            start += len(rows)

    def users(self) -> list[bytes]:
        """The rows with counts of users, in order."""
        return self._bodies(database_schema.users)

    def phases(self) -> list[Phase]:
        """All phases so far."""
        table = database_schema.phases
        columns = (table.c.start, table.c.threshold, table.c.epoch, table.c.floor)
        query = select(*columns).where(self._here(table)).order_by(table.c.start)
        return [Phase(*row) for row in self._open.execute(query)]


def _sql_bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


class SqlKeyedStore(SqlPlace):
    """Stores one stream with keys; only changed pages are written."""

    def commit(self, changes: KeyedChanges) -> None:
        """Write what changed, except the rows: the group writes them, for readers by position."""
        self._write_facts({"head": changes.head})
        if changes.pages:
            self._write_pages(changes.pages)
        if changes.names:
            self._add(database_schema.names, [changes.names])
        if changes.inputs:
            self._add(database_schema.inputs, [changes.inputs])

    def _write_pages(self, pages: Mapping[int, bytes]) -> None:
        table = database_schema.pages
        kind = postgresql if self._open.dialect.name == "postgresql" else sqlite
        change = kind.insert(table)
        replaced = change.on_conflict_do_update(
            index_elements=[table.c.stream, table.c.number], set_={"body": change.excluded.body}
        )
        rows = [
            {"stream": self._name, "number": number, "body": body} for number, body in pages.items()
        ]
        self._open.execute(replaced, rows)

    def names(self) -> list[bytes]:
        """All committed names, in order."""
        return self._bodies(database_schema.names)

    def pages(self) -> list[bytes]:
        """All pages."""
        query = select(database_schema.pages.c.body).where(self._here(database_schema.pages))
        return [bytes(body) for body in self._open.execute(query).scalars()]
