"""The store of a durable keyed release: its contract, and a folder with one SQLite file.

Kept are the keys in sealed pages, the rows of the last commit, and how long the output was before
them.

head       the secret, the counts, where the output is                   sealed
names      the keys in the order of their codes                          sealed
pages      the states of some keys each; only changed ones are written   sealed
batch      the rows of the last commit, which the output may lack        released data
inputs     keyed digests of what was read
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from tidegate.clock import Clock
from tidegate.durable.folder_lock import Anchor, StateError
from tidegate.durable.state_stores import ChargedStore, FolderStateFile
from tidegate.errors import SnapshotError
from tidegate.io.errors import sink_error
from tidegate.keyed.keyed_rows import KeyedRows
from tidegate.sealing import seal, unseal


class KeyedChanges(NamedTuple):
    """The content of one commit of a keyed release.

    Attributes:
        head: counts, and the secret of the noise; sealed. Replaces the one before.
        pages: states of some keys each, by number; sealed. Replace those before.
        names: keys that came since the last commit; sealed. Added to those before.
        inputs: digests of what was read; added.
        rows: what is released by this commit, and may have to be written again; None: no rows
            belong to it, and those of the commit before still may.
    """

    head: bytes
    pages: Mapping[int, bytes]
    names: bytes
    inputs: bytes
    rows: KeyedRows | None

    def __repr__(self) -> str:  # without a key the head is not sealed
        return "<KeyedChanges>"


class KeyedStateStore(ChargedStore, Protocol):
    """Stores the state of one keyed release."""

    def commit(self, changes: KeyedChanges) -> None:
        """Commit everything together."""

    def fact(self, name: str) -> bytes | None:
        """A stored fact: the `head`, and others."""

    def names(self) -> list[bytes]:
        """All committed names, in order."""

    def pages(self) -> list[bytes]:
        """All pages."""

    def inputs(self) -> bytes:
        """The digests of all input that was read."""


def anchors_in_head(head: bytes | None, key: bytes | None) -> list[Anchor]:
    """The ledger's newest entry when a head was written; empty if the head cannot be read."""
    with suppress(SnapshotError):
        count, newest = unseal(head or b"", key)[1].get("ledger", (0, ""))
        return [(count, newest)] if newest else []
    return []


_TAIL = 4096  # bytes of the output that are recognised


def written_length_in_store(path: str) -> dict[str, Any]:
    """The length of the output, and a digest of its end."""
    try:
        size = Path(path).stat().st_size
        return {"before": size, "tail": tail_digest(Path(path), size)}
    except OSError as error:  # it was moved away, for example by log rotation
        raise sink_error(error, path) from None


def tail_digest(path: Path, end: int) -> str:
    """A digest of the bytes just before `end`."""
    with path.open("rb") as file:
        file.seek(max(0, end - _TAIL))
        return hashlib.sha256(file.read(min(end, _TAIL))).hexdigest()


def packed_keyed_rows(rows: KeyedRows) -> bytes:
    """Released rows as bytes; nothing in them is secret."""
    clock = None if rows.clock is None else rows.clock.plain()
    body = {name: getattr(rows, name) for name in ("codes", "positions", "values", "levels")}
    times = rows.times if rows.times is not None else np.zeros(0, dtype=np.int64)
    return seal({"content": "rows"}, {**body, "times": times, "clock": clock}, None)


def unpacked_keyed_rows(data: bytes, names: list[str]) -> KeyedRows | None:
    """The inverse of `packed_keyed_rows`. None: there were no rows."""
    if not data:
        return None
    _, body = unseal(data, None)
    clock = body["clock"] and Clock.from_plain(body["clock"])
    numbers = (body["codes"], body["positions"], body["values"], body["levels"])
    if not numbers[0].size:
        return None
    return KeyedRows(names, *numbers, body["times"] if clock else None, clock)


_TABLES = (
    "CREATE TABLE IF NOT EXISTS pages (number INTEGER PRIMARY KEY, body BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS names (number INTEGER PRIMARY KEY, body BLOB NOT NULL)",
)


class KeyedStore(FolderStateFile):
    """The file of one durable keyed release."""

    @property
    def _file(self) -> Path:
        return self.folder / "keys.sqlite"

    def _connect(self) -> None:
        super()._connect()
        for table in _TABLES:
            self.database.execute(table)

    def begin_anew(self, changes: KeyedChanges) -> None:
        """Commit in place of all earlier content; `scrub` must follow."""
        self.commit(changes, anew=True)

    def commit(self, changes: KeyedChanges, *, anew: bool = False) -> None:
        """Commit everything in one transaction."""
        # No rows is nothing, whether events came or not: this can be read.
        batch = (
            packed_keyed_rows(changes.rows)
            if changes.rows is not None and len(changes.rows)
            else b""
        )
        with self._transaction() as database:
            if anew:
                (old,) = database.execute("SELECT count(*) FROM facts").fetchone()
                for table in ("facts", "pages", "names", "inputs"):
                    database.execute(f"DELETE FROM {table}")  # noqa: S608  # names of ours
                if old:
                    database.execute(
                        "INSERT INTO facts (name, value) VALUES ('scrub', ?)", (b"due",)
                    )
            write = "INSERT OR REPLACE INTO facts (name, value) VALUES (?, ?)"
            database.execute(write, ("head", changes.head))
            keep = write.replace("REPLACE", "IGNORE")
            database.execute(keep if changes.rows is None else write, ("batch", batch))
            database.executemany(
                "INSERT OR REPLACE INTO pages (number, body) VALUES (?, ?)",
                list(changes.pages.items()),
            )
            if changes.names:
                database.execute("INSERT INTO names (body) VALUES (?)", (changes.names,))
            if changes.inputs:
                database.execute("INSERT INTO inputs (digests) VALUES (?)", (changes.inputs,))

    def pages(self) -> list[bytes]:
        """All pages."""
        return [self._bytes(body) for (body,) in self._all("SELECT body FROM pages")]

    def names(self) -> list[bytes]:
        """All committed names, in order."""
        rows = self._all("SELECT body FROM names ORDER BY number")
        return [self._bytes(body) for (body,) in rows]

    def inputs(self) -> bytes:
        """The digests of all input that was read."""
        rows = self._all("SELECT digests FROM inputs ORDER BY number")
        return b"".join(self._bytes(row[0]) for row in rows)


def open_keyed_store(store: KeyedStore, give_up: Callable[[], None] | None) -> None:
    """Open a store; remove an unreadable one first if it is to be replaced anyway.

    `give_up` may refuse that.
    """
    try:
        store.open(create=True)
    except StateError:
        if give_up is None:
            raise
        store.lock.acquire()
        try:
            give_up()
            store.discard()
            store.open(create=True)
        except BaseException:
            store.close()
            raise
