"""The live page by the rules of axe: nothing serious, in both themes, wide and on a phone.

By hand a wide page is looked at, in the colours of both themes, and is then made as narrow as a
phone; at the gate a page that was opened on a phone, too.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.depth import depth
from tests.service.conftest import Place, sender, served
from tests.service.test_page import (
    _KEYS,
    CHROMIUM,
    FLAGS,
    PATIENCE,
    _wait_for_text,
    sync_api,
)
from tests.typescript import modules, needs_npm
from tidegate.demo.city_and_phones import Phones

AXE = "axe-core@4.10.3"
# Hundreds of rows of a table are made by one line of script: a few of them show what it does, and
# axe looks at each for longer than the page takes to make them.
FEWER = "() => document.querySelectorAll('#sums tr:nth-child(n+9)').forEach((row) => row.remove())"
PHONE = 390  # pixels
_FITS = "() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"
PICTURES = os.environ.get("TIDEGATE_PICTURES")  # a folder: look at what was checked


@needs_npm
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_axe_finds_nothing_serious(tmp_path: Path) -> None:
    service = Place(tmp_path / "gate", None).opened(cap=3)
    admin = service.make_token("admin", "page")
    create = service.gate.streams.create
    pipeline = tg.adaptive(epsilon=1, bound=100, horizon=600)
    keys = {"names": ["north", "south"], "threshold": "per key"}
    service.gate.call(lambda: create("meters", pipeline)).result()
    service.gate.call(lambda: create("zones", pipeline, keys=keys)).result()
    values = np.random.default_rng(1).gamma(2, 10, 300)
    sender(service, "meters")(*values)
    sender(service, "zones")(*values, keys=["north", "south"] * 150)
    axe = (modules(AXE) / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    found: list[str] = []
    with served(service) as address, sync_api.sync_playwright() as playwright:
        with tg.connect(address, admin) as gate:
            Phones(gate, address, count=8).report()
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        pages = (("light", 1000), ("dark", PHONE))
        for theme, width in depth(pages[:1], pages):
            size: Any = {"width": width, "height": 900}
            context = browser.new_context(color_scheme=theme, viewport=size)  # type: ignore[arg-type]
            page = context.new_page()
            page.set_default_timeout(PATIENCE)
            page.goto(address)
            page.wait_for_selector("#token:visible")
            page.evaluate(axe)  # not by a script element: the page allows none
            if width == depth(1000, PHONE):
                _check(page, f"sign in, {theme}, {width}", found)
            page.fill("#token", admin)
            page.click("#sign-in button")
            page.wait_for_selector("#chart .nsewdrag")
            _wait_for_text(page, "#sources", "meters")
            page.click("#streams [data-name=zones]")
            _wait_for_text(page, "#name", "zones")
            page.wait_for_selector("#chart .nsewdrag")
            page.wait_for_function(_KEYS, arg=1)  # a choice that comes before would be forgotten
            page.click("#keys label:nth-child(2)")
            page.wait_for_function(_KEYS, arg=2)
            page.click("#visible")
            _wait_for_text(page, "#answer", "south: Sum")
            for closed in page.locator("section:visible summary").all():
                closed.click()
            page.wait_for_selector("#ranges-chart .bars path")
            page.click("#create summary")
            page.fill("#create-form [name=bound]", "50")
            page.select_option("#create-form [name=kind]", "keyed")
            _wait_for_text(page, "#plan", "±")
            _check(page, f"overview, keys and form, {theme}, {width}", found)
            page.select_option("#create-form [name=kind]", "keyed events")
            page.click("#tasks button")
            page.wait_for_selector("#task-chart .nsewdrag")
            page.click("#task summary")
            _wait_for_text(page, "#task-chart", "mean of a device")
            _check(page, f"task and form of events, {theme}, {width}", found)
            for screen in depth((width, PHONE), (width,)):
                page.set_viewport_size({**size, "width": screen})
                page.wait_for_function(_FITS)
            context.close()
        browser.close()
    assert not found, "\n".join(found)


def _check(page: Any, what: str, found: list[str]) -> None:
    """By all rules in the theme that the page was opened in, and its colours in the other one."""
    themes: list[tuple[str, Any]] = [("light", []), ("dark", [])]
    if "dark" in what:
        themes.reverse()
    themes[1] = (themes[1][0], ["color-contrast"])
    page.evaluate(FEWER)
    for theme, rules in themes:
        page.emulate_media(color_scheme=theme)
        if PICTURES:
            page.screenshot(path=f"{PICTURES}/{what}, seen in {theme}.png", full_page=True)
        only = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
        for one in page.evaluate("only => axe.run(document, only)", only)["violations"]:
            if one["impact"] in ("serious", "critical"):
                places = "; ".join(str(node["target"]) for node in one["nodes"][:5])
                found.append(
                    f"{what}, seen in {theme}: {one['impact']} {one['id']} at {places}:"
                    f" {one['help']}"
                )
    page.emulate_media(color_scheme=themes[0][0])
