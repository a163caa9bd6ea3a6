"""What a durable keyed release keeps: one SQLite file, with the keys in sealed pages.

head       the secret, the names, the counts, where the output is      sealed
pages      the states of some keys each; only changed ones are written   sealed
batch      the rows of the last commit, which the output may lack        released data
inputs     keyed digests of what was read
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tidegate.durable.folder import StateError
from tidegate.durable.state_file import StateFile

_PAGES = "CREATE TABLE IF NOT EXISTS pages (number INTEGER PRIMARY KEY, body BLOB NOT NULL)"


class KeyedStore(StateFile):
    """The file of one durable keyed release."""

    @property
    def _file(self) -> Path:
        return self.folder / "keys.sqlite"

    def _connect(self) -> None:
        super()._connect()
        self.database.execute(_PAGES)

    def commit(self, head: bytes, pages: Mapping[int, bytes], batch: bytes, inputs: bytes) -> None:
        """Commit everything in one transaction."""
        with self._transaction() as database:
            write = "INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)"
            database.executemany(write, [("head", head), ("batch", batch)])
            database.executemany(
                "INSERT OR REPLACE INTO pages (number, body) VALUES (?, ?)", list(pages.items())
            )
            if inputs:
                database.execute("INSERT INTO inputs (digests) VALUES (?)", (inputs,))

    def begin_anew(self, head: bytes) -> None:
        """Replace everything by a release that has read nothing; `scrub` must follow."""
        with self._transaction() as database:
            (old,) = database.execute("SELECT count(*) FROM facts").fetchone()
            for table in ("facts", "pages", "inputs"):
                database.execute(f"DELETE FROM {table}")  # noqa: S608  # names of ours
            facts = {"head": head, "batch": b"", **({"scrub": b"due"} if old else {})}
            write = "INSERT INTO facts (name, value) VALUES (?, ?)"
            database.executemany(write, list(facts.items()))

    def pages(self) -> list[bytes]:
        """All pages."""
        return [self._bytes(body) for (body,) in self._all("SELECT body FROM pages")]

    def digests(self) -> bytes:
        """The digests of all that was read."""
        rows = self._all("SELECT digests FROM inputs ORDER BY number")
        return b"".join(self._bytes(row[0]) for row in rows)


def opened_store(store: KeyedStore, *, discard: bool) -> None:
    """Open a store; one that cannot be read is removed first, if it is to be given up anyway."""
    try:
        store.open(create=True)
    except StateError:
        if not discard:
            raise
        store.lock.acquire()
        try:
            store.discard()
            store.open(create=True)
        except BaseException:
            store.close()
            raise
