"""The shuffler as a process between devices and the service: names stay with it, reports leave."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoking import run
from tests.service.conftest import PLAIN, served
from tests.service.test_command import free_port
from tests.service.test_device_http import TOPL, Served, fleet_with_a_task
from tidegate.errors import RefusedError
from tidegate.local.report_delivery import UnreachableError
from tidegate.local.task_messages import SHUFFLER
from tidegate.service.shuffler.forwarding import Forwarder
from tidegate.service.shuffler.shuffler_app import ShufflerApp
from tidegate.service.shuffler.shuffler_store import ShufflerStore

httpx = pytest.importorskip("httpx", reason="tests of the service need the extra [test]")

RARELY = 3600.0  # the tests look themselves


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Served]:
    with fleet_with_a_task(tmp_path, shuffled=True) as made:
        yield made


class Mixing:
    """A shuffler in front of a fleet's service."""

    def __init__(self, fleet: Served, folder: Path, size: int = 5) -> None:
        self.store = ShufflerStore(folder)
        self.now = 0.0  # added to the time
        self.forwarder = Forwarder(
            self.store, fleet.address, fleet.tokens["shuffler"], size=size, every=RARELY,
            clock=lambda: time.time() + self.now,
        )  # fmt: skip
        self._app = ShufflerApp(
            self.store, self.forwarder, fleet.address, lambda: time.time() + self.now
        )

    def cut_off(self) -> None:
        """The service cannot be reached any more."""
        self._app._service = "http://127.0.0.1:9"

    def app(self) -> Any:
        return self._app.app()


def _counts(fleet: Served) -> tuple[int, int]:
    facts = fleet.request("GET", fleet.url, "reader").json()
    return facts["asked"], facts["reports"]


def test_reports_leave_in_batches_without_names(fleet: Served, tmp_path: Path) -> None:
    mixing = Mixing(fleet, tmp_path / "mixing")
    token = fleet.tokens["device"]
    with served(mixing) as address:  # type: ignore[arg-type]  # what is served has an app
        url = fleet.url.replace(fleet.address, address)
        clients = [TOPL.client() for _ in range(6)]
        for client in clients[:4]:
            assert client.report(url, 17, token=token).outcome == "accepted"
        assert clients[0].report(url, 17, token=token).outcome == "duplicate"
        mixing.forwarder.look()
        assert _counts(fleet) == (4, 0)  # too few to hide among
        clients[4].report(url, 17, token=token)
        mixing.forwarder.look()
        assert _counts(fleet) == (5, 5)
        clients[5].report(url, 17, token=token)
        mixing.forwarder.look()
        assert _counts(fleet) == (6, 5)
        (one,) = mixing.store.waiting()
        moment = mixing.forwarder.last_moment(one.closes, one.until)
        assert one.closes < moment < one.until
        mixing.now = moment + 60 - time.time()  # the round is over: the rest leaves too
        mixing.forwarder.look()
        assert _counts(fleet) == (6, 6)
        report = clients[0].sent(clients[0].ledger[0].round)
        assert report is not None
        wrong, known = report.plain(), {"Authorization": f"Bearer {token}"}
        for field, value, reason in (
            ("slot", 3, "slot"), ("report", 99, "domain"), ("client", "x", "assignment"),
            ("epsilon", "2", "epsilon"), ("round", "r", "round"),
        ):  # fmt: skip
            content = json.dumps({**wrong, field: value})
            answer = httpx.post(f"{url}/reports", content=content, headers=known, verify=PLAIN)
            assert answer.json()["outcomes"][0]["outcome"] == reason
    direct = fleet.request("POST", f"{fleet.url}/reports", content=report.json())
    assert (direct.status_code, "shuffler" in direct.text) == (409, True)


def test_a_batch_that_is_refused_holds_up_no_other(
    fleet: Served, tmp_path: Path, caplog: Any
) -> None:
    mixing = Mixing(fleet, tmp_path / "mixing", size=1)
    gone = "A" * 43 + ".7"  # a task that the service does not know, such as one of another service
    later = time.time() + 3600
    with mixing.store._changing():
        for key in ("0" * 32, "f" * 32):  # the first and the last that are sent
            batch = (key, gone, '{"slots": [0], "reports": [0]}')
            mixing.store._database.execute("INSERT INTO batches VALUES (?, ?, ?)", batch)
    mixing.store.keep_round(gone, "A" * 43, later, later)
    with served(mixing) as address:  # type: ignore[arg-type]  # what is served has an app
        url = fleet.url.replace(fleet.address, address)
        TOPL.client().report(url, 17, token=fleet.tokens["device"])
        for _ in range(2):
            mixing.forwarder.look()
        assert _counts(fleet) == (1, 1)
        assert httpx.get(f"{address}/healthz", verify=PLAIN).status_code == 503
        assert mixing.forwarder.failure == "the service answered 404 to a batch"
        assert caplog.text.count("a batch was not taken") == 1  # not at every look
        assert len(mixing.store.batches()) == 2
        mixing.now = 7200  # nobody would take them any more
        mixing.forwarder.look()
        assert mixing.store.batches() == []


