"""The live page in a real browser: it moves, it answers, it creates, it comes back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.service.conftest import Place, sender, served
from tidegate.service.service_process import Service
from tidegate.timestamps import read_times

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
    service = place.opened(cap=3)
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
        problems = _problems(page)
        with served(service) as address:
            page.goto(address)
            page.fill("#token", admin)
            page.click("#sign-in button")
            page.wait_for_selector("#chart .nsewdrag")
            _wait_for_text(page, "#connection", "Live")
            _wait_for_text(page, "#facts", "400")

            sender(service, "meters")(*values[:25])  # it moves
            _wait_for_text(page, "#facts", "425")

            _drag_a_range(page)
            rows = int(page.input_value("#range [name=to]")) - int(
                page.input_value("#range [name=from]")
            )
            assert f"Sum of {rows} rows" in page.inner_text("#answer")

            _moving_sums_are_drawn(page)
            _ledger_is_drawn(page)
            page.click("#create summary")  # a stream by the form; a wrong setting is told
            page.fill("#create-form [name=name]", "second")
            page.fill("#create-form [name=bound]", "-5")
            page.click("#create-form button")
            _wait_for_text(page, "#create-problem", "bound: must be greater than 0")
            page.fill("#create-form [name=bound]", "50")
            page.click("#create-form button")
            _wait_for_text(page, "#name", "second")
            _a_stream_begins_and_begins_anew(page, service)
            page.set_viewport_size({"width": 375, "height": 800})  # of a phone: nothing to scroll
            page.wait_for_function(  # a function: the page lets no text be evaluated
                "() => document.querySelector('#ledger').offsetWidth > 0 && "
                "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
            )
            assert [line for line in problems if "422" not in line] == []  # the refusal above
            port = int(address.rpartition(":")[2])
        _wait_for_text(page, "#connection", "Connection lost")
        with served(place.opened(), port=port):
            _wait_for_text(page, "#connection", "Live")
        browser.close()


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_the_page_of_a_new_service_and_times_of_every_zone(tmp_path: Path) -> None:
    """What a newcomer sees; and streams whose times have a zone, none, or an offset."""
    service = Place(tmp_path / "gate", None).opened()
    roles = ("admin", "auditor", "producer")
    admin, auditor, producer = (service.make_token(role, "page") for role in roles)
    pipeline = tg.adaptive(epsilon=1, bound=100, horizon=600)
    create = service.gate.streams.create
    values = np.random.default_rng(1).gamma(2, 10, 400)
    with served(service) as address, sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1000, "height": 900})
        page.set_default_timeout(PATIENCE)
        problems = _problems(page)
        page.goto(address)
        page.wait_for_selector("#welcome-sign-in:visible")
        assert page.is_hidden("nav")
        _sign_in(page, "no token at all")
        _wait_for_text(page, "#connection", "This token is not known")
        _sign_in(page, producer)
        _wait_for_text(page, "#connection", "This token may not read: its role is producer")
        _sign_in(page, admin)
        page.wait_for_selector("#welcome-empty:visible")
        page.wait_for_selector("#create-form [name=name]:visible")  # the form is what is next
        assert all("401" in line for line in problems), problems  # the token that is none
        problems.clear()

        minutes = [f"2024-03-30T{at // 60:02d}:{at % 60:02d}" for at in range(400)]
        zones = {"berlin": read_times(minutes, zone="Europe/Berlin"), "plain": read_times(minutes)}
        for name, times in zones.items():
            service.gate.call(lambda name=name: create(name, pipeline)).result()  # type: ignore[misc]
            sender(service, name)(*values, times=times)
        north = '<a href="https://elsewhere.invalid">north</a>'  # a key that would be a link
        keys = {"names": [north, "south", "west"], "threshold": "per key"}
        service.gate.call(lambda: create("zones", pipeline, keys=keys)).result()
        sender(service, "zones")(*values, keys=[north, "south"] * 200)
        _an_auditor_sees_facts_and_the_ledger(page, auditor)
        page.click("#sign-out")
        page.wait_for_selector("#welcome-sign-in:visible")
        _sign_in(page, admin)
        for name, axis in (("berlin", "Time (UTC)"), ("plain", "Time")):
            page.click(f"#streams [data-name={name}]")
            _wait_for_text(page, "#name", name)
            page.wait_for_selector("#chart .nsewdrag")
            page.wait_for_function(_AXIS, arg=axis)
            page.click("#visible")
            _wait_for_text(page, "#answer", "Sum of 400 rows")
            page.focus("#closer")  # all of it goes without a mouse
            page.keyboard.press("Enter")
            page.wait_for_function("() => document.querySelector('#chart').layout?.xaxis?.range")
            page.click("#visible")
            _wait_for_text(page, "#answer", "Sum of 200 rows")
            ends = page.input_value("#range [name=from]")
            assert ends.endswith("Z") is (name == "berlin")
            page.fill("#range [name=from]", "yesterday")
            page.click("#range button:not([type])")
            _wait_for_text(page, "#answer", "No answer: from")

        _sums_that_do_not_come_are_told(page, "plain")
        problems = [line for line in problems if "503" not in line]
        page.click("#streams [data-name=zones]")
        page.wait_for_function(_KEYS, arg=1)
        page.focus("#keys input[value=south]")
        page.keyboard.press("Space")
        page.wait_for_function(_KEYS, arg=2)
        page.wait_for_selector("#chart .legendtext >> text=elsewhere.invalid")
        assert page.locator("#chart .legend a").count() == 0
        offered = (
            "() => [...document.querySelectorAll('.modebar-btn')].map(one => one.dataset.title)"
        )
        buttons = page.evaluate(offered)
        assert "Zoom in" in buttons
        assert not [name for name in buttons if "Share" in name]  # data leave for nobody's servers
        page.click("#visible")
        _wait_for_text(page, "#answer", "south: Sum of 200 rows")
        assert [line for line in problems if "422" not in line] == []  # of yesterday
        _a_phone_has_no_mouse(browser, address, admin)
        browser.close()


_AXIS = "name => document.querySelector('#chart').layout?.xaxis?.title?.text === name"
_SUMS = "document.querySelector('#chart').data?.filter(line => line.yaxis === 'y2' && line.name)"
_KEYS = f"count => ({_SUMS} ?? []).length === count"


def _sign_in(page: Any, token: str) -> None:
    page.fill("#token", token)
    page.click("#sign-in button")


def _problems(page: Any) -> list[str]:
    """Whatever the browser complains about, as it comes."""
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("console", lambda line: found.append(line.text) if line.type == "error" else None)
    return found


def _drag_a_range(page: Any) -> None:
    """Again if the page has moved just then, as a person would."""
    for patience in (5_000, 5_000, PATIENCE):
        box = page.locator("#chart .nsewdrag").first.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 50)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 60, steps=5)
        page.mouse.up()
        try:
            _wait_for_text(page, "#answer", "with 95 % confidence", patience)
        except sync_api.TimeoutError:
            if patience == PATIENCE:
                raise
        else:
            return


def _moving_sums_are_drawn(page: Any) -> None:
    """In a part of their own, with their interval, and as a table."""
    page.select_option("#view [name=over]", "100")
    _wait_for_text(page, "#chart .legend", "sum of the last 100 rows")
    found = page.evaluate(
        f"() => {{ const [line] = {_SUMS}; return {{x: [...line.x], y: [...line.y],"
        " ends: line.customdata}; }"
    )
    ends, sums = found["x"], found["y"]
    assert ends[0] >= 100
    assert len(ends) > 50
    assert all(low < total < high for total, (low, high) in zip(sums, found["ends"], strict=True))
    assert 1000 < sums[-1] < 4000  # 100 values with a mean of 20
    page.click("#numbers summary")
    _wait_for_text(page, "#table-words", "the last 100 rows")
    assert page.locator("#sums tr").count() == len(ends)
    page.select_option("#view [name=over]", "")


def _a_phone_has_no_mouse(browser: Any, address: str, token: str) -> None:
    """Nothing lies on the chart, and nobody is told to drag."""
    size: Any = {"width": 390, "height": 800}
    page = browser.new_context(viewport=size, has_touch=True, is_mobile=True).new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(address)
    _sign_in(page, token)
    page.wait_for_selector("#chart .nsewdrag")
    assert page.locator(".modebar-btn").count() == 0
    assert page.is_visible("#range legend")
    assert page.is_hidden("#range legend .mouse")


def _sums_that_do_not_come_are_told(page: Any, name: str) -> None:
    """Levels are drawn meanwhile; and what an end of a range looks like is shown in its field."""
    waiting: list[Any] = []

    def kept(route: Any) -> None:
        waiting.append(route)

    page.route("**/moving?*", kept)
    page.click(f"#streams [data-name={name}]")
    _wait_for_text(page, "#empty", "are being worked out")
    with page.expect_response(f"**/v1/streams/{name}"):
        pass  # the next look at its facts
    _wait_for_text(page, "#empty", "are being worked out")
    page.wait_for_selector("#chart .nsewdrag")
    place = "document.querySelector('#range [name=from]').placeholder"
    page.wait_for_function(f"() => {place} === '2024-03-30T00:00'")
    said = {"title": "away", "detail": "the database is away"}
    for one in waiting:
        one.fulfill(status=503, json=said, content_type="application/problem+json")
    _wait_for_text(page, "#empty", "without sums: the database is away")
    page.unroute("**/moving?*")


def _a_stream_begins_and_begins_anew(page: Any, service: Service) -> None:
    """Before the first value, in the warm-up, after it; and in a new epoch, from its first row."""
    _wait_for_text(page, "#empty", "POST /v1/streams/second/values")
    assert page.is_hidden("#chart")
    assert page.is_hidden("#range")
    sender(service, "second")(*[7.0] * 10)
    _wait_for_text(page, "#empty", "more values are needed")
    assert page.is_visible("#chart")
    sender(service, "second")(*[7.0] * 300)
    page.wait_for_selector("#empty", state="hidden")
    # The chart has no data for a moment while it is drawn anew.
    drawn = (
        "() => { const lines = document.querySelector('#chart').data; "
        "return lines?.length > 1 && [...lines[0].y]; }"
    )
    level = page.wait_for_function(drawn).json_value()
    assert level[0] != 0  # no placeholders once the warm-up was measured
    assert 100 < len(level) < 310
    service.gate.call(lambda: service.gate.streams.begin_epoch("second", "asked for")).result()
    sender(service, "second")(*[7.0] * 12)
    _wait_for_text(page, "#empty", "more values are needed")
    page.wait_for_function("() => document.querySelector('#chart').data?.[0]?.x.length === 12")


def _ledger_is_drawn(page: Any) -> None:
    """A bar for each source, a box for each charge, the cap; and both as tables."""
    page.wait_for_selector("#sources-chart .bars path")
    page.wait_for_selector("#ranges-chart .bars path")
    _wait_for_text(page, "#ranges-chart", "cap 3")
    _wait_for_text(page, "#charges", "meters 1")
    _wait_for_text(page, "#sources", "meters132")  # spent 1 of 3, 2 are left
    _wait_for_text(page, "#streams", "budget left: 2 of 3")


def _an_auditor_sees_facts_and_the_ledger(page: Any, token: str) -> None:
    page.click("#sign-out")
    page.wait_for_selector("#welcome-sign-in:visible")
    _sign_in(page, token)
    _wait_for_text(page, "#connection", "Connected: facts and ledger")
    _wait_for_text(page, "#empty", "not what was released")
    _wait_for_text(page, "#facts", "400")
    page.wait_for_selector("#ranges-chart .bars path")
    assert page.is_hidden("#chart")


def _wait_for_text(page: Any, place: str, text: str, patience: float = PATIENCE) -> None:
    """Looked for now and then: at every frame, the browser would draw all of them."""
    script = "([place, text]) => document.querySelector(place)?.textContent.includes(text)"
    page.wait_for_function(script, arg=[place, text], timeout=patience, polling=50)
