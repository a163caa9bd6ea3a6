"""Who may do what: bearer tokens with a role, stored as hashes, and what a request is allowed."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy import delete, insert, select

from tidegate.errors import SettingError
from tidegate.exact_numbers import said
from tidegate.randomness import random_bytes
from tidegate.service import database_schema
from tidegate.service.database import Database
from tidegate.service.gate import Gate
from tidegate.service.problem_details import RefusedRequest

# What each role may do. Nobody can read raw values: there is no such permission.
PERMISSIONS: dict[str, frozenset[str]] = {
    "producer": frozenset({"write"}),
    "reader": frozenset({"read", "plan"}),
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
        self._known: dict[str, str] | None = None  # role by digest
        self._lock = threading.Lock()

    def make(self, role: str, label: str) -> str:
        """A new token, in the open transaction. It is shown once: only its hash is kept."""
        if role not in PERMISSIONS:
            raise SettingError("role", f"must be one of {', '.join(PERMISSIONS)}, not {said(role)}")
        token = _PREFIX + base64.urlsafe_b64encode(random_bytes(_BYTES)).decode().rstrip("=")
        row = {"digest": _digest(token), "role": role, "label": label}
        when = datetime.now(UTC).isoformat(timespec="seconds")
        self._database.connection.execute(
            insert(database_schema.tokens).values(**row, created=when)
        )
        return token

    def revoke(self, label: str) -> int:
        """Remove all tokens with this label, in the open transaction; how many there were."""
        gone = delete(database_schema.tokens).where(database_schema.tokens.c.label == label)
        count: int = self._database.connection.execute(gone).rowcount
        return count

    def changed(self) -> None:
        """Read tokens again. Call it once a change is committed.

        A request that came before the commit has read the tokens of before.
        """
        with self._lock:
            self._known = None

    def listed(self) -> list[dict[str, str]]:
        """Role, label and time of every token; not the tokens, which nobody knows."""
        table = database_schema.tokens
        query = select(table.c.role, table.c.label, table.c.created).order_by(table.c.created)
        with self._database.reading() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]

    @property
    def loaded(self) -> bool:
        """Whether `find` knows the tokens that are committed."""
        return self._known is not None

    def load(self) -> None:
        """Read the tokens, unless that was done."""
        with self._lock:
            if self._known is None:
                table = database_schema.tokens
                with self._database.reading() as connection:
                    rows = connection.execute(select(table.c.digest, table.c.role)).all()
                self._known = {str(row[0]): str(row[1]) for row in rows}

    def find(self, token: str) -> tuple[str, str | None]:
        """The digest of a token, and its role; None: it is unknown."""
        known, digest = self._known, _digest(token)
        return digest, None if known is None else known.get(digest)

    def role(self, token: str) -> str | None:
        """The role of a token; None: it is unknown."""
        self.load()
        return self.find(token)[1]


def _digest(token: str) -> str:
    """Tokens have 256 random bits, so a plain hash is enough; looked up by it, nothing leaks."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def make_token_in(gate: Gate, tokens: Tokens, role: str, label: str) -> Future[str]:
    """Make a token, and note it."""

    def made() -> str:
        token = tokens.make(role, label)
        gate.streams.ledger.remark(f"a token was made for the role {role}: {label}")
        return token

    return gate.call(made)


def revoke_in(gate: Gate, tokens: Tokens, label: str) -> Future[int]:
    """Revoke the tokens with a label, and note it."""

    def revoked() -> int:
        count = tokens.revoke(label)
        if count:
            gate.streams.ledger.remark(f"{count} tokens were revoked: {label}")
        return count

    return gate.call(revoked)


_BEARER = HTTPBearer(auto_error=False)  # for the description of the interface
Given = Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]


class Who(NamedTuple):
    """Whoever asks.

    Attributes:
        name: tells clients apart, for limits; nothing that could be used as a token.
        role: what they may do; None: unknown.
    """

    name: str
    role: str | None


NOBODY = Who("", None)


class Access:
    """Checks tokens.

    Args:
        tokens: those that are known.
        public_reading: released data needs no token: they are made to be published.
        issued: gives the name and the role in a token of somebody else (OpenID Connect).
    """

    def __init__(
        self,
        tokens: Tokens,
        *,
        public_reading: bool = False,
        issued: Callable[[str], Awaitable[Who | None]] | None = None,
    ) -> None:
        self.tokens = tokens
        self._public_reading = public_reading
        self._issued = issued

    async def known(self, header: bytes) -> Who:
        """Who sent this `Authorization` header."""
        scheme, _, token = header.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return NOBODY
        if not self.tokens.loaded:
            await asyncio.to_thread(self.tokens.load)
        digest, role = self.tokens.find(token.strip())
        if role is not None:
            return Who(digest, role)
        if self._issued is not None and token.count(".") == 2:  # a signed token
            return await self._issued(token.strip()) or NOBODY
        return NOBODY

    def permissions(self, role: str | None) -> frozenset[str]:
        """What a role may do."""
        known = PERMISSIONS[role] if role else frozenset()
        return known | {"read"} if self._public_reading else known

    def check(self, request: Request, permission: str) -> None:
        """Refuse who may not do this."""
        self.check_role(who(request).role, permission)

    def check_role(self, role: str | None, permission: str) -> None:
        """Refuse a role that may not do this."""
        if permission in self.permissions(role):
            return
        if role is None:
            wanted = {"WWW-Authenticate": "Bearer"}
            raise RefusedRequest(401, "a token is needed: Authorization: Bearer …", wanted)
        raise RefusedRequest(403, f"a token for the role {role} may not do this")

    def allowed(self, permission: str) -> Any:
        """A dependency of routes that need this permission."""

        async def check(request: Request, given: Given) -> None:  # noqa: ARG001  # in the description
            self.check(request, permission)

        return Depends(check)


def who(request: Request) -> Who:
    """Whoever asks: `RequestFront` has found out."""
    found: Who = getattr(request.state, "who", NOBODY)
    return found
