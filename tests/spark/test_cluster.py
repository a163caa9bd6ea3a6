"""A real cluster on loopback, whose workers and driver are killed in the middle of batches.

Run by `make test-cluster`: a master and two workers are processes of their own.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="needs pyspark: pip install '.[spark]'")

import pandas as pd
import pyspark

from tests.spark.conftest import JAVA, SECRET, WORKERS_PATH, needed
from tests.spark.streams import alone, fixed, made_up

KILLS, DRIVER_KILLS = 11, 3
PATIENCE = 1200  # seconds: something hangs, and not only a machine that many share
FILES, EACH = 13, 40  # a batch for each kill, and two
DATA = made_up(12, FILES * EACH)


class Cluster:
    """A master and two workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self.url = f"spark://127.0.0.1:{self.port}"
        self.log = (folder / "cluster.log").open("wb")
        self.master = self._class("master.Master", "--port", str(self.port))
        for _ in range(400):
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.5).close()
                break
            except OSError:
                time.sleep(0.1)
        self.workers = [self.worker(), self.worker()]

    def _class(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        home = Path(pyspark.__file__).parent
        environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment |= {
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA,
            "SPARK_WORKER_DIR": str(self.folder / "work"),
        }
        return subprocess.Popen(
            [
                str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}",
                "--host", "127.0.0.1", "--webui-port", "0", *arguments,
            ],
            stdout=self.log, stderr=self.log, env=environment, start_new_session=True,
        )  # fmt: skip

    def worker(self) -> subprocess.Popen[bytes]:
        return self._class("worker.Worker", "--cores", "1", "--memory", "600m", self.url)

    def driver(self) -> subprocess.Popen[bytes]:
        path = Path(__file__).with_name("cluster_driver.py")
        path_of_python = os.pathsep.join((WORKERS_PATH, *sys.path))
        environment = {**os.environ, "PYTHONPATH": path_of_python}
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
        return subprocess.Popen(
            [sys.executable, str(path), self.url, str(self.folder)],
            stdout=self.log, stderr=self.log, env=environment, start_new_session=True,
        )  # fmt: skip

    def close(self) -> None:
        for process in (*self.workers, self.master):
            end(process)
        self.log.close()


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill −9, with all that it started: executors and their Python workers."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def committed(folder: Path) -> int:
    """How many batches are done."""
    place = folder / "checkpoint" / "commits"
    return sum(path.name.isdigit() for path in place.iterdir()) if place.exists() else 0


def begun(folder: Path) -> int:
    """How many batches were begun."""
    place = folder / "checkpoint" / "offsets"
    return sum(path.name.isdigit() for path in place.iterdir()) if place.exists() else 0


class Supervised:
    """A driver that is started again when it ends with an error, as a scheduler would do.

    On a crowded machine Spark gives up by itself at times ("Python worker failed to connect back").
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.process, self.restarts = cluster, cluster.driver(), 0

    def done(self) -> bool:
        code = self.process.poll()
        if code:
            self.restarts += 1
            assert self.restarts < 8, (self.cluster.folder / "cluster.log").read_text()[-3000:]
            self.process = self.cluster.driver()
        return code == 0

    def kill(self) -> None:
        end(self.process)
        self.process = self.cluster.driver()

    def wait_for_batch(self, number: int) -> None:
        """Until a batch is under way that comes after this many."""
        folder, end_at = self.cluster.folder, time.monotonic() + PATIENCE
        while time.monotonic() < end_at:
            if begun(folder) > max(number, committed(folder)):
                return
            assert not self.done(), "too fast: all is done before the last kill"
            time.sleep(0.02)
        raise AssertionError("no batch began: " + (folder / "cluster.log").read_text()[-3000:])

    def finish(self) -> None:
        """Until all is done."""
        end_at = time.monotonic() + PATIENCE
        while not self.done():
            assert time.monotonic() < end_at, "the driver does not end"
            time.sleep(0.1)


def test_kills_of_workers_and_drivers_leave_no_trace(tmp_path: Path) -> None:
    needed()
    rng = random.Random(11)
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").write_bytes(SECRET)
    for number in range(FILES):
        rows: list[Any] = [
            (key, at, values[at])
            for key, values in DATA.items()
            for at in range(number * EACH, (number + 1) * EACH)
        ]
        rng.shuffle(rows)
        frame = pd.DataFrame(rows, columns=["key", "n", "value"])
        frame.to_parquet(tmp_path / "in" / f"{number:03}.parquet")
    cluster, kinds = Cluster(tmp_path), Counter()
    try:
        driver = Supervised(cluster)
        victims = ["driver"] * DRIVER_KILLS + ["worker"] * (KILLS - DRIVER_KILLS)
        rng.shuffle(victims)
        for at, victim in enumerate(victims):
            driver.wait_for_batch(at)
            time.sleep(rng.uniform(0, 0.6))
            kinds[victim] += 1
            if victim == "driver":
                driver.kill()
            else:
                which = rng.randrange(2)
                end(cluster.workers[which])
                cluster.workers[which] = cluster.worker()
        driver.finish()
    finally:
        end(driver.process)
        cluster.close()
    assert kinds == {"driver": DRIVER_KILLS, "worker": KILLS - DRIVER_KILLS}
    found = released_rows(tmp_path)
    query = (tmp_path / "query").read_text()
    for key, values in DATA.items():
        mine = found[found["key"] == key].sort_values("position")
        expected = alone(fixed(), query, key, values, tmp_path / "secret")
        assert mine["position"].tolist() == list(range(len(values)))  # each once
        assert mine["value"].to_numpy().tobytes() == expected.values.tobytes()
        assert mine["level"].to_numpy().tobytes() == expected.levels.tobytes()
    assert np.isfinite(found["value"]).all()


def released_rows(folder: Path) -> pd.DataFrame:
    """What the sink's own log names: files of attempts that failed are not part of the table."""
    import json

    logs = sorted((folder / "out" / "_spark_metadata").iterdir(), key=lambda path: path.name)
    compact = [path for path in logs if path.name.endswith(".compact")]
    newest = max((int(path.stem) for path in compact), default=-1)
    chosen = [path for path in compact if int(path.stem) == newest]
    chosen += [path for path in logs if path.name.isdigit() and int(path.name) > newest]
    files = {
        json.loads(line)["path"] for path in chosen for line in path.read_text().splitlines()[1:]
    }
    return pd.concat([pd.read_parquet(file.removeprefix("file://")) for file in sorted(files)])
