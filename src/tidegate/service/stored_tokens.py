"""Bearer tokens with a role, stored as hashes; the ledger notes when they are made and revoked."""

from __future__ import annotations

import base64
import hashlib
import threading
from concurrent.futures import Future
from datetime import UTC, datetime

from sqlalchemy import delete, insert, select

from tidegate.errors import SettingError
from tidegate.exact_numbers import said
from tidegate.ledger.entries import check_entry_text
from tidegate.randomness import random_bytes
from tidegate.service import database_schema
from tidegate.service.database import Database
from tidegate.service.gate import GateThread

# What each role may do. Nobody can read raw values: there is no such permission.
PERMISSIONS: dict[str, frozenset[str]] = {
    "producer": frozenset({"write"}),
    "reader": frozenset({"read", "read facts", "plan"}),
    "device": frozenset({"report"}),
    "shuffler": frozenset({"report", "report shuffled"}),
    "auditor": frozenset({"read facts", "read ledger"}),
    "admin": frozenset({"read", "plan", "read facts", "read ledger", "manage"}),
}
_PREFIX = "tg_"
_BYTES = 32


class Tokens:
    """The tokens of a service."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, tuple[str, str]] | None = None  # role and label by digest
        self._lock = threading.Lock()

    def make(self, role: str, label: str) -> str:
        """Make a token, in the open transaction. It is shown once: only its hash is stored."""
        if role not in PERMISSIONS:
            raise SettingError("role", f"must be one of {', '.join(PERMISSIONS)}, not {said(role)}")
        check_entry_text("label", label)
        token = _PREFIX + base64.urlsafe_b64encode(random_bytes(_BYTES)).decode().rstrip("=")
        row = {"digest": _token_digest(token), "role": role, "label": label}
        when = datetime.now(UTC).isoformat(timespec="seconds")
        self._database.connection.execute(
            insert(database_schema.tokens).values(**row, created=when)
        )
        return token

    def revoke(self, label: str) -> int:
        """Remove all tokens with this label, in the open transaction; return their number."""
        gone = delete(database_schema.tokens).where(database_schema.tokens.c.label == label)
        count: int = self._database.connection.execute(gone).rowcount
        return count

    def changed(self) -> None:
        """Read the tokens again, after a change is committed.

        A request that came before the commit has read the tokens of before.
        """
        with self._lock:
            self._known = None

    def listed(self) -> list[dict[str, str]]:
        """Role, label and time of every token; the tokens themselves are not stored."""
        table = database_schema.tokens
        query = select(table.c.role, table.c.label, table.c.created).order_by(table.c.created)
        with self._database.reading() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    @property
    def loaded(self) -> bool:
        """Whether `find` has the committed tokens."""
        return self._known is not None

    def load(self) -> None:
        """Read the tokens, once."""
        with self._lock:
            if self._known is None:
                table = database_schema.tokens
                with self._database.reading() as connection:
                    columns = table.c.digest, table.c.role, table.c.label
                    rows = connection.execute(select(*columns)).all()
                self._known = {str(row[0]): (str(row[1]), str(row[2])) for row in rows}

    def find(self, token: str) -> tuple[str, str | None, str]:
        """The digest of a token, its role (None: unknown) and its label."""
        digest = _token_digest(token)
        role, label = (self._known or {}).get(digest, (None, ""))
        return digest, role, label

    def role(self, token: str) -> str | None:
        """The role of a token. None: it is unknown."""
        self.load()
        return self.find(token)[1]


def _token_digest(token: str) -> str:
    """A plain hash: enough for tokens of 256 random bits, and look-ups by it leak nothing."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def make_token_in(gate: GateThread, tokens: Tokens, role: str, label: str) -> Future[str]:
    """Make a token, and note it in the ledger."""

    def made() -> str:
        token = tokens.make(role, label)
        gate.streams.ledger.remark(f"a token was made for the role {role}: {label}")
        return token

    return gate.call(made)


def revoke_in(gate: GateThread, tokens: Tokens, label: str) -> Future[int]:
    """Revoke the tokens with a label, and note it in the ledger."""

    def revoked() -> int:
        count = tokens.revoke(label)
        if count:
            gate.streams.ledger.remark(f"{count} tokens were revoked: {label}")
        return count

    return gate.call(revoked)
