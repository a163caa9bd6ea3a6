"""Services on both databases: SQLite, and a PostgreSQL server of the test's own."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [service]")

from tests.depth import depth, turn_of
from tidegate.service.pending_requests import PendingPush, Receipt
from tidegate.service.service_process import Service


def _postgres_binaries() -> Path | None:
    found = shutil.which("initdb")
    if found:
        return Path(found).parent
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))  # Debian keeps them there
    return places[-1].parent if places else None


class PostgresServer:
    """A PostgreSQL server that listens on a socket of its own, and can be stopped."""

    def __init__(self) -> None:
        binaries = _postgres_binaries()
        if binaries is None:
            pytest.skip("needs PostgreSQL: initdb was not found")
        self._as_owner: list[str] = []
        if os.getuid() == 0:  # the server refuses to run as root
            if shutil.which("runuser") is None:
                pytest.skip("needs runuser: PostgreSQL refuses to run as root")
            self._as_owner = ["runuser", "-u", "postgres", "--"]
        self.folder = Path(tempfile.mkdtemp(prefix="tg-pg-", dir="/tmp"))  # sockets: short names
        if self._as_owner:
            shutil.chown(self.folder, "postgres", "postgres")
        self._data, self._control = self.folder / "data", str(binaries / "pg_ctl")
        self._run(str(binaries / "initdb"), "-A", "trust", "-U", "postgres", "-N", "--no-locale",
                  "-E", "UTF8")  # fmt: skip
        self.start()
        self.address = f"postgresql://postgres@/postgres?host={self.folder}"

    def _run(self, program: str, *words: str, check: bool = True) -> None:
        command = [*self._as_owner, program, "-D", str(self._data), *words]
        subprocess.run(command, check=check, capture_output=True)

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off"
        self._run(self._control, "-w", "-o", options, "-l", str(self.folder / "log"), "start")

    def stop(self, *, check: bool = True) -> None:
        self._run(self._control, "-m", "immediate", "-w", "stop", check=check)

    def new_database(self) -> str:
        import psycopg

        name = f"test_{os.getpid()}_{next(_databases)}"
        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.address.replace("/postgres?", f"/{name}?")

    def remove(self) -> None:
        self.stop(check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for all tests of a process."""
    server = PostgresServer()
    try:
        yield server
    finally:
        server.remove()


_databases = count(1)

# For requests by httpx: services here speak HTTP, and loading the certificates of the system would
# take longer than most requests.
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@dataclass
class Place:
    """Where a service keeps its things; services can be opened there one after another."""

    folder: Path
    url: str | None

    def opened(self, key: bytes | None = b"k" * 32, cap: object = None) -> Service:
        return Service.opened(self.folder, self.url, key, cap)


DATABASES = ("sqlite", "postgresql")


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A place has a database of each kind; by hand of one, which the name of the test decides."""
    if "place" in metafunc.fixturenames:
        turn = turn_of(metafunc.definition.nodeid, 2) if _postgres_binaries() else 0
        metafunc.parametrize("place", depth(DATABASES[turn:][:1], DATABASES), indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A new database."""
    if request.param == "sqlite":
        return Place(tmp_path / "gate", None)
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return Place(tmp_path / "gate", server.new_database())


@contextmanager
def served(service: Service, port: int = 0, **more: Any) -> Iterator[str]:
    """The address of a real server, as long as it runs."""
    import uvicorn

    from tidegate.service.slow_requests import SlowRequestProtocol

    config = uvicorn.Config(
        service.app(**more), port=port, log_level="warning", access_log=False,
        timeout_graceful_shutdown=1, http=SlowRequestProtocol, proxy_headers=False,
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
        pending = PendingPush(stream, np.array(values, dtype=np.float64), **more)  # type: ignore[arg-type]
        service.gate.submit(pending)
        return pending.answer.result(timeout=240)

    return send