def test_a_device_that_asks_the_wrong_way_is_told_before_it_draws(
    fleet: Served, tmp_path: Path
) -> None:
    """Through a shuffler if the task has one; straight if not."""
    token, client = fleet.tokens["device"], TOPL.client()
    new = {"name": "plain", "epsilon": "1", "bound": 100, "settings": {"threshold": 20}}
    task = fleet.request("POST", f"{fleet.address}/v1/tasks", "admin", json=new).json()
    with served(Mixing(fleet, tmp_path / "mixing")) as address:  # type: ignore[arg-type]
        for url in (fleet.url, f"{address}/v1/tasks/{task['task_id']}"):
            with pytest.raises(RefusedError, match=r"^url: reports of this task go to another"):
                client.report(url, 17, token=token)
    assert len(client.ledger) == 0
    assert _counts(fleet) == (0, 0)


def test_a_batch_counts_once_however_often_it_is_sent(fleet: Served, tmp_path: Path) -> None:
    name = fleet.get("/round", headers={SHUFFLER: "1"}).json()["round"]
    for place in range(3):
        fleet.get("/announcement", params={"round": name, "client": str(place)})
    batch: dict[str, Any] = {"round": name, "slots": [0, 0, 0, 0, 7], "reports": [0, 1, 0, 1, 0]}

    def send(key: str = "k", **changed: Any) -> Any:
        return fleet.request(
            "POST", f"{fleet.url}/batches", "shuffler", json={**batch, **changed},
            headers={"Idempotency-Key": key},
        )  # fmt: skip

    first = send()
    assert first.json()["accepted"] == 3  # as many as were asked
    assert first.json()["rejected"] == {"assignment": 1, "slot": 1}
    assert send().json() == first.json()
    assert _counts(fleet) == (3, 3)
    assert send(reports=[0, 0, 0, 0, 0]).status_code == 409
    assert send("other").json()["accepted"] == 0
    assert send("wrong", round=f"{name[:43]}.5").json()["rejected"] == {"late": 5}
    assert send("text", slots="many").status_code == 422
    assert send("").status_code == 400
    assert fleet.request("POST", f"{fleet.url}/batches", "device", json=batch).status_code == 403


def test_reports_need_a_token_that_the_service_lets_in(fleet: Served, tmp_path: Path) -> None:
    mixing = Mixing(fleet, tmp_path / "mixing")
    with served(mixing) as address:  # type: ignore[arg-type]  # what is served has an app
        url = fleet.url.replace(fleet.address, address)
        client = TOPL.client()
        assert client.report(url, 17, token=fleet.tokens["device"]).outcome == "accepted"
        report = client.sent(client.ledger[0].round)
        assert report is not None

        def sent(token: str | None) -> Any:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            return httpx.post(
                f"{url}/reports", content=report.json(), headers=headers, verify=PLAIN
            )

        for token, status in ((None, 401), ("tg_guessed", 401), (fleet.tokens["reader"], 403)):
            assert sent(token).status_code == status
        # A head that is too long for the service, once it is passed on: it does not say who asks.
        path = f"{address}/v1/tasks/{'!' * 30_000}/reports"
        assert httpx.post(path, content=report.json(), verify=PLAIN).status_code in (400, 431)
        for odd in ("%00", "%0A", "a%3Fb", "%25", ".."):
            path = f"{address}/v1/tasks/{odd}/reports"
            answer = httpx.post(path, content=report.json(), verify=PLAIN)
            assert answer.status_code in (400, 401, 404), odd
        # Another token of a device, which the shuffler has not seen: the service is asked.
        made = {"role": "device", "label": "more"}
        other = fleet.request("POST", f"{fleet.address}/v1/tokens", "admin", json=made)
        assert sent(other.json()["token"]).json()["outcomes"][0]["outcome"] == "duplicate"
        content = b"".join(path.read_bytes() for path in (tmp_path / "mixing").iterdir())
        assert fleet.tokens["device"].encode() not in content
        # Once the service is away, who is known goes on, and nobody else is let in.
        mixing.cut_off()
        mixing.now += 61
        assert sent(fleet.tokens["device"]).status_code == 200
        assert sent("tg_guessed").status_code == 429
        mixing.store.forget(time.time() + 10 * 86_400)
        assert mixing.store._rows("SELECT count(*) FROM tokens") == [(0,)]


def test_a_token_that_is_revoked_at_the_service_ends_within_a_minute(
    fleet: Served, tmp_path: Path
) -> None:
    mixing = Mixing(fleet, tmp_path / "mixing")
    with served(mixing) as address:  # type: ignore[arg-type]  # what is served has an app
        url, client = fleet.url.replace(fleet.address, address), TOPL.client()
        made = {"role": "device", "label": "leaked"}
        token = fleet.request("POST", f"{fleet.address}/v1/tokens", "admin", json=made)
        known = {"Authorization": f"Bearer {token.json()['token']}"}
        assert client.report(url, 17, token=token.json()["token"]).outcome == "accepted"
        report = client.sent(client.ledger[0].round)
        assert report is not None

        def sent() -> int:
            answer = httpx.post(
                f"{url}/reports", content=report.json(), headers=known, verify=PLAIN
            )
            return int(answer.status_code)

        mixing.now += 30
        assert sent() == 200
        fleet.request("DELETE", f"{fleet.address}/v1/tokens/leaked", "admin")
        mixing.now += 31
        assert sent() == 401
        mixing.cut_off()  # and it stays so
        assert sent() == 429


