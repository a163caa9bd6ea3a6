"""The service as a process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from tidegate.errors import SettingError
from tidegate.service.app import make_app
from tidegate.service.database import Database
from tidegate.service.gate import Gate
from tidegate.service.live import Live
from tidegate.service.tokens import Tokens


@dataclass(frozen=True)
class Service:
    """An open gate, its tokens and its live readers."""

    gate: Gate
    tokens: Tokens
    live: Live

    @classmethod
    def opened(
        cls, folder: Path, database: str | None = None, key: bytes | None = None, cap: Any = None
    ) -> Service:
        """Open the database in a folder, or PostgreSQL; and begin to work."""
        if database is not None and not database.startswith("postgresql://"):
            raise SettingError("database", "must begin with postgresql://")
        place = Database(folder, database)
        gate = Gate(place, key=key, cap=cap)
        gate.open()
        return cls(gate, Tokens(place), Live(place))

    def app(self, *, public_reading: bool = False) -> FastAPI:
        """The HTTP interface. It closes the gate when it ends."""
        return make_app(self.gate, self.tokens, self.live, public_reading=public_reading)

    def run(
        self,
        host: str,
        port: int,
        *,
        public_reading: bool = False,
        certificate: Path | None = None,
        private_key: Path | None = None,
    ) -> None:
        """Serve until a signal comes; what waits by then is still released."""
        uvicorn.run(
            self.app(public_reading=public_reading),
            host=host,
            port=port,
            ssl_certfile=certificate,
            ssl_keyfile=private_key,
            log_level="warning",
            access_log=False,  # it would hold addresses of clients and what they ask for
            server_header=False,
            timeout_graceful_shutdown=5,  # live readers never end by themselves
        )
