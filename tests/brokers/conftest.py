"""Real servers on loopback, each started once; skipped where one is missing."""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Kafka is the mock cluster inside librdkafka, in a process of its own: it speaks the protocol, with
# idempotent producers, and keeps messages in memory. No index that tests may use has a broker since
# 0.9, which knows no idempotent producers.
MOCK_KAFKA = """
import sys
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 0})
print(next(iter(producer.list_topics(timeout=30).brokers.values())).port, flush=True)
sys.stdin.read()
"""
PROGRAMS = {"nats": "nats-server", "redis": "redis-server", "mqtt": "mosquitto"}


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def program(name: str) -> str:
    """Where a server is; a test is skipped if it is nowhere."""
    if name == "kafka":
        return sys.executable
    beside = Path(sys.executable).parent / PROGRAMS[name]
    found = shutil.which(PROGRAMS[name]) or shutil.which(PROGRAMS[name], path="/usr/sbin")
    if beside.exists():
        return str(beside)
    if found is None:
        pytest.skip(f"needs {PROGRAMS[name]}")
    return found


class Server:
    """A server with its own folder: it can be killed, and started again where it was."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder, self.port = kind, folder, free_port()
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def start(self) -> None:
        if self.kind == "kafka":  # it chooses its port
            self.process = subprocess.Popen(
                [program("kafka"), "-c", MOCK_KAFKA], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            assert self.process.stdout is not None
            self.port = int(self.process.stdout.readline())
            return
        port, place = str(self.port), str(self.folder)
        if self.kind == "nats":
            # Every message is on the disk before it is acknowledged.
            settings = self.folder / "nats.conf"
            settings.write_text(
                f'jetstream {{ store_dir: "{place}/js", sync_interval: always }}\n'
                f"host: 127.0.0.1\nport: {port}\n"
            )
            arguments = ["-c", str(settings)]
        elif self.kind == "redis":
            arguments = [
                "--port", port, "--bind", "127.0.0.1", "--dir", place, "--appendonly", "yes",
                "--appendfsync", "always", "--save", "",
            ]  # fmt: skip
        else:
            settings = self.folder / "mosquitto.conf"
            settings.write_text(
                f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
                f"persistence_location {place}/\nautosave_on_changes true\nautosave_interval 1\n"
                "user root\nmax_queued_messages 0\nmax_inflight_messages 100\n"
            )
            arguments = ["-c", str(settings)]
        self.process = subprocess.Popen(
            [program(self.kind), *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(400):
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.5).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError(f"{self.kind} did not start")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def address(self, path: str) -> str:
        return f"{self.kind}://127.0.0.1:{self.port}/{path}"


@pytest.fixture(scope="session")
def servers(tmp_path_factory: Any) -> Iterator[Any]:
    """A server of each kind, when it is asked for."""
    running: dict[str, Server] = {}

    def server(kind: str) -> Server:
        if kind not in running:
            program(kind)  # every test is skipped where there is none, not just the first
            running[kind] = Server(kind, tmp_path_factory.mktemp(kind))
            running[kind].start()
        return running[kind]

    yield server
    for one in running.values():
        one.kill()
