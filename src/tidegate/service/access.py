"""`Access`: which request may do what, by the token in its header and its role."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from tidegate.service.problem_details import RefusedRequest
from tidegate.service.stored_tokens import PERMISSIONS, Tokens

_BEARER = HTTPBearer(auto_error=False)  # for the description of the interface
Given = Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]


class AccessHolder(NamedTuple):
    """The sender of a request.

    Attributes:
        name: tells clients apart, for limits; nothing that could be used as a token.
        role: what they may do; None: unknown.
        sender: whose requests may be recognised as sent before. All tokens with one label are one
            sender's: a token that is replaced leaves nothing to be sent twice.
    """

    name: str
    role: str | None
    sender: str = ""


NOBODY = AccessHolder("", None)


class Access:
    """Checks the tokens of requests.

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
        issued: Callable[[str], Awaitable[AccessHolder | None]] | None = None,
    ) -> None:
        self.tokens = tokens
        self._public_reading = public_reading
        self._issued = issued

    def known_at_once(self, header: bytes) -> AccessHolder | None:
        """The sender of this `Authorization` header, if it is our token. None: ask `known`."""
        if self.tokens.loaded and header[:7] == b"Bearer ":
            return self._of_ours(header[7:].decode("latin-1").strip())
        return None

    async def known(self, header: bytes) -> AccessHolder:
        """The sender of this `Authorization` header."""
        scheme, _, token = header.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return NOBODY
        if not self.tokens.loaded:
            await asyncio.to_thread(self.tokens.load)
        if (found := self._of_ours(token.strip())) is not None:
            return found
        if self._issued is not None and token.count(".") == 2:  # a signed token
            return await self._issued(token.strip()) or NOBODY
        return NOBODY

    def _of_ours(self, token: str) -> AccessHolder | None:
        digest, role, label = self.tokens.find(token)
        return None if role is None else AccessHolder(digest, role, f"label {label}")

    def permissions(self, role: str | None) -> frozenset[str]:
        """The permissions of a role."""
        known = PERMISSIONS[role] if role else frozenset()
        return known | {"read", "read facts"} if self._public_reading else known

    def check(self, request: Request, permission: str) -> None:
        """Refuse a sender without this permission."""
        self.check_role(access_holder(request).role, permission)

    def check_role(self, role: str | None, permission: str) -> None:
        """Refuse a role without this permission."""
        if permission in self.permissions(role):
            return
        if role is None:
            wanted = {"WWW-Authenticate": "Bearer"}
            raise RefusedRequest(401, "a token is needed: Authorization: Bearer …", wanted)
        raise RefusedRequest(403, f"a token for the role {role} may not do this")

    async def still(self, request: Request, permission: str) -> bool:
        """Whether a long request is still allowed: tokens expire and are revoked."""
        header = request.headers.get("authorization", "").encode("latin-1")
        return permission in self.permissions((await self.known(header)).role)

    def allowed(self, permission: str) -> Any:
        """A dependency of routes that require this permission."""

        async def check(request: Request, given: Given) -> None:  # noqa: ARG001  # in the description
            self.check(request, permission)

        return Depends(check)


def access_holder(request: Request) -> AccessHolder:
    """The sender of a request, as `RequestFront` found it."""
    found: AccessHolder = getattr(request.state, "who", NOBODY)
    return found
