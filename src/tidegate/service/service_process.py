"""`Service`: the service as a process: its parts, its start and its stop."""

from __future__ import annotations

import gc
import logging
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Any

import uvicorn
from fastapi import FastAPI

from tidegate._version import __version__
from tidegate.errors import SettingError
from tidegate.service import logs_and_traces
from tidegate.service.app import make_app
from tidegate.service.database import Database
from tidegate.service.gate import GateThread
from tidegate.service.live_readers import LiveReaders
from tidegate.service.openid_tokens import OpenIdTokens
from tidegate.service.push_bodies import MOST_BYTES
from tidegate.service.request_limits import RequestLimits
from tidegate.service.slow_requests import SlowRequestProtocol
from tidegate.service.stored_tokens import Tokens, make_token_in, revoke_in

_log = logging.getLogger(__name__)


_NOT_STARTED = 3  # as uvicorn exits
_GARBAGE = (20_000, 20, 20)  # objects, and collections, until cycles are looked for again


def settle_process_memory() -> None:
    """Make garbage collection rarer, and exempt the program's own long-lived objects.

    A tenth of the time of a short request went into that.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GARBAGE)


@dataclass(frozen=True)
class Service:
    """An open gate with its tokens and live readers."""

    gate: GateThread
    tokens: Tokens
    live: LiveReaders

    @classmethod
    def opened(
        cls,
        folder: Path,
        database: str | None = None,
        key: bytes | None = None,
        cap: Any = None,
        *,
        new_epoch: bool = False,
    ) -> Service:
        """Open the database in a folder, or PostgreSQL; and start the gate."""
        if database is not None and not database.startswith("postgresql://"):
            raise SettingError("database", "must begin with postgresql://")
        place = Database(folder, database, new_epoch=new_epoch)
        gate = GateThread(place, key=key, cap=cap)
        gate.open()
        return cls(gate, Tokens(place), LiveReaders(place))

    def make_token(self, role: str, label: str) -> str:
        """Make a token, which is shown once."""
        made = make_token_in(self.gate, self.tokens, role, label).result()
        self.tokens.changed()
        return made

    def revoke_tokens(self, label: str) -> int:
        """Remove the tokens with a label; return their number."""
        gone = revoke_in(self.gate, self.tokens, label).result()
        self.tokens.changed()
        return gone

    def app(
        self,
        *,
        public_reading: bool = False,
        rate: float | None = None,
        openid: OpenIdTokens | None = None,
    ) -> FastAPI:
        """The HTTP interface. It closes the gate when it ends.

        Args:
            public_reading: released data needs no token.
            rate: requests a second that each token may send; None: as many as come.
            openid: a provider whose tokens are taken, too.
        """
        return make_app(
            self.gate,
            self.tokens,
            self.live,
            public_reading=public_reading,
            limits=RequestLimits(rate=rate, body=MOST_BYTES),
            issued=None if openid is None else openid.who,
        )

    def run(
        self,
        host: str,
        port: int,
        *,
        public_reading: bool = False,
        rate: float | None = None,
        openid: OpenIdTokens | None = None,
        certificate: Path | None = None,
        private_key: Path | None = None,
        log_format: str = "text",
    ) -> None:
        """Serve until a signal comes; waiting pushes are still released."""
        logs_and_traces.begin_log(log_format)
        if logs_and_traces.configure_traces():
            self.gate.telemetry = logs_and_traces.TelemetryTraces()
        facts = {"version": __version__, "database": self.gate.database.kind, "port": port}
        _log.info("the service starts", extra={logs_and_traces.FACTS: facts})
        settle_process_memory()
        config = uvicorn.Config(
            self.app(public_reading=public_reading, rate=rate, openid=openid),
            host=host,
            port=port,
            http=SlowRequestProtocol,
            ws="none",  # there are none; looking for a library would write a line for each request
            proxy_headers=False,  # addresses of clients are not logged: see `RequestFront`
            ssl_certfile=certificate,
            ssl_keyfile=private_key,
            log_config=None,  # ours: one form for all lines
            log_level="warning",
            access_log=False,  # it would hold addresses of clients and what they ask for
            server_header=False,
            timeout_graceful_shutdown=5,
        )
        server = _ProcessServer(config, self.live)
        with suppress(KeyboardInterrupt):
            server.run()
        if not server.started:  # the port is in use, say
            sys.exit(_NOT_STARTED)


class _ProcessServer(uvicorn.Server):
    """A server that disconnects live readers when it stops: they would never end by themselves."""

    def __init__(self, config: uvicorn.Config, live: LiveReaders) -> None:
        super().__init__(config)
        self._live = live

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Disconnect live readers, then finish the present requests."""
        self._live.end()
        await super().shutdown(sockets)
