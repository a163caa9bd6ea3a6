"""A standalone cluster of Spark on this machine: a master and two workers, each a process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

_PATIENCE = 60.0  # seconds


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The address of its master."""
    folder.mkdir(parents=True)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    started: list[subprocess.Popen[bytes]] = []
    with (folder / "log").open("wb") as log:

        def start(name: str, *arguments: str) -> None:
            home = Path(pyspark.__file__).parent
            program = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
            program += ["--host", "127.0.0.1", "--webui-port", "0", *arguments]
            environment = {
                **os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_WORKER_DIR": str(folder / "work"),
            }  # fmt: skip
            settings = {"stdout": log, "stderr": log, "env": environment}
            started.append(subprocess.Popen(program, **settings, start_new_session=True))  # type: ignore[call-overload]

        try:
            start("master.Master", "--port", str(port))
            _wait(port)
            url = f"spark://127.0.0.1:{port}"
            for _ in range(2):
                start("worker.Worker", "--cores", "1", "--memory", "2g", url)
            yield url
        finally:
            for process in reversed(started):
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _wait(port: int) -> None:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 0.5).close()
            return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the master of Spark did not start")
