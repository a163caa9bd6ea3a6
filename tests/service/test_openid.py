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
from typing import Any

import pytest

from tidegate.errors import SettingError

jwt = pytest.importorskip("joserfc.jwt", reason="OpenID Connect needs the extra [openid]")
jwk = pytest.importorskip("joserfc.jwk", reason="OpenID Connect needs the extra [openid]")
openid = pytest.importorskip("tidegate.service.openid", reason="needs the extra [service]")


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
        checks = openid.OpenId(issuer, "tidegate")
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
    with pytest.raises(SettingError, match="https"):
        openid.OpenId("http://elsewhere", "tidegate")
