"""Tokens of an OpenID Connect provider, whose keys are served on loopback."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import PLAIN, Place, served
from tidegate.errors import SettingError

httpx = pytest.importorskip("httpx", reason="tests of the service need the extra [test]")
jwt = pytest.importorskip("joserfc.jwt", reason="OpenID Connect needs the extra [openid]")
jwk = pytest.importorskip("joserfc.jwk", reason="OpenID Connect needs the extra [openid]")
openid = pytest.importorskip("tidegate.service.openid_tokens", reason="needs the extra [service]")
RefusedRequest = pytest.importorskip("tidegate.service.problem_details").RefusedRequest


@contextmanager
def provider(keys: list[Any]) -> Iterator[str]:
    """A provider with these keys."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer = f"http://127.0.0.1:{self.server.server_address[1]}"
            content = (
                {"issuer": issuer, "jwks_uri": f"{issuer}/keys"}
                if self.path.startswith("/.well-known")
                else jwk.KeySet(keys).as_dict(private=False)
            )
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_only_a_valid_token_for_this_service_gives_a_role() -> None:
    keys = [jwk.ECKey.generate_key("P-256", parameters={"kid": "one"})]
    other = jwk.ECKey.generate_key("P-256", parameters={"kid": "one"})
    with provider(keys) as issuer:
        checks = openid.OpenIdTokens(issuer, "tidegate")
        good = {
            "iss": issuer, "aud": "tidegate", "sub": "ann", "exp": int(time.time()) + 60,
            "tidegate_role": "reader",
        }  # fmt: skip

        def role(key: Any = keys[0], **changed: Any) -> str | None:
            claims = {name: one for name, one in (good | changed).items() if one is not None}
            token = jwt.encode({"alg": "ES256", "kid": key.kid}, claims, key)
            found = asyncio.run(checks.who(token))
            return None if found is None else found.role

        assert role() == "reader"
        assert role(tidegate_role=["staff", "producer"]) == "producer"
        wrong: list[dict[str, Any]] = [
            {"iss": "https://elsewhere"}, {"aud": "another"}, {"exp": 1}, {"exp": None},
            {"sub": None}, {"tidegate_role": "root"}, {"tidegate_role": None},
            {"tidegate_role": ["reader", "admin"]},
        ]  # fmt: skip
        for change in wrong:
            assert role(**change) is None, change
        assert role(other) is None  # another key of the same name
        assert asyncio.run(checks.who("e30.e30.")) is None  # not signed
        assert asyncio.run(checks.who("a.b.c")) is None
        # Odd claims, and headers that are read before any signature is: refused, and no fault.
        for odd in ([{}], [["reader"]], {"reader": 1}, 7, [None, "reader", {}]):
            assert role(tidegate_role=odd) in (None, "reader")
        deep, long = (b"[" * 20_000, b'{"alg":"ES256","x":"' + b"a" * 30_000 + b'"}')
        for header in (deep, long, b"\xff\xfe", b"{" * 20_000, b'{"alg":' + b"9" * 5000 + b"}"):
            text = urlsafe_b64encode(header).rstrip(b"=").decode()
            assert asyncio.run(checks.who(f"{text}.e30.AAAA")) is None
        assert asyncio.run(checks.who("é.ü.ß")) is None
        keys.append(jwk.ECKey.generate_key("P-256", parameters={"kid": "two"}))
        checks._read -= 20  # the provider has changed its keys; they are read again
        assert role(keys[1]) == "reader"
    for issuer in ("http://elsewhere", "http://127.0.0.1.elsewhere", "http://localhost@elsewhere"):
        with pytest.raises(SettingError, match="https"):
            openid.OpenIdTokens(issuer, "tidegate")


def signed(issuer: str, key: Any, **changed: Any) -> str:
    claims = {
        "iss": issuer, "aud": "tidegate", "sub": "ann", "exp": int(time.time()) + 60,
        "tidegate_role": "reader", **changed,
    }  # fmt: skip
    token: str = jwt.encode({"alg": "ES256", "kid": key.kid}, claims, key)
    return token


def test_who_comes_while_keys_are_read_is_not_refused() -> None:
    """The first requests after a start came together: all but one were answered with 401."""
    keys = [jwk.ECKey.generate_key("P-256", parameters={"kid": "one"})]
    with provider(keys) as issuer:
        checks = openid.OpenIdTokens(issuer, "tidegate")
        token = signed(issuer, keys[0])

        async def together() -> list[Any]:
            return await asyncio.gather(*(checks.who(token) for _ in range(8)))

        assert [one and one.role for one in asyncio.run(together())] == ["reader"] * 8


def test_a_provider_that_does_not_answer_is_no_wrong_token() -> None:
    """Nobody knows whether the token is good: 503, which clients try again, and not 401."""
    keys = [jwk.ECKey.generate_key("P-256", parameters={"kid": "one"})]
    with provider(keys) as issuer:
        token = signed(issuer, keys[0])
        known = openid.OpenIdTokens(issuer, "tidegate")
        assert asyncio.run(known.who(token)).role == "reader"
    fresh = openid.OpenIdTokens(issuer, "tidegate")
    with pytest.raises(RefusedRequest) as caught:
        asyncio.run(fresh.who(token))
    assert caught.value.status_code == 503
    known._read -= 1000  # keys that were read before the outage stay good
    assert asyncio.run(known.who(token)).role == "reader"
    assert asyncio.run(known.who(token[:-8] + "AAAAAAAA")) is None


def test_keys_that_are_elsewhere_without_tls_are_not_taken() -> None:
    """A provider that names another address, or is led to one by a redirect."""
    assert not openid._is_safe_openid_address("http://127.0.0.1.elsewhere/keys")
    assert not openid._is_safe_openid_address("http://user@elsewhere/keys")
    assert openid._is_safe_openid_address("https://elsewhere/keys")
    assert openid._is_safe_openid_address("http://localhost:8080/keys")


def test_a_service_answers_503_while_it_cannot_know_who_asks(tmp_path: Path) -> None:
    with provider([]) as issuer:
        pass  # the port is free again
    service = Place(tmp_path / "gate", None).opened()
    ours = service.make_token("reader", "r")
    checks = openid.OpenIdTokens(issuer, "tidegate")
    with served(service, openid=checks) as address:
        for token, status in ((ours, 200), ("a.b.c", 503)):
            answer = httpx.get(
                f"{address}/v1/streams", headers={"Authorization": f"Bearer {token}"},
                timeout=240, verify=PLAIN,
            )  # fmt: skip
            assert answer.status_code == status, answer.text
        assert answer.headers["Retry-After"]
        assert answer.json()["status"] == 503
