"""`tidegate serve` and `tidegate token`, as processes."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.invoking import run
from tests.service.conftest import PLAIN, Place
from tidegate.service.live_readers import LiveReaders
from tidegate.service.prometheus_metrics import Metrics

httpx = pytest.importorskip("httpx", reason="tests of the service need the extra [test]")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_service_from_the_command_line(tmp_path: Path) -> None:
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "tidegate",
        "serve",
        str(tmp_path / "gate"),
        "--port",
        str(port),
        "--log-format",
        "json",
    ]
    environment = {**os.environ, "TIDEGATE_KEY": "ab" * 32}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            token = process.stdout.readline().rpartition(" ")[2].strip()
            assert token.startswith("tg_")
            headers = {"Authorization": f"Bearer {token}"}
            with httpx.Client(
                base_url=f"http://127.0.0.1:{port}", headers=headers, verify=PLAIN
            ) as client:
                while True:
                    try:
                        client.get("/healthz")
                        break
                    except httpx.ConnectError:
                        assert process.poll() is None, process.stderr and process.stderr.read()
                        time.sleep(0.05)
                new = {"name": "meters", "epsilon": "1", "bound": 100}
                assert client.post("/v1/streams", json=new).status_code == 201
            process.send_signal(signal.SIGTERM)
            _, error = process.communicate(timeout=240)
        finally:
            process.kill()
    assert process.returncode in (0, -signal.SIGTERM), error
    assert "Traceback" not in error
    assert f"http://127.0.0.1:{port}/" in error
    assert "not sealed" not in error
    lines = [json.loads(line) for line in error.splitlines() if line.startswith("{")]
    assert [line["message"].partition(":")[0] for line in lines] == [
        "the service starts",
        "the service has stopped",
    ]
    assert (lines[0]["level"], lines[0]["database"]) == ("info", "sqlite")

    made = run("token", str(tmp_path / "gate"), "producer", "--label", "meters")
    assert made.exit_code == 0, made.output
    assert made.stdout.startswith("tg_")
    gone = run("token", str(tmp_path / "gate"), "producer", "--label", "meters", "--revoke")
    assert gone.stdout.startswith("1 tokens")


HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"


@pytest.mark.parametrize("file", ["tidegate.service", "Containerfile"])
def test_unit_and_container_start_what_there_is(file: str) -> None:
    content = (HOW_TO / file).read_text(encoding="utf-8")
    start = next(line for line in content.splitlines() if line.startswith(("ExecStart", "ENTRY")))
    used = re.findall(r"--[a-z-]+", start)
    known = run("serve", "--help").output
    assert "serve" in start
    assert used
    assert all(option in known for option in used)


def test_the_container_can_write_to_its_volume() -> None:
    """A volume belongs to root unless its folder is there, and is its user's, before."""
    content = (HOW_TO / "Containerfile").read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line.split() for line in content.splitlines()]
    user = next(line[1] for line in lines if line[0] == "USER")
    volume = next(at for at, line in enumerate(lines) if line[0] == "VOLUME")
    made = f"install -d -o {user} -m 700 {lines[volume][1]}"
    assert any(made in " ".join(line) for line in lines[:volume])


def test_the_dashboard_shows_every_number_that_there_is() -> None:
    board = json.loads((HOW_TO / "grafana.json").read_text(encoding="utf-8"))
    shown = " ".join(each["expr"] for panel in board["panels"] for each in panel["targets"])
    metrics = Metrics(LiveReaders(None))  # type: ignore[arg-type]  # nobody reads
    told = re.findall(r"^# TYPE (\w+)", metrics.text().decode(), re.MULTILINE)
    assert {*re.findall(r"tidegate_\w+", shown)} == {
        one for one in told if not one.endswith("_created")
    }


def test_mistakes_are_told(tmp_path: Path) -> None:
    folder = tmp_path / "gate"
    result = run("token", str(folder), "king", "--label", "x")
    assert result.exit_code == 2
    assert "role: must be one of producer, reader" in result.stderr
    result = run("serve", str(folder), "--database", "mysql://x")
    assert result.exit_code == 2
    assert "--database must begin with postgresql://" in result.stderr
    result = run("serve", str(folder), "--log-format", "xml")
    assert "--log-format must be one of text, json" in result.stderr
    service = Place(folder, None).opened()
    result = run("token", str(folder), "reader", "--label", "x")
    assert result.exit_code == 3
    assert "another process is using" in result.stderr
    service.gate.close()
