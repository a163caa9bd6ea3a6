"""The state of one stream with keys in the service's database."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from tidegate.keyed.store import KeyedChanges
from tidegate.service import schema
from tidegate.service.sql_store import SqlPlace


class SqlKeyedStore(SqlPlace):
    """Keeps one stream with keys; only changed pages are written."""

    def commit(self, changes: KeyedChanges) -> None:
        """Write what changed. The rows are written by the group: readers need them by position."""
        self._write_facts({"head": changes.head})
        if changes.pages:
            self._write_pages(changes.pages)
        if changes.names:
            self._add(schema.names, [changes.names])
        if changes.inputs:
            self._add(schema.inputs, [changes.inputs])

    def _write_pages(self, pages: Mapping[int, bytes]) -> None:
        table = schema.pages
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
        """All names that were committed, in order."""
        return self._bodies(schema.names)

    def pages(self) -> list[bytes]:
        """All pages."""
        query = select(schema.pages.c.body).where(self._here(schema.pages))
        return [bytes(body) for body in self._open.execute(query).scalars()]
