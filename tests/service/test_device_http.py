"""Devices over HTTP: the Python client's one call, caching, other sites, and nothing in logs."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import PLAIN, Place, served
from tests.service.described_answers import DescribedAnswers, described_answers
from tidegate.errors import RefusedError
from tidegate.local.client import Client
from tidegate.local.report_delivery import (
    DeliveredReport,
    HttpAnswer,
    NotAskedError,
    UnreachableError,
    deliver_patiently,
)
from tidegate.local.task_messages import ANNOUNCEMENT, OUTCOMES, REPORTS, ROUND
from tidegate.local.topl import Topl
from tidegate.service.devices import device_tables
from tidegate.service.service_process import Service

httpx = pytest.importorskip("httpx", reason="tests of the service need the extra [test]")

TOPL = Topl(epsilon=1, bound=100, threshold=20)


@dataclass
class Served:
    """A service with a task, and tokens."""

    service: Service
    address: str
    tokens: dict[str, str]
    url: str
    described: DescribedAnswers

    def get(self, path: str, role: str = "device", **more: Any) -> Any:
        return self.request("GET", self.url + path, role, **more)

    def request(self, verb: str, url: str, role: str = "device", **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.tokens[role]}", **more.pop("headers", {})}
        answer = httpx.request(verb, url, headers=headers, timeout=240, verify=PLAIN, **more)
        self.described.check(answer)
        return answer


@contextmanager
def fleet_with_a_task(folder: Path, **more: Any) -> Iterator[Served]:
    """A service at work with one task, and a token of each role."""
    service = Place(folder / "gate", None).opened()
    tokens = {
        role: service.gate.call(lambda role=role: service.tokens.make(role, role)).result()
        for role in ("admin", "device", "reader", "shuffler")
    }
    with served(service) as address:
        document = f"{address}/v1/openapi.json"
        described = described_answers(lambda: httpx.get(document, timeout=240, verify=PLAIN))
        made = Served(service, address, tokens, "", described)
        new = {"name": "steps", "epsilon": "1", "bound": 100, "settings": {"threshold": 20}}
        task = made.request("POST", f"{address}/v1/tasks", "admin", json={**new, **more}).json()
        assert task["guarantee"].startswith("ε = 1 per event")
        assert len(task["task_id"]) == 43  # 32 bytes, as in DAP
        made.url = f"{address}/v1/tasks/{task['task_id']}"
        yield made


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Served]:
    with fleet_with_a_task(tmp_path) as made:
        yield made


def device(path: Path, **more: Any) -> Client:
    return TOPL.client(path, lifetime=10, **more)


def test_one_call_reports_and_a_second_one_changes_nothing(fleet: Served, tmp_path: Path) -> None:
    token = fleet.tokens["device"]
    client = device(tmp_path / "device.json")
    done = client.report(fleet.url, 17, event="monday", token=token)
    assert (done.outcome, done.taken) == ("accepted", True)
    assert client.unacknowledged == ()
    again = client.report(fleet.url, 99, event="tuesday", token=token)
    assert again == DeliveredReport(done.round, "duplicate")
    # A report that was refused, or is not known any more, is not called taken by a second call.
    table = device_tables.devices
    queue = fleet.service.gate
    queue.call(lambda: queue.database.connection.execute(table.delete()).rowcount).result()
    assert client.report(fleet.url, 17, event="monday", token=token).outcome == "assignment"
    assert len(client.ledger) == 1
    facts = fleet.request("GET", fleet.url, "reader").json()
    assert (facts["asked"], facts["reports"], facts["round"]) == (1, 1, done.round)
    rows = fleet.request("GET", f"{fleet.url}/collection", "reader").json()["rows"]
    assert [row["devices"] for row in rows] == [1]
    assert rows[0]["sum"]["low"] < 17 < rows[0]["sum"]["high"]


def test_a_report_that_did_not_arrive_is_queued_and_sent_as_it_was(
    fleet: Served, tmp_path: Path
) -> None:
    token, path = fleet.tokens["device"], tmp_path / "device.json"
    with Losing(fleet.address) as lossy:
        client = device(path)
        url = fleet.url.replace(fleet.address, lossy.address)
        done = client.report(url, 17, event="monday", token=token, patience=0.6)
        assert done.outcome == "queued"
        (waiting,) = client.unacknowledged
        client.memory.close()  # the device is started again
        later = device(path)
        assert later.unacknowledged == (waiting,)
        lossy.losing = False
        assert later.deliver(url, token=token) == [DeliveredReport(done.round, "duplicate")]
    assert len(lossy.lost) > 1
    assert set(lossy.lost) == {waiting.json().encode()}  # each attempt was the same report
    assert later.unacknowledged == ()


def test_before_anything_is_drawn_a_failure_costs_nothing(fleet: Served, tmp_path: Path) -> None:
    client = device(tmp_path / "device.json")
    with pytest.raises(UnreachableError, match="ConnectionRefused"):
        client.report("http://127.0.0.1:9/v1/tasks/none", 17, patience=0)
    with pytest.raises(RefusedError, match="does not let this device in"):
        client.report(fleet.url, 17, token="tg_wrong")
    with pytest.raises(RefusedError, match="404"):
        client.report(fleet.url[:-1] + "_", 17, token=fleet.tokens["device"])
    for wrong in ("steps", "ftp://host/v1/tasks/a", "https:///v1/tasks/a", "https://host/"):
        with pytest.raises(ValueError, match="url: must be"):
            client.report(wrong, 17)
    assert client.ledger == ()


class Losing:
    """A network in which the service gets what is posted, and the answer is lost."""

    def __init__(self, address: str) -> None:
        self.lost: list[bytes] = []
        self.losing = True
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._passed("GET", b"")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = self._asked("POST", body)
                if outer.losing:
                    outer.lost.append(body)
                    self.close_connection = True
                    self.connection.close()
                    return
                self._reply(answer)

            def _passed(self, verb: str, body: bytes) -> None:
                self._reply(self._asked(verb, body))

            def _asked(self, verb: str, body: bytes) -> Any:
                names = ("Authorization", "Content-Type")
                headers = {name: self.headers[name] for name in names if name in self.headers}
                return httpx.request(
                    verb, address + self.path, content=body, headers=headers, verify=PLAIN
                )

            def _reply(self, answer: Any) -> None:
                self.send_response(answer.status_code)
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            def log_message(self, *_: Any) -> None: ...

        class Quiet(HTTPServer):
            def handle_error(self, *_: Any) -> None: ...

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Losing:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def test_waits_grow_and_what_the_service_asks_for_is_kept() -> None:
    now, slept = [0.0], list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    answers = iter(
        [HttpAnswer(503, b"", 7), HttpAnswer(429, b"", None), HttpAnswer(200, b"x", None)]
    )
    found = deliver_patiently(lambda: next(answers), 60, clock=lambda: now[0], sleep=sleep)
    assert found.status == 200
    assert slept[0] == 7
    assert 0.25 <= slept[1] <= 0.5
    slept.clear()
    with pytest.raises(UnreachableError, match="503"):
        deliver_patiently(lambda: HttpAnswer(503, b"", None), 20, clock=lambda: now[0], sleep=sleep)
    assert len(slept) >= 4
    assert slept[-1] > 4 * slept[0]


def test_answers_are_cached_by_their_tags_and_have_media_types(fleet: Served) -> None:
    found = fleet.get("/round")
    assert found.headers["content-type"].startswith(ROUND)
    tag = found.headers["etag"]
    assert fleet.get("/round", headers={"If-None-Match": tag}).status_code == 304
    asked = {"round": found.json()["round"], "client": "a" * 32}
    first = fleet.get("/announcement", params=asked)
    assert first.headers["content-type"].startswith(ANNOUNCEMENT)
    assert "max-age=" in first.headers["cache-control"]
    again = fleet.get(
        "/announcement", params=asked, headers={"If-None-Match": first.headers["etag"]}
    )
    assert (again.status_code, again.content) == (304, b"")
    closed = {**asked, "round": f"{asked['round'][:-1]}1", "client": "b"}
    assert fleet.get("/announcement", params=closed).status_code in (404, 409)
    assert fleet.get("/announcement", params={**asked, "client": "no name"}).status_code == 422


def test_many_reports_in_one_request(fleet: Served) -> None:
    name = fleet.get("/round").json()["round"]
    reports = []
    for _ in range(3):
        client = TOPL.client()
        asked = {"round": name, "client": client.name_in(name)}
        reports.append(client.answer(fleet.get("/announcement", params=asked).text, 7))
    lines = [*(one.json() for one in reports), "{", reports[0].json()]
    headers = {"Content-Type": REPORTS}
    answer = fleet.request(
        "POST", f"{fleet.url}/reports", content="\n".join(lines), headers=headers
    )
    assert answer.headers["content-type"].startswith(OUTCOMES)
    rows = answer.json()["outcomes"]
    assert [row["outcome"] for row in rows] == ["accepted"] * 3 + ["malformed", "duplicate"]
    assert [row["report_id"] for row in rows[:4]] == [*(one.client for one in reports), None]
    text, task = (
        fleet.request("GET", f"{fleet.address}/metrics", "admin").text,
        fleet.url.rpartition("/")[2],
    )
    for outcome, count in (("accepted", 3), ("malformed", 1), ("duplicate", 1)):
        counted = f'tidegate_device_reports_total{{outcome="{outcome}",task="{task}"}} {count}.0'
        assert counted in text
    assert f'tidegate_devices_asked_total{{task="{task}"}} 3.0' in text
    too_many = fleet.request("POST", f"{fleet.url}/reports", content="{}\n" * 10_001)
    assert too_many.status_code == 413
    assert (
        fleet.request("POST", f"{fleet.url}/reports", content=b" " * (5 << 20)).status_code == 413
    )


def test_pages_of_other_sites_may_report_and_nothing_else(fleet: Served) -> None:
    origin = {"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}
    asked = {**origin, "Access-Control-Request-Headers": "authorization,content-type"}
    before = httpx.options(f"{fleet.url}/reports", headers=asked)
    assert before.status_code == 200
    assert before.headers["access-control-allow-origin"] == "*"
    refused = httpx.get(f"{fleet.url}/round", headers=origin, verify=PLAIN)
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, "*")
    for path in ("", "/collection", "/retire"):
        answer = fleet.get(path, "reader", headers=origin)
        assert "access-control-allow-origin" not in answer.headers, path


def test_a_survey_that_is_full_asks_later(fleet: Served, tmp_path: Path) -> None:
    new = {"name": "survey", "epsilon": "1", "bound": 100, "settings": {"holdout": 100}}
    task = fleet.request("POST", f"{fleet.address}/v1/tasks", "admin", json=new).json()["task_id"]
    url = f"{fleet.address}/v1/tasks/{task}"
    name = fleet.request("GET", f"{url}/round").json()["round"]
    for place in range(20):
        asked = {"round": name, "client": str(place)}
        assert fleet.request("GET", f"{url}/announcement", params=asked).status_code == 200
    client = Topl(epsilon=1, bound=100).client(tmp_path / "device.json")
    with pytest.raises(NotAskedError) as error:
        client.report(url, 17, token=fleet.tokens["device"])
    assert 0 < error.value.seconds <= 601
    assert client.ledger == ()


def test_mistakes_in_a_task_are_told_without_an_echo(fleet: Served) -> None:
    secret = "8675309"
    right = {"name": "x", "epsilon": "1", "bound": 100}
    for wrong in (
        {"every": f"{secret} fortnights"},
        {"zone": secret},
        {"grace": "1y"},
        {"every": "36h"},
        {"settings": {"epsilon": 2}},
        {"settings": {"holdut": 100}},
        {"settings": {"threshold": "much"}},
        {"epsilon": "0"},
        {"name": ""},
        {"name": "a b"},
        {"name": "nul\0"},
        {"population": 10**30},
        {"population": 0},
        {"name": "steps"},
        {"grace": secret},
        {"unknown": secret},
    ):
        url = f"{fleet.address}/v1/tasks"
        answer = fleet.request("POST", url, "admin", json={**right, **wrong})
        assert answer.status_code in (409, 422), (wrong, answer.text)
        assert secret not in answer.text, answer.text


def test_no_log_holds_an_address_a_name_or_a_body(
    fleet: Served, caplog: pytest.LogCaptureFixture, capfd: Any, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    client = device(tmp_path / "device.json")
    client.report(fleet.url, 17, token=fleet.tokens["device"])
    report = client.sent(client.ledger[0].round)
    assert report is not None
    fleet.request("POST", f"{fleet.url}/reports", content='{"secret": 8675309')
    ours = [one for one in caplog.records if not one.name.startswith(("httpx", "httpcore"))]
    seen = "".join(map(str, capfd.readouterr())) + "".join(one.getMessage() for one in ours)
    for secret in ("127.0.0.1", report.client, report.round, "8675309", fleet.tokens["device"]):
        assert secret not in seen
    content = b"".join(
        path.read_bytes() for path in (tmp_path / "gate").iterdir() if path.name != "lock"
    )
    assert b"127.0.0.1" not in content
    assert json.dumps(report.report).encode() + b"\n" not in content
