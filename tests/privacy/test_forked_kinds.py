"""Every kind of release, and a server of the local model, refuses in a forked process."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.local.settings import GIVEN
from tests.privacy.test_forked_processes import PIPELINE, REFUSED, in_child, outcome
from tidegate.local.topl import Topl

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),  # that is what is tested
]
CLOCK: dict[str, Any] = {"every": "1h", "start": "2024-02-01", "horizon": 64}
EVENTS = tg.events(epsilon=1, bound=9, fixed=True, **CLOCK)
TIMES = np.array(["2024-02-01T00:30", "2024-02-01T01:30"], dtype="datetime64[m]")
LATER = "2024-02-01T06:00"
Entries = dict[str, Callable[[Any], Any]]
COMMON: Entries = {"snapshot": lambda one: one.snapshot(), "query": lambda one: one.query(0, 1)}
BY_KEY: Entries = {
    "push": lambda one: one.push(["a", "b"], [1, 2]),
    "end": lambda one: one.end("a"),
    "finish": lambda one: one.finish(),
    "snapshot": lambda one: one.snapshot(),
    "query": lambda one: one.query(0, 1, key="a"),
}
OF_EVENTS: Entries = {
    "push": lambda one: one.push(TIMES, [1, 2]),
    "advance": lambda one: one.advance(LATER),
    "finish": lambda one: one.finish(LATER),
    **COMMON,
}


def by_key(pipeline: Any, **settings: Any) -> Any:
    release = tg.keyed(pipeline, keys=["a", "b"], **settings).start(tg.seeded(1))
    release.push(["a", "b"] * 9, np.ones(18))
    return release


def of_events(stages: Any) -> Any:
    release = stages.start(tg.seeded(1))
    release.push(TIMES, [1, 2])
    release.advance("2024-02-01T03:00")
    return release


def events_by_key() -> Any:
    release = tg.keyed(EVENTS, keys=["a", "b"]).start(tg.seeded(1))
    release.push(["a", "b"], TIMES, [1, 2])
    release.advance("2024-02-01T03:00")
    return release


KINDS: dict[str, tuple[Callable[[], Any], Entries]] = {
    "keys": (lambda: by_key(PIPELINE), BY_KEY),
    "keys, one threshold": (lambda: by_key(PIPELINE, threshold="shared"), BY_KEY),
    "events": (lambda: of_events(EVENTS), OF_EVENTS),
    "means": (
        lambda: of_events(tg.event_means(1, 9, fixed=True, **CLOCK)),
        {
            "push": OF_EVENTS["push"],
            "advance": OF_EVENTS["advance"],
            "mean": lambda one: one.mean(0, 1),
            "snapshot": lambda one: one.sums.snapshot(),
        },
    ),
    "events by key": (
        events_by_key,
        {
            **BY_KEY,
            "push": lambda one: one.push(["a", "b"], TIMES, [1, 2]),
            "advance": lambda one: one.advance(LATER),
            "finish": lambda one: one.finish(LATER),
        },
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_of_every_kind_refuses_in_a_child(kind: str) -> None:
    make, entries = KINDS[kind]
    one = make()
    calls = [partial(entry, one) for entry in entries.values()]
    assert in_child(lambda: max(map(outcome, calls))) == REFUSED
    entries["push"](one)  # the parent goes on


@pytest.mark.parametrize("stored", [False, True])
def test_a_server_of_the_local_model_refuses_in_a_child(stored: bool, tmp_path: Path) -> None:
    server = Topl(**GIVEN).server(*([tmp_path / "server.db"] if stored else []))
    server.announcement("phone")
    entries = (
        lambda: server.announcement("phone"),
        lambda: server.announcement("other"),
        server.next_round,
        lambda: server.collect(b"{}"),
        lambda: server.collect_many([b"{}"]),
        lambda: server.query(0, 1),
    )
    assert in_child(lambda: max(outcome(entry) for entry in entries)) == REFUSED
    server.next_round()
    server.close()
