"""Pages in a real Chromium report to a service: reloaded, in two tabs, offline, plain HTTP."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.service.test_device_http import Served, fleet
from tests.service.test_page import CHROMIUM, FLAGS, PATIENCE
from tidegate.service.devices import device_tables

sync_api = pytest.importorskip("playwright.sync_api", reason="needs the extra [test]")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
__all__ = ["fleet"]  # the fixture

CLIENT = Path(__file__).parent.parent.parent / "clients" / "js"
OPEN = """async () => {
  const { Client, IndexedDBStorage } = await import("/src/index.js");
  const options = { epsilon: 1, bound: 100, lifetime: 10, storage: new IndexedDBStorage() };
  window.client = await Client.open(options);
}"""
REPORT = """async ([url, value, token, patience]) => {
  const { outcome } = await client.report(url, value, { event: "today", token, patience });
  return outcome;
}"""


class _Handler(SimpleHTTPRequestHandler):
    extensions_map: ClassVar = {**SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript"}

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def site(folder: Path) -> Iterator[int]:
    """A shop of its own: another origin than the service. Gives its port."""
    folder.mkdir()
    shutil.copytree(CLIENT / "src", folder / "src")
    (folder / "index.html").write_text("<!doctype html><title>a shop</title>", encoding="utf-8")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _reports(fleet: Served) -> int:
    found: int = fleet.request("GET", fleet.url, "reader").json()["reports"]
    return found


def test_a_page_reports_with_one_call_whatever_happens_to_it(fleet: Served, tmp_path: Path) -> None:
    token = fleet.tokens["device"]
    flags = [*FLAGS, "--host-resolver-rules=MAP shop.example 127.0.0.1"]
    with site(tmp_path / "site") as port, sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)

        def opened(context: Any, host: str = "localhost") -> Any:
            page = context.new_page()
            page.set_default_timeout(PATIENCE)
            page.goto(f"http://{host}:{port}/")
            return page

        # A reload: the answer to the report is lost, and the page that comes back sends the same.
        device = browser.new_context()
        page = opened(device)
        page.evaluate(OPEN)
        sent: list[str] = []
        page.on("request", lambda one: one.method == "POST" and sent.append(one.post_data or ""))
        page.route("**/reports", lambda route: route.abort())
        assert page.evaluate(REPORT, [fleet.url, 17, token, 0]) == "queued"
        page.unroute("**/reports")
        page.reload()
        page.evaluate(OPEN)
        assert page.evaluate("async () => (await client.unacknowledged()).length") == 1
        deliver = (
            "async ([url, token]) => (await client.deliver(url, { token })).map((d) => d.outcome)"
        )
        assert page.evaluate(deliver, [fleet.url, token]) == ["accepted"]
        assert page.evaluate(deliver, [fleet.url, token]) == []
        assert page.evaluate(REPORT, [fleet.url, 99, token, 0]) == "duplicate"
        assert len(sent) == 3  # the third asks what became of it: the same bytes
        assert len(set(sent)) == 1
        assert _reports(fleet) == 1
        gate = fleet.service.gate  # nobody knows the device any more: not called "duplicate"
        forget = device_tables.devices.delete()
        gate.call(lambda: gate.database.connection.execute(forget).rowcount).result()
        assert page.evaluate(REPORT, [fleet.url, 17, token, 0]) == "assignment"

        # Two tabs at the same moment: one report, drawn once.
        device = browser.new_context()
        tabs = [opened(device) for _ in range(2)]
        for tab in tabs:
            tab.evaluate(OPEN)
            tab.evaluate(
                f"(given) => {{ window.done = ({REPORT})(given); }}", [fleet.url, 17, token, 20]
            )
        outcomes = [tab.evaluate("async () => await window.done") for tab in tabs]
        assert set(outcomes) <= {"accepted", "duplicate"}
        assert _reports(fleet) == 2
        assert tabs[0].evaluate("async () => (await client.ledger()).length") == 1

        # Offline: nothing is drawn without a question; a report that was drawn waits and leaves.
        device = browser.new_context()
        page = opened(device)
        page.evaluate(OPEN)
        device.set_offline(True)
        trying = f"async (given) => ({REPORT})(given).catch((error) => error.name)"
        assert page.evaluate(trying, [fleet.url, 17, token, 0]) == "UnreachableError"
        assert page.evaluate("async () => (await client.ledger()).length") == 0
        device.set_offline(False)
        page.route("**/reports", lambda route: route.abort())
        assert page.evaluate(REPORT, [fleet.url, 17, token, 0]) == "queued"
        device.set_offline(True)
        page.unroute("**/reports")
        assert _reports(fleet) == 2
        device.set_offline(False)
        waiting = "async () => (await client.unacknowledged()).length === 0"
        page.wait_for_function(waiting)
        assert _reports(fleet) == 3

        # Without HTTPS browsers give no Web Crypto.
        page = opened(browser.new_context(), "shop.example")
        assert page.evaluate("() => isSecureContext") is False
        said = page.evaluate(f"({OPEN})().catch((error) => `${{error.name}}: ${{error.message}}`)")
        assert said.startswith("RefusedError: Web Crypto is missing: serve the page over HTTPS")
        browser.close()
