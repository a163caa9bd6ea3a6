"""clients/js in a real Chromium: pages that send reports to Tidegate's own server."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.depth import at_the_gate, depth
from tests.local.browser import CHROMIUM, Site, all_said, visited
from tidegate.local.announcements_and_reports import Announcement, Report
from tidegate.local.mechanisms import hybrid
from tidegate.local.report_checks import RejectedError
from tidegate.local.topl import Topl

CLIENT = Path(__file__).parent.parent.parent / "clients" / "js"
ROUNDS = 8
MANY = depth(30, 80)
# One chance of a false alarm in a thousand million.
SURE = 1 - 1e-9

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")


class Notebook:
    """A server that announces any round and takes any report: what was sent, by round."""

    def __init__(self) -> None:
        self.sent: dict[str, set[str]] = defaultdict(set)
        self.count = 0
        self._question = hybrid(50, Fraction(1))

    def announce(self, name: str) -> str:
        return Announcement(
            round=name,
            phase="stream",
            epsilon=Fraction(1),
            bound=Fraction(100),
            resolution=Fraction(1),
            slot=0,
            question=self._question,
        ).json()

    def receive(self, text: str) -> None:
        report = Report.from_json(text)
        assert report.report < self._question.reports
        self.sent[report.round].add(json.dumps(report.plain()))
        self.count += 1


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


@pytest.fixture
def site(notebook: Notebook) -> Site:
    return Site(CLIENT, notebook.announce, notebook.receive)


@pytest.fixture
def address(site: Site) -> Iterator[str]:
    with site.serving() as address:
        yield f"{address}/tests/page.html"


def test_the_vectors_are_met_in_the_browser(site: Site, address: str, tmp_path: Path) -> None:
    result = visited(site, f"{address}?vectors", tmp_path)
    vectors = json.loads((CLIENT / "vectors.json").read_text(encoding="utf-8"))
    cases = sum(len(each["cases"]) for each in vectors["answers"]) + len(vectors["loss"])
    assert result == {"made": cases, "wrong": 0}


@at_the_gate  # devices of a browser reach a service in tests/service/test_device_page.py
def test_a_crowd_of_browsers_chooses_a_threshold_and_reports_a_stream(tmp_path: Path) -> None:
    holdout, stream = 100, 150
    spec = Topl(
        epsilon=1, bound=100, holdout=holdout, horizon=512, keep_asking=False, report="hybrid"
    )
    with spec.server() as server:

        def receive(text: str) -> str | None:
            try:
                server.collect(text)
            except RejectedError as error:
                return str(error)
            return None

        site = Site(CLIENT, lambda _: server.announcement().json(), receive)
        with site.serving() as address:
            page = f"{address}/tests/page.html?crowd={holdout + stream}"
            assert visited(site, page, tmp_path) == {"devices": holdout + stream}
        assert (server.accepted, server.rejected.total()) == (holdout + stream, 0)
        assert server.threshold is not None
        assert 0 < server.threshold <= 100
        values = (index % 101 for index in range(holdout, holdout + stream))
        truth = sum(min(value, server.threshold) for value in values)
        answer = server.query(0, stream, confidence=SURE)
        assert answer.low <= truth <= answer.high


# What a page says in the end of a device that has answered: its key cannot be read out, no record
# holds it, and the browser was asked to keep the records.
KEPT = {"exported": "InvalidAccessError", "secret": False, "asked": 1, "persisted": "boolean"}


def said(rounds: int = ROUNDS) -> dict[str, Any]:
    return {"ledger": rounds, "left": str(1000 - rounds), **KEPT}


@at_the_gate  # a browser that is killed, below, asks more of the same memory
def test_a_page_that_is_loaded_again_sends_the_same_reports(
    notebook: Notebook, site: Site, address: str, tmp_path: Path
) -> None:
    assert visited(site, f"{address}?device&rounds={ROUNDS}&visits=3", tmp_path) == said()
    _each_round_has_one_report(notebook, 3 * ROUNDS)


@at_the_gate  # tabs are processes of their own, and harder
def test_frames_at_one_time_agree_on_one_report_a_round(
    notebook: Notebook, site: Site, address: str, tmp_path: Path
) -> None:
    results = visited(site, f"{address}?device&rounds={ROUNDS}&frames=4", tmp_path)
    assert results == [said()] * 4
    _each_round_has_one_report(notebook, 4 * ROUNDS)


EXPORTED = re.findall(
    r"export { (\w+Storage) }", (CLIENT / "src" / "index.js").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("storage", [name for name in EXPORTED if name != "VolatileStorage"])
def test_tabs_that_answer_at_the_same_moment_agree_on_one_report_a_round(
    notebook: Notebook, site: Site, address: str, tmp_path: Path, storage: str
) -> None:
    """Two processes of a browser, which wait for each other before every answer.

    Whatever storage a page is offered. With localStorage, even under Web Locks, 72 of 1,000 such
    rounds had two reports.
    """
    page = f"{address}?device&rounds={MANY}&tabs=2&storage={storage}"
    assert all_said(site, page, tmp_path, pages=2) == [said(MANY)] * 2
    _each_round_has_one_report(notebook, 2 * MANY, MANY)


def test_a_browser_that_was_killed_remembers_what_it_sent(
    notebook: Notebook, site: Site, address: str, tmp_path: Path
) -> None:
    page = f"{address}?device&rounds={ROUNDS}"
    results: list[Any] = [visited(site, page, tmp_path) for _ in range(2)]  # killed after each
    assert results == [said()] * 2
    _each_round_has_one_report(notebook, 2 * ROUNDS)


def _each_round_has_one_report(notebook: Notebook, sent: int, rounds: int = ROUNDS) -> None:
    assert notebook.count == sent
    assert sorted(notebook.sent) == sorted(f"r{index}" for index in range(rounds))
    assert all(len(reports) == 1 for reports in notebook.sent.values())
