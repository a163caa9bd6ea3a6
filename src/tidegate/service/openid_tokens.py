"""Tokens of an OpenID Connect provider: signed, verified with its keys, with a role in a claim.

Needs the extra `[openid]` (joserfc). A token must be signed (RS256, ES256 or PS256) by a key of the
provider, be meant for this service (`aud`), not be expired, and name one role.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
import urllib.request
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import orjson

from tidegate.errors import MissingError, SettingError
from tidegate.service.access import AccessHolder
from tidegate.service.problem_details import RefusedRequest
from tidegate.service.stored_tokens import PERMISSIONS

_ALGORITHMS = ["RS256", "PS256", "ES256"]
_FRESH = 300.0  # seconds until keys are read again
_AT_ONCE = 10.0  # seconds until an unknown key lets them be read again
_TIMEOUT = 5.0
_MOST = 1 << 20  # bytes of an answer
_LONGEST = 1 << 14  # characters of a token


@dataclass
class OpenIdTokens:
    """Verifies tokens of one provider.

    Attributes:
        issuer: its address, as in the claim `iss`.
        audience: the name of this service there, as in the claim `aud`.
        claim: holds a role, or a list that contains one.
    """

    issuer: str
    audience: str
    claim: str = "tidegate_role"
    _keys: Any = field(default=None, repr=False)
    _read: float = field(default=-1e9, repr=False)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)

    def __post_init__(self) -> None:
        if not _is_safe_openid_address(self.issuer):
            raise SettingError("openid-issuer", "must begin with https://")
        try:
            import joserfc  # noqa: F401  # told now, not at the first request
        except ModuleNotFoundError:
            raise MissingError(
                "OpenID Connect needs the extra 'openid'. Run pip install '.[openid]'"
            ) from None

    async def who(self, token: str) -> AccessHolder | None:
        """The subject of a token. None: it is not valid here; the reason would help forgers.

        Raises:
            RefusedRequest: the provider could not be asked for its keys since the service started.
                Nobody knows whether the token is valid, so 401 would be wrong.
        """
        tried: Any = None
        for limit in (_FRESH, _AT_ONCE):
            if self._keys is None or self._older_than(limit):
                async with self._reading:  # who comes meanwhile waits for the same answer
                    if self._older_than(limit):
                        await asyncio.to_thread(self._read_keys)
            if self._keys is not tried:
                tried = self._keys
                if (found := self._checked(token)) is not None:
                    return found
        if self._keys is None:
            raise RefusedRequest(
                503, "the OpenID provider does not answer: ask again later", {"Retry-After": "10"}
            )
        return None

    def _older_than(self, seconds: float) -> bool:
        return time.monotonic() - self._read > seconds

    def _checked(self, token: str) -> AccessHolder | None:
        from joserfc import jwt
        from joserfc.errors import JoseError

        if self._keys is None or len(token) > _LONGEST:  # its header is read before it is checked
            return None
        try:
            claims = jwt.decode(token, self._keys, algorithms=_ALGORITHMS).claims
            wanted = jwt.JWTClaimsRegistry(
                iss={"essential": True, "value": self.issuer},
                aud={"essential": True, "value": self.audience},
                exp={"essential": True},
                sub={"essential": True},
            )
            wanted.validate(claims)
        except (JoseError, ValueError, TypeError, KeyError, RecursionError):
            return None
        given = claims.get(self.claim)
        listed = given if isinstance(given, list) else [given]
        named = [one for one in listed if isinstance(one, str) and one in PERMISSIONS]
        if len(named) != 1:
            return None
        subject = hashlib.sha256(f"{self.issuer} {claims['sub']}".encode()).hexdigest()
        return AccessHolder(subject, named[0], f"subject {subject}")

    def _read_keys(self) -> None:
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        self._read = time.monotonic()
        try:
            about = _fetched_openid_keys(
                f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
            )
            if about.get("issuer") != self.issuer:
                return
            self._keys = KeySet.import_key_set(_fetched_openid_keys(about["jwks_uri"]))
        except (OSError, ValueError, KeyError, TypeError, JoseError):
            return  # the keys of before are good until they fail


def _fetched_openid_keys(address: str) -> Any:
    if not _is_safe_openid_address(address):
        raise ValueError("keys come over https")
    with urllib.request.urlopen(address, timeout=_TIMEOUT) as answer:  # noqa: S310  # checked above
        if not _is_safe_openid_address(answer.url):
            raise ValueError("keys come over https, also where another address is named")
        return orjson.loads(answer.read(_MOST))


def _is_safe_openid_address(address: str) -> bool:
    """Whether an address uses TLS, or is on this machine."""
    place = urlsplit(address)
    return place.scheme == "https" or (
        place.scheme == "http" and place.hostname in ("127.0.0.1", "localhost")
    )
