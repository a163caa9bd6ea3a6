"""Services on both databases: SQLite, and a PostgreSQL server of the test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [service]")

from tidegate.service.pending import Pending, Receipt
from tidegate.service.server import Service


def _postgres_binaries() -> Path | None:
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))  # Debian keeps them there
    return places[-1].parent if places else None


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server that listens on a socket of its own."""
    binaries = _postgres_binaries()
    if binaries is None:
        pytest.skip("needs PostgreSQL: initdb was not found")
    as_owner: list[str] = []
    if os.getuid() == 0:  # the server refuses to run as root
        if shutil.which("runuser") is None:
            pytest.skip("needs runuser: PostgreSQL refuses to run as root")
        as_owner = ["runuser", "-u", "postgres", "--"]
    folder = Path(tempfile.mkdtemp(prefix="tg-pg-", dir="/tmp"))  # sockets need short names
    if as_owner:
        shutil.chown(folder, "postgres", "postgres")
    data = folder / "data"
    run = [*as_owner, str(binaries / "initdb"), "-D", str(data), "-A", "trust", "-U", "postgres"]
    subprocess.run([*run, "-N", "--no-locale", "-E", "UTF8"], check=True, capture_output=True)
    options = f"-k {folder} -c listen_addresses='' -c fsync=off"
    start = [*as_owner, str(binaries / "pg_ctl"), "-D", str(data), "-w", "-o", options]
    subprocess.run([*start, "-l", str(folder / "log"), "start"], check=True, capture_output=True)
    try:
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        stop = [*as_owner, str(binaries / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop"]
        subprocess.run(stop, check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


_databases = count(1)


@dataclass
class Place:
    """Where a service keeps its things; services can be opened there one after another."""

    folder: Path
    url: str | None

    def opened(self, key: bytes | None = b"k" * 32, cap: object = None) -> Service:
        return Service.opened(self.folder, self.url, key, cap)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A new database of each kind."""
    if request.param == "sqlite":
        return Place(tmp_path / "gate", None)
    import psycopg

    address: str = request.getfixturevalue("postgres")
    name = f"test_{os.getpid()}_{next(_databases)}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    return Place(tmp_path / "gate", address.replace("/postgres?", f"/{name}?"))


@contextmanager
def served(service: Service, port: int = 0, **more: bool) -> Iterator[str]:
    """The address of a real server, as long as it runs."""
    import uvicorn

    config = uvicorn.Config(
        service.app(**more), port=port, log_level="warning", access_log=False,
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


Send = Callable[..., Receipt]


def sender(service: Service, stream: str) -> Send:
    """Sends values and waits for the receipt."""

    def send(*values: float, **more: object) -> Receipt:
        pending = Pending(stream, np.array(values, dtype=np.float64), **more)  # type: ignore[arg-type]
        service.gate.submit(pending)
        return pending.answer.result(timeout=240)

    return send
