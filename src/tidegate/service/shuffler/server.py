"""The shuffler as a process."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import uvicorn

from tidegate.errors import SettingError
from tidegate.service.shuffler.app import ShufflerApp
from tidegate.service.shuffler.forwarding import Forwarder
from tidegate.service.shuffler.store import ShufflerStore


def run(
    folder: Path,
    service: str,
    token: str,
    *,
    host: str,
    port: int,
    size: int,
    every: float,
    certificate: Path | None = None,
    private_key: Path | None = None,
) -> None:
    """Serve until a signal comes; what waits is on the disk."""
    place = urlsplit(service)
    if place.scheme not in ("http", "https") or not place.hostname:
        raise SettingError("to", "must be the address of a service: https://host")
    store = ShufflerStore(folder)
    forwarder = Forwarder(store, service, token, size=size, every=every)
    uvicorn.run(
        ShufflerApp(store, forwarder, service).app(),
        host=host,
        port=port,
        ssl_certfile=certificate,
        ssl_keyfile=private_key,
        log_level="warning",
        access_log=False,  # it would hold addresses of devices
        server_header=False,
        timeout_graceful_shutdown=5,
    )
