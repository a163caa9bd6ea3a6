"""The shuffler's store: questions of devices, waiting reports, unsent batches."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tidegate import _atomic_files
from tidegate._atomic_files import InheritedFile
from tidegate.errors import RefusedError
from tidegate.local.announcements_and_reports import Report
from tidegate.local.shuffle import Shuffled, Shuffler
from tidegate.ownership import Ownership
from tidegate.randomness import random_bytes

_SCHEMA = """
CREATE TABLE IF NOT EXISTS rounds (
    round TEXT PRIMARY KEY, task TEXT NOT NULL, closes REAL NOT NULL, until REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS questions (round TEXT, slot INTEGER, body TEXT NOT NULL,
    PRIMARY KEY (round, slot));
CREATE TABLE IF NOT EXISTS devices (round TEXT, device BLOB, slot INTEGER NOT NULL,
    report INTEGER, reported INTEGER NOT NULL, PRIMARY KEY (round, device)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tokens (token BLOB PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batches (key TEXT PRIMARY KEY, round TEXT NOT NULL, body TEXT NOT NULL);
"""
_WAIT = 1.0  # seconds for a lock: another shuffler keeps it, a backup lets go of it
_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "temp_store=MEMORY")


@dataclass(frozen=True)
class WaitingInShuffler:
    """A round with waiting reports."""

    round: str
    reports: int
    closes: float
    until: float


class ShufflerStore(InheritedFile):
    """A SQLite file in a folder, used by one process and one thread at a time."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder.absolute() / "shuffler.sqlite"
        if not path.exists():
            _atomic_files.close(_atomic_files.create(path))
        self._ownership = Ownership("shuffler", "open it again")
        self._name = _atomic_files.FileOfOneName(path)
        self._check_name()
        self._database = sqlite3.connect(
            path, timeout=_WAIT, isolation_level=None, check_same_thread=False
        )
        try:
            self._database.execute("PRAGMA locking_mode=EXCLUSIVE")
            for pragma in _PRAGMAS:
                self._database.execute(f"PRAGMA {pragma}")
            self._database.executescript(_SCHEMA)
        except sqlite3.OperationalError:
            self._database.close()
            raise RefusedError(f"{folder} is in use by another shuffler, or damaged") from None
        self.guard()

    def _check_name(self) -> None:
        """Refuse a file with other names: each name would have its own log."""
        if trouble := self._name.trouble:
            raise RefusedError(f"{self._name.path} {trouble}")

    def disown(self) -> None:
        """Neither use nor close the file; called in the forked process (see `Ownership`)."""
        self.keep_for_ever(self._database)

    def close(self) -> None:
        """Close the file; everything accepted is on the disk already."""
        with self._ownership.lock:
            self._database.close()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._ownership.lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                self._check_name()
                yield
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def _rows(self, query: str, *values: object) -> list[tuple[object, ...]]:
        with self._ownership.lock:
            return self._database.execute(query, values).fetchall()

    # -- devices ---------------------------------------------------------------------------------

    def keep_round(self, name: str, task: str, closes: float, until: float) -> None:
        """Store the time until which a round takes reports."""
        with self._changing():
            self._database.execute(
                "INSERT OR IGNORE INTO rounds VALUES (?, ?, ?, ?)", (name, task, closes, until)
            )

    def until(self, name: str) -> float | None:
        """The time until which a round takes reports. None: unknown."""
        rows = self._rows("SELECT until FROM rounds WHERE round = ?", name)
        return float(str(rows[0][0])) if rows else None

    def keep_token(self, token: bytes, until: float) -> None:
        """Note that the service accepts the token with this digest."""
        if (self.token_until(token) or 0.0) < until:
            with self._changing():
                self._database.execute("REPLACE INTO tokens VALUES (?, ?)", (token, until))

    def token_until(self, token: bytes) -> float | None:
        """The time until which a token counts as accepted. None: unknown."""
        rows = self._rows("SELECT until FROM tokens WHERE token = ?", token)
        return float(str(rows[0][0])) if rows else None

    def forget_token(self, token: bytes) -> None:
        """Forget a token that the service no longer accepts."""
        with self._changing():
            self._database.execute("DELETE FROM tokens WHERE token = ?", (token,))

    def keep_asked(self, name: str, device: bytes, slot: int, announcement: str) -> None:
        """Store a device's question: the service repeats it unchanged."""
        with self._changing():
            self._database.execute(
                "INSERT OR IGNORE INTO questions VALUES (?, ?, ?)", (name, slot, announcement)
            )
            self._database.execute(
                "INSERT OR IGNORE INTO devices VALUES (?, ?, ?, NULL, 0)", (name, device, slot)
            )

    def question(self, name: str, slot: int) -> str | None:
        """The announcement of a slot, if a device was asked it."""
        rows = self._rows("SELECT body FROM questions WHERE round = ? AND slot = ?", name, slot)
        return str(rows[0][0]) if rows else None

    def take(self, reports: list[tuple[Report, bytes]]) -> list[str]:
        """Store the first report of each device to its own question."""
        outcomes = []
        with self._changing():
            for report, device in reports:
                changed = self._database.execute(
                    "UPDATE devices SET report = ?, reported = 1 "
                    "WHERE round = ? AND device = ? AND slot = ? AND reported = 0",
                    (report.report, report.round, device, report.slot),
                )
                if changed.rowcount:
                    outcomes.append("accepted")
                    continue
                known = self._database.execute(
                    "SELECT slot FROM devices WHERE round = ? AND device = ?",
                    (report.round, device),
                ).fetchone()
                same = known is not None and known[0] == report.slot
                outcomes.append("duplicate" if same else "assignment")
        return outcomes

    # -- batches ---------------------------------------------------------------------------------

    def waiting(self) -> list[WaitingInShuffler]:
        """The rounds with reports that are not in a batch."""
        rows = self._rows(
            "SELECT r.round, count(*), r.closes, r.until FROM devices d JOIN rounds r USING (round)"
            " WHERE d.report IS NOT NULL GROUP BY r.round"
        )
        return [WaitingInShuffler(*row) for row in rows]  # type: ignore[arg-type]  # by the schema

    def mix(self, name: str) -> None:
        """Shuffle all waiting reports of a round into a batch; forget who sent which."""
        with self._changing():
            rows = self._database.execute(
                "SELECT device, slot, report FROM devices WHERE round = ? AND report IS NOT NULL",
                (name,),
            ).fetchall()
            mixer = Shuffler(name)
            for device, slot, report in rows:
                mixer.add_pair(device.hex(), slot, report)
            mixed = mixer.release()
            body = {"slots": mixed.slots.tolist(), "reports": mixed.reports.tolist()}
            self._database.execute(
                "INSERT INTO batches VALUES (?, ?, ?)",
                (random_bytes(16).hex(), name, json.dumps(body)),
            )
            self._database.execute(
                "UPDATE devices SET report = NULL WHERE round = ? AND report IS NOT NULL", (name,)
            )

    def batches(self) -> list[tuple[str, Shuffled]]:
        """The batches that the service has not accepted yet, with their keys."""
        found = []
        for key, name, body in self._rows("SELECT key, round, body FROM batches ORDER BY key"):
            plain = json.loads(str(body))
            found.append((str(key), Shuffled(str(name), plain["slots"], plain["reports"])))
        return found

    def taken(self, key: str) -> None:
        """Remove a batch that the service has accepted, or never will."""
        with self._changing():
            self._database.execute("DELETE FROM batches WHERE key = ?", (key,))

    def forget(self, now: float) -> None:
        """Drop rounds that take no more reports, and who was asked in them."""
        past = [row[0] for row in self._rows("SELECT round FROM rounds WHERE until <= ?", now)]
        with self._changing():
            self._database.execute("DELETE FROM tokens WHERE until <= ?", (now,))
            for name in past:
                for table in ("devices", "questions", "batches", "rounds"):
                    self._database.execute(
                        f"DELETE FROM {table} WHERE round = ?",  # noqa: S608  # names of ours
                        (name,),
                    )