@pytest.mark.parametrize("status", [302, 400, 404, 429, 431, 503, 504])
def test_a_service_that_does_not_say_lets_no_stranger_in(
    fleet: Served, tmp_path: Path, status: int
) -> None:
    """Who was let in before goes on: their reports would be lost with what they have spent."""

    class Failing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *words: Any) -> None:
            """Nothing."""

    mixing = Mixing(fleet, tmp_path / "mixing")
    failing = HTTPServer(("127.0.0.1", 0), Failing)
    threading.Thread(target=failing.serve_forever, daemon=True).start()
    with served(mixing) as address:  # type: ignore[arg-type]  # what is served has an app
        url, client = fleet.url.replace(fleet.address, address), TOPL.client()
        assert client.report(url, 17, token=fleet.tokens["device"]).outcome == "accepted"
        report = client.sent(client.ledger[0].round)
        assert report is not None
        mixing._app._service = f"http://127.0.0.1:{failing.server_port}"
        mixing.now += 61
        for token, expected in ((fleet.tokens["device"], 200), ("tg_guessed", status)):
            answer = httpx.post(
                f"{url}/reports", content=report.json(), verify=PLAIN,
                headers={"Authorization": f"Bearer {token}"},
            )  # fmt: skip
            assert answer.status_code == expected
    failing.shutdown()
    failing.server_close()


def test_what_was_accepted_survives_and_is_sent_once_the_service_is_back(
    fleet: Served, tmp_path: Path
) -> None:
    folder, token = tmp_path / "mixing", fleet.tokens["device"]
    mixing = Mixing(fleet, folder, size=1)
    client, late = TOPL.client(), TOPL.client()
    with served(mixing) as address:  # type: ignore[arg-type]
        url = fleet.url.replace(fleet.address, address)
        assert client.report(url, 17, token=token).outcome == "accepted"
        with pytest.raises(RefusedError, match="in use"):
            ShufflerStore(folder)
        away = Forwarder(mixing.store, "http://127.0.0.1:9", "t", size=1)
        away.look()  # mixed, and kept
        assert away.failure is not None
        assert "cannot be reached" in away.failure
    names = [client.name_in(one.round).encode() for one in client.ledger]
    content = b"".join(path.read_bytes() for path in folder.iterdir())
    assert not any(name in content for name in names)
    again = Mixing(fleet, folder, size=1)
    ((_, waiting),) = again.store.batches()
    assert waiting.reports.size == 1
    assert again.store.waiting() == []
    with served(again) as address:  # type: ignore[arg-type]
        again.forwarder.look()
        assert _counts(fleet) == (1, 1)
        assert again.store.batches() == []
        report = client.sent(client.ledger[0].round)
        assert report is not None
        url = fleet.url.replace(fleet.address, address)
        known = {"Authorization": f"Bearer {token}"}  # which the store has kept
        answer = httpx.post(f"{url}/reports", content=report.json(), headers=known, verify=PLAIN)
        assert answer.json()["outcomes"][0]["outcome"] == "duplicate"
        fleet.service.gate._stopping = True  # the service cannot answer
        with pytest.raises(UnreachableError):
            late.report(url, 17, token=token, patience=0)


def test_the_command(tmp_path: Path) -> None:
    folder = str(tmp_path / "mixing")
    assert "token of the role shuffler" in run("shuffle", folder, "--to", "http://x").stderr
    secret = tmp_path / "token"
    secret.write_text("tg_x\n")
    wrong = run("shuffle", folder, "--to", "nowhere", "--token-file", str(secret))
    assert (wrong.exit_code, "--to must be the address" in wrong.stderr) == (2, True)
    port = free_port()
    command = [sys.executable, "-m", "tidegate", "shuffle", folder, "--to", "http://127.0.0.1:9"]
    command += ["--token-file", str(secret), "--port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            while True:
                try:
                    alive = httpx.get(f"http://127.0.0.1:{port}/healthz", verify=PLAIN)
                    break
                except httpx.ConnectError:
                    assert process.poll() is None, process.stderr and process.stderr.read()
                    time.sleep(0.05)
            assert alive.text == "ok"
            asked = httpx.get(f"http://127.0.0.1:{port}/v1/tasks/a/round", verify=PLAIN)
            assert (asked.status_code, asked.headers["retry-after"]) == (429, "1")
        finally:
            process.terminate()
            _, said = process.communicate(timeout=240)
    assert "127.0.0.1:9" not in said
    assert "Traceback" not in said
