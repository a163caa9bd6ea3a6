"""How many devices a service serves: asked, and reporting, over HTTP on this machine.

`python -m benchmarks.service.devices [--devices 20000] [--database postgresql://…]` starts
`tidegate serve` and lets devices ask and report on 64 connections, one request each and in lines of
100. Every answer counts when it is committed. `/healthz` beside it says what HTTP alone takes.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tidegate.local.announcements_and_reports import Announcement, Report

_CONNECTIONS = 64
_TOGETHER = 100  # reports in one request
_TARGET = 5000  # reports a second


class Service:
    """`tidegate serve` in a folder of its own."""

    def __init__(self, folder: Path, database: str | None) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        command = [sys.executable, "-m", "tidegate", "serve", str(folder / "gate")]
        command += ["--port", str(self.port), *(["--database", database] if database else [])]
        environment = {**os.environ, "TIDEGATE_KEY": "ab" * 32}
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        assert self._process.stdout is not None
        self.admin = self._process.stdout.readline().rpartition(" ")[2].strip()
        while True:
            try:
                self.call("GET", "/healthz")
                return
            except ConnectionRefusedError:
                time.sleep(0.05)

    def call(self, verb: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        headers = {"Authorization": f"Bearer {self.admin}", "Content-Type": "application/json"}
        connection.request(verb, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse().read()
        connection.close()
        return answer if path == "/healthz" else json.loads(answer)

    def busy(self) -> float:
        """Seconds of a processor that the service has used: fairer on a loaded machine."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


async def _exchange(port: int, requests: list[bytes]) -> list[bytes]:
    """Send all of these on one connection, one after another; the bodies of the answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    bodies = []
    for request in requests:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-len")]
        bodies.append(await reader.readexactly(int(lengths[0].split(b":")[1]) if lengths else 0))
        assert head.split(b" ", 2)[1] == b"200", head
    writer.close()
    return bodies


Rate = tuple[float, float]  # requests a second of the clock, and of the service's processor


def _rate(service: Service, requests: list[bytes]) -> tuple[Rate, list[bytes]]:
    """Requests a second over all connections, and what was answered."""
    port = service.port

    async def all_of_them() -> list[list[bytes]]:
        shares = [requests[place::_CONNECTIONS] for place in range(_CONNECTIONS)]
        return await asyncio.gather(*(_exchange(port, share) for share in shares if share))

    start, busy = time.perf_counter(), service.busy()
    answers = asyncio.run(all_of_them())
    took, used = time.perf_counter() - start, max(service.busy() - busy, 1e-3)
    rate = len(requests) / took, len(requests) / used
    return rate, [one for some in answers for one in some]


def _request(verb: str, path: str, token: str, body: bytes = b"") -> bytes:
    head = f"{verb} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    kind = "Content-Type: application/vnd.tidegate.reports+jsonl\r\n" if body else ""
    return f"{head}{kind}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _accepted(answers: Iterable[bytes]) -> int:
    return sum(
        row["outcome"] == "accepted" for one in answers for row in json.loads(one)["outcomes"]
    )


def measure(devices: int, database: str | None) -> dict[str, Rate]:
    """Rates a second: HTTP alone, devices asked, reports one by one, reports in lines."""
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder), database)
        try:
            return _measured(service, devices)
        finally:
            service.stop()


def _measured(service: Service, devices: int) -> dict[str, Rate]:
    new = {"name": "bench", "epsilon": "1", "bound": 100, "settings": {"threshold": 20}}
    task = service.call("POST", "/v1/tasks", new)["task_id"]
    made = {"role": "device", "label": "bench"}
    token = service.call("POST", "/v1/tokens", made)["token"]
    path = f"/v1/tasks/{task}"
    name = json.loads(_rate(service, [_request("GET", f"{path}/round", token)])[1][0])["round"]
    names = [f"{place:032x}" for place in range(devices)]
    plain, _ = _rate(service, [_request("GET", "/healthz", token)] * min(devices, 10_000))
    asking = [
        _request("GET", f"{path}/announcement?round={name}&client={one}", token) for one in names
    ]
    asked, texts = _rate(service, asking)
    asked_for = Announcement.from_json(texts[0])
    fields = {each: getattr(asked_for, each) for each in ("round", "phase", "epsilon", "slot")}
    reports = [Report(**fields, client=one, report=0).json().encode() for one in names]
    half = devices // 2
    singles = [_request("POST", f"{path}/reports", token, one) for one in reports[:half]]
    lines = [
        _request("POST", f"{path}/reports", token, b"\n".join(some))
        for some in (
            reports[start : start + _TOGETHER] for start in range(half, devices, _TOGETHER)
        )
    ]
    single, answers = _rate(service, singles)
    assert _accepted(answers) == half, "every report must be accepted"
    together, answers = _rate(service, lines)
    assert _accepted(answers) == devices - half
    return {
        "GET /healthz": plain,
        "devices asked": asked,
        "reports, one a request": single,
        f"reports, {_TOGETHER} a request": (together[0] * _TOGETHER, together[1] * _TOGETHER),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--devices", type=int, default=20_000)
    parser.add_argument("--database", help="postgresql://…; default: SQLite")
    options = parser.parse_args()
    rates = measure(options.devices, options.database)
    print(f"{'a second of':<28} {'the clock':>12} {'its processor':>14}")
    for what, (clock, processor) in rates.items():
        print(f"{what:<28} {clock:>12,.0f} {processor:>14,.0f}")
    for what, (_, processor) in rates.items():
        if what.startswith("reports"):
            met = "met" if processor >= _TARGET else "MISSED"
            print(f"target: {_TARGET:,} in a second of a processor, {what}: {met}")


if __name__ == "__main__":
    main()
