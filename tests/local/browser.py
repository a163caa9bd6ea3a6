"""A real Chromium, and a server that its pages come from and send reports to."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-popup-blocking",  # a page opens a second tab
    "--remote-debugging-port=0",  # without one, some versions leave when the page has loaded
)
# Far longer than any of this takes: on a loaded machine slowness is no failure.
PATIENCE = 240.0

# The name of a round, or "open" → an announcement as text.
Announce = Callable[[str], str]
# The text of a report → None, or why it is not taken.
Receive = Callable[[str], str | None]


class Site:
    """Serves `folder`, announces, takes reports; `done` holds what pages say in the end."""

    def __init__(self, folder: Path, announce: Announce, receive: Receive) -> None:
        self.folder = folder
        self.announce = announce
        self.receive = receive
        self.done: queue.Queue[Any] = queue.Queue()
        self.one_at_a_time = threading.Lock()

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Its address, as long as it is served: on this machine only, at any free port."""
        handler = partial(_Handler, self, directory=str(self.folder))
        with _HTTPServer(("127.0.0.1", 0), handler) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.02,))
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}"
            finally:
                server.shutdown()
                thread.join()


class _HTTPServer(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that is killed leaves connections behind; anything else is worth seeing."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # a page that sends many reports keeps its connection
    disable_nagle_algorithm = True  # else every answer waits 40 ms for an acknowledgement
    extensions_map: ClassVar = {**SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript"}

    def __init__(self, site: Site, *arguments: Any, **settings: Any) -> None:
        self._site = site
        super().__init__(*arguments, **settings)

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        if address.path != "/announcement":
            super().do_GET()
            return
        with self._site.one_at_a_time:
            text = self._site.announce(parse_qs(address.query)["round"][0])
        self._reply(200, text)

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path == "/done":
            self._reply(200, "")
            self._site.done.put(json.loads(text))
            return
        with self._site.one_at_a_time:
            problem = self._site.receive(text)
        self._reply(400 if problem else 200, problem or "")

    def _reply(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Tests are quiet."""


@contextmanager
def chromium(address: str, profile: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A browser on this page; when the block ends it is killed, as by a power cut."""
    assert CHROMIUM is not None
    command = [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", address]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(process.pid, signal.SIGKILL)  # with its helpers, all of one session


def visited(site: Site, address: str, profile: Path) -> Any:
    """What the page says in the end."""
    return all_said(site, address, profile, pages=1)[0]


def all_said(site: Site, address: str, profile: Path, *, pages: int) -> list[Any]:
    """What this page and those that it opens say in the end."""
    deadline = time.monotonic() + PATIENCE
    said: list[Any] = []
    with chromium(address, profile) as browser:
        while time.monotonic() < deadline:
            try:
                said.append(site.done.get(timeout=1.0))
            except queue.Empty:
                assert browser.poll() is None, f"chromium ended with {browser.returncode}"
            if len(said) == pages:
                return said
    raise AssertionError(f"not all pages were done after {PATIENCE:g} s: {said}")
