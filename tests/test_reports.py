"""Workers leave out reports of what went well around a test, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reports import send_remarkable

QUIET = {
    "when": "setup", "outcome": "passed", "duration": 0.001, "sections": [], "user_properties": [],
}  # fmt: skip


def sent(name: str, **contents: Any) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    send_remarkable(lambda name, **contents: found.append((name, contents)), name, **contents)
    return found


def test_what_went_well_in_no_time_is_left_out() -> None:
    assert sent("testreport", data=QUIET) == []
    assert sent("testreport", data={**QUIET, "when": "teardown"}) == []


@pytest.mark.parametrize(
    "other",
    [
        {"when": "call"},
        {"outcome": "failed"},
        {"outcome": "skipped"},
        {"when": "teardown", "outcome": "failed"},
        {"duration": 0.1},
        {"sections": [("Captured stdout setup", "words")]},
        {"user_properties": [("kind", "value")]},
    ],
)
def test_all_else_is_told(other: dict[str, Any]) -> None:
    report = {**QUIET, **other}
    assert sent("testreport", data=report) == [("testreport", {"data": report})]


def test_other_events_pass() -> None:
    assert sent("logfinish", nodeid="a", location=None)
    assert sent("workerfinished", workeroutput={})
