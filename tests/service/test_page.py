"""The live page in a real browser: it moves, it answers, it creates, it comes back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate.service
from tests.service.conftest import Place, sender, served
from tests.typescript import compiler, needs_npm, run

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="the page's test needs the extra [test]"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
]  # fmt: skip
PATIENCE = 240_000.0  # milliseconds: on a loaded machine slowness is no failure


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_the_page_follows_answers_creates_and_reconnects(tmp_path: Path) -> None:
    place = Place(tmp_path / "gate", None)
    service = place.opened()
    gate, tokens = service.gate, service.tokens
    admin = gate.call(lambda: tokens.make("admin", "page")).result()
    pipeline_settings = {"name": "meters", "epsilon": "1", "bound": "100"}
    from tidegate.service.stream_routes import NewStream

    pipeline = NewStream(**pipeline_settings, settings={"horizon": 600}).pipeline()  # type: ignore[arg-type]
    gate.call(lambda: gate.streams.create("meters", pipeline)).result()
    values = np.random.default_rng(1).gamma(2, 10, 400)
    sender(service, "meters")(*values)

    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1000, "height": 900})
        page.set_default_timeout(PATIENCE)
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "console", lambda line: problems.append(line.text) if line.type == "error" else None
        )
        with served(service) as address:
            page.goto(address)
            page.fill("#token", admin)
            page.click("#sign-in button")
            page.wait_for_selector("#chart .nsewdrag")
            _wait_for_text(page, "#connection", "Live")
            _wait_for_text(page, "#facts", "400")

            sender(service, "meters")(*values[:25])  # it moves
            _wait_for_text(page, "#facts", "425")

            box = page.locator("#chart .nsewdrag").first.bounding_box()  # a range by dragging
            assert box is not None
            page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 50)
            page.mouse.down()
            page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 60, steps=5)
            page.mouse.up()
            _wait_for_text(page, "#answer", "with 95 % confidence")
            rows = int(page.input_value("#range [name=to]")) - int(
                page.input_value("#range [name=from]")
            )
            assert f"Sum of {rows} rows" in page.inner_text("#answer")

            page.click("#create summary")  # a stream by the form; a wrong setting is told
            page.fill("#create-form [name=name]", "second")
            page.fill("#create-form [name=bound]", "-5")
            page.click("#create-form button")
            _wait_for_text(page, "#create-problem", "bound: must be greater than 0")
            page.fill("#create-form [name=bound]", "50")
            page.click("#create-form button")
            _wait_for_text(page, "#name", "second")
            page.set_viewport_size({"width": 375, "height": 800})  # of a phone: nothing to scroll
            page.wait_for_function(  # a function: the page lets no text be evaluated
                "() => document.querySelector('#ledger').offsetWidth > 0 && "
                "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
            )
            problems = [line for line in problems if "422" not in line]  # the refusal above
            assert problems == []
            port = int(address.rpartition(":")[2])
        _wait_for_text(page, "#connection", "Connection lost")
        with served(place.opened(), port=port):
            _wait_for_text(page, "#connection", "Live")
        browser.close()


@needs_npm
def test_the_scripts_hold_their_types() -> None:
    pages = Path(tidegate.service.__file__).parent / "pages"
    scripts = sorted(pages.glob("*.js"))
    assert len(scripts) >= 3
    strict = ("--strict", "--noEmit", "--allowJs", "--checkJs", "--skipLibCheck")
    kind = ("--target", "ES2022", "--lib", "ES2022,DOM,DOM.Iterable,DOM.AsyncIterable")
    modules = ("--module", "ES2022", "--moduleResolution", "bundler")
    run(compiler() / ".bin" / "tsc", *strict, *kind, *modules, *scripts, folder=pages)


def _wait_for_text(page: Any, place: str, text: str) -> None:
    script = "([place, text]) => document.querySelector(place)?.textContent.includes(text)"
    page.wait_for_function(script, arg=[place, text])
