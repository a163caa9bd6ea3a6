"""The ledger of the service: one database row for each line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Connection, insert, select

from tidegate.ledger.errors import LedgerError
from tidegate.ledger.hashed_lines import HashedLine, HashedLines
from tidegate.service import database_schema
from tidegate.service.database import Database


class SqlLedger(HashedLines):
    """The ledger of the service: one database row for each line."""

    def __init__(self, database: Database, key: bytes | None = None) -> None:
        super().__init__(Path("ledger of the service"), key)
        self._database: Database | None = database

    @property
    def _open(self) -> Connection:
        if self._database is None:
            raise LedgerError(self.path, "it is closed: nothing can be charged")
        return self._database.connection

    def reconcile(self) -> None:
        """Make the ledger and its copy in the folder equal, before reading."""
        if self._database is None:
            return
        table = database_schema.ledger
        lines = self._open.execute(select(table.c.line).order_by(table.c.number)).scalars()

        def adopt(number: int, line: bytes) -> None:
            self._open.execute(insert(table).values(number=number, line=line))

        mirror, restored = self._database.mirror, self._database.restored
        mirror.reconcile([bytes(line) for line in lines], adopt, restored=restored)

    def read(self) -> Iterator[HashedLine]:
        """Verify and return all entries."""
        table = database_schema.ledger
        lines = self._open.execute(select(table.c.line).order_by(table.c.number)).scalars()
        for number, line in enumerate(lines):
            if not number:
                self._check_header(bytes(line))
            yield self._verified(bytes(line))

    def _write(self, line: bytes) -> None:
        row = {"number": self.count + 1, "line": line.removesuffix(b"\n")}
        self._open.execute(insert(database_schema.ledger).values(**row))
        if self._database is not None:
            self._database.mirror.add(line.removesuffix(b"\n"))

    def close(self) -> None:
        """Refuse further use: memory may be ahead of the database."""
        self._database = None
