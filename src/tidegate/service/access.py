"""Which request may do what: the token in its header, and the role of that."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from tidegate.service.tokens import PERMISSIONS, Tokens

_BEARER = HTTPBearer(auto_error=False)
Given = Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]


class Access:
    """Checks tokens.

    Args:
        tokens: those that are known.
        public_reading: released data needs no token: they are made to be published.
    """

    def __init__(self, tokens: Tokens, *, public_reading: bool = False) -> None:
        self.tokens = tokens
        self._public_reading = public_reading

    async def role(self, given: HTTPAuthorizationCredentials | None) -> str | None:
        """The role of whoever asks; None: unknown."""
        if given is None:
            return None
        return await asyncio.to_thread(self.tokens.role, given.credentials)

    def permissions(self, role: str | None) -> frozenset[str]:
        """What a role may do."""
        known = PERMISSIONS[role] if role else frozenset()
        return known | {"read"} if self._public_reading else known

    def allowed(self, permission: str) -> Any:
        """A dependency of routes that need this permission."""

        async def check(given: Given) -> None:
            role = await self.role(given)
            if permission in self.permissions(role):
                return
            if role is None:
                wanted = {"WWW-Authenticate": "Bearer"}
                raise HTTPException(401, "a token is needed: Authorization: Bearer …", wanted)
            raise HTTPException(403, f"a token for the role {role} may not do this")

        return Depends(check)
