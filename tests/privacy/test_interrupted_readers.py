"""Whoever asks may be interrupted anywhere: nothing is lost, and nothing tells of a cut-short push.

Questions, snapshots and facts do not set the mark of a change. So what they bring up to date on
their way must be right after every line of them; and after a push that was cut short none of them
may show a threshold, a sum or a level that was never handed out: who resumes may push other values,
and both outcomes of the same coins together tell more than ε.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.depth import depth
from tests.interruptions import all_interruptions
from tests.local.settings import GIVEN
from tidegate.errors import TidegateError
from tidegate.local.announcements_and_reports import Report
from tidegate.local.server import Server
from tidegate.local.topl import Topl
from tidegate.record.segments.leaf_buffers import LeafBuffer

HOME = Path(tg.__file__).parent


def all_but(*followed: str) -> tuple[str, ...]:
    """Every module but these: an exception inside of one is an exception at its call."""
    modules = (str(path.relative_to(HOME)) for path in HOME.rglob("*.py"))
    return tuple(one for one in modules if one not in followed)


# -- what waits to be added up ---------------------------------------------------------------------

BUFFERS = ("record/segments/segment.py", "record/segments/leaf_buffers.py")
FIXED = tg.tops(epsilon=1, bound=9, holdout=2, horizon=16, fanout=2, skipped=1)
LONG = tg.tops(epsilon=1, bound=9, holdout=2, horizon=4096, fanout=2, skipped=1)
GUIDED = tg.adaptive(epsilon=8, bound=9, horizon=64)


def one_by_one(pipeline: tg.Pipeline, count: int) -> Callable[[], tg.Release]:
    begun = pipeline.start(tg.seeded(1))
    begun.push([3, 4, 5] * 20)
    state = begun.snapshot()

    def make() -> tg.Release:
        release = pipeline.resume(state)
        for value in range(count):
            release.push(value % 7)
        return release

    return make


ASKED: dict[str, Callable[[tg.Release], Any]] = {
    "query": lambda release: release.query(release.position - 9, release.position),
    "snapshot": tg.Release.snapshot,
    "record": lambda release: release.record,
    "html": tg.Release._repr_html_,
}


@pytest.mark.parametrize(
    ("pipeline", "count", "ask"),
    [
        *((FIXED, 30, ask) for ask in ASKED),
        *((LONG, 70, ask) for ask in ("query", "snapshot")),
        (GUIDED, 9, "snapshot"),
    ],
)
def test_leaves_of_single_values_are_neither_lost_nor_doubled(
    pipeline: tg.Pipeline, count: int, ask: str
) -> None:
    # Caught: a question that ended between clearing the list and adding to the arrays; all later
    # answers were about positions further on.
    make = one_by_one(pipeline, count)
    whole = make()
    expected = repr(whole.query(whole.position - 20, whole.position))
    events = 0
    for at, release in all_interruptions(make, ASKED[ask], pure=all_but(*BUFFERS)):
        assert repr(release.query(release.position - 20, release.position)) == expected, at
        events += 1
    assert events > 10


@pytest.mark.parametrize("most", [None, 3, 64])
@pytest.mark.parametrize("viewed", [False, True])
def test_a_buffer_takes_in_what_is_pending_whole(most: int | None, viewed: bool) -> None:
    """Every instruction; arrays that grow, that come round, that a view reads."""
    kept: list[Any] = []

    def make() -> list[LeafBuffer]:
        buffer = LeafBuffer(block=2, most=most)
        buffer.append(np.arange(60), np.ones(60))
        if viewed:
            kept.append((buffer.view(), [one.tolist() for one in buffer.columns()]))
        for number in range(7):
            buffer.append_later(number, 0.5)
        return [buffer]

    def take_in(holder: list[LeafBuffer]) -> None:
        holder[0] = holder[0].taken_in()

    def content(holder: list[LeafBuffer]) -> str:
        take_in(holder)
        found = holder[0]
        return repr((found.closed, found.oldest, [one.tolist() for one in found.columns()]))

    expected, events = content(make()), 0
    for at, holder in all_interruptions(make, take_in, bytecodes=(BUFFERS[1],)):
        assert content(holder) == expected, at
        events += 1
    assert events > 100
    for view, before in kept:
        assert [one.tolist() for one in view.columns()] == before


def test_reports_that_wait_are_added_up_whole_or_the_server_refuses() -> None:
    # Caught: a question that was cut short lost them, and so did the next state file.
    topl = Topl(**{**GIVEN, "report": "stochastic-rounding"})

    def make() -> Server:
        server = topl.server()
        facts: dict[str, Any] = {"round": server.round, "phase": "stream", "slot": 0}
        facts["epsilon"] = topl.epsilon
        server.collect_many(Report(client=f"c{at}", report=at % 2, **facts) for at in range(9))
        return server

    expected, refused = repr(make().query(0, 9)), 0
    followed = ("local/server.py", "local/server_collection.py", "local/running_sums.py")
    for at, server in all_interruptions(
        make, lambda server: server.query(0, 9), pure=all_but(*followed)
    ):
        try:
            assert repr(server.query(0, 9)) == expected, at
        except TidegateError:
            refused += 1
    assert refused > 3


# -- after a push that was cut short ---------------------------------------------------------------


FACTS = ("threshold", "floor", "level", "phases", "warming", "record", "save_record")
KEYED_FACTS = ("threshold", "released_keys", "unmeasured", "view")


def told(subject: Any, names: tuple[str, ...]) -> dict[str, str]:
    """What is said of each fact; of those that are refused, nothing."""
    found = {"repr": repr(subject), "html": subject._repr_html_()}
    for name in names:
        try:
            fact = getattr(subject, name)
            found[name] = repr(fact() if callable(fact) else fact)
        except TidegateError:
            continue
    return found


def chosen_by(pipeline: tg.Pipeline, values: list[float]) -> str:
    release = pipeline.start(tg.seeded(1))
    release.push(values)
    return f"{release.threshold:g}"


@pytest.mark.parametrize(
    "pipeline", [tg.tops(epsilon=1, bound=9, holdout=8, horizon=64), GUIDED], ids=["held", "warm"]
)
def test_no_fact_tells_of_a_push_that_was_cut_short(pipeline: tg.Pipeline) -> None:
    # Caught: the threshold, phases and repr of a choice whose values were never handed out.
    first = pipeline.start(tg.seeded(1))
    first.push([1] * 6)
    state, theta = first.snapshot(), chosen_by(pipeline, [1] * 30)
    before, refused = told(first, FACTS), 0
    for at, release in all_interruptions(
        lambda: pipeline.resume(state),
        lambda release: release.push([1] * 24),
        pure=all_but("run/release.py", "run/refinement_run.py", "run/threshold_phases.py"),
    ):
        after = told(release, FACTS)
        assert theta not in after["repr"] + after["html"], at
        for name in FACTS:
            assert after.get(name, before.get(name)) == before.get(name), (at, name)
        refused += "threshold" not in after
    assert refused > 10


@pytest.mark.parametrize("threshold", ["per key", "shared"])
def test_nor_does_a_fact_of_keys(threshold: str) -> None:
    pipeline = tg.tops(epsilon=1, bound=9, holdout=8, horizon=64)
    specification = tg.keyed(pipeline, keys=["a", "b"], threshold=threshold)
    first = specification.start(tg.seeded(1))
    first.push(["a", "b"] * 3, np.full(6, 3.0))
    state, before, refused = first.snapshot(), told(first, KEYED_FACTS[:3]), 0
    for at, release in all_interruptions(
        lambda: specification.resume(state),
        lambda release: release.push(["a", "b"] * 9, np.full(18, 3.0)),
        pure=all_but("keyed/keyed_release.py", "keyed/object_engine.py", "run/release.py"),
    ):
        after = told(release, KEYED_FACTS)
        for name in KEYED_FACTS[:3]:
            assert after.get(name, before[name]) == before[name], (at, name)
        refused += not set(KEYED_FACTS) & set(after)
    assert refused > 10


def test_a_record_that_somebody_holds_does_not_grow() -> None:
    # Caught: it was the one that pushes write to, whole or cut short, from any thread.
    for pipeline in (FIXED, GUIDED):
        release = pipeline.start(tg.seeded(1))
        release.push([3] * 40)
        record = release.record
        expected = record.end, repr(record.query(record.start, record.end))
        release.push([3] * 40)
        assert (record.end, repr(record.query(record.start, record.end))) == expected
        assert release.record.end > record.end
    keyed = tg.keyed(GUIDED, keys=["a"]).start(tg.seeded(1))
    keyed.push(["a"] * 40, [3] * 40)
    record = keyed.record("a")
    expected = record.end, repr(record.query(0, 40))
    keyed.push(["a"] * 90, [4] * 90)
    assert (record.end, repr(record.query(0, 40))) == expected


# -- methods that call others ----------------------------------------------------------------------

DAYS = np.datetime64("2024-01-01") + np.arange(6) * np.timedelta64(12, "h")
EVENTS = tg.events(epsilon=1, every="1d", start="2024-01-01", horizon=50)
BY_KEY = tg.keyed(EVENTS, keys=["a", "b"])
READINGS = tg.keyed(tg.tops(epsilon=1, bound=9, holdout=2, horizon=16), keys=["a", "b"])
WRAPPERS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "events, push": (EVENTS, lambda one: one.push(DAYS)),
    "events, rows": (EVENTS, lambda one: one.push_rows(np.ones(6), None, DAYS)),
    "events, advance": (EVENTS, lambda one: one.advance("2024-01-04")),
    "events, ticks": (EVENTS, lambda one: one.close_ticks(3)),
    "events, finish": (EVENTS, lambda one: one.finish("2024-01-04")),
    "events by key, push": (BY_KEY, lambda one: one.push(["a", "b"] * 3, DAYS)),
    "events by key, advance": (BY_KEY, lambda one: one.advance("2024-01-04")),
    "events by key, ticks": (BY_KEY, lambda one: one.close_ticks(3)),
    "events by key, finish": (BY_KEY, lambda one: one.finish("2024-01-04")),
    "readings by key, push": (READINGS, lambda one: one.push(["a", "b"] * 4, np.arange(8))),
}
GATES = (
    *(
        "run/release.py",
        "run/event_release.py",
        "keyed/keyed_release.py",
        "keyed/keyed_event_release.py",
    ),
    "ownership.py",
)


@pytest.mark.parametrize("name", WRAPPERS)
def test_what_is_done_but_not_handed_over_is_refused(name: str) -> None:
    # Caught: an exception between two methods of ours. The first was done, its rows were lost, and
    # nothing refused to take the same events again.
    pipeline, act = WRAPPERS[name]
    first = pipeline.start(tg.seeded(1))
    before = {EVENTS: (DAYS[:1],), BY_KEY: (["a"], DAYS[:1]), READINGS: (["a"], [1])}
    first.push(*before[pipeline])
    state = first.snapshot()
    whole = pipeline.resume(state)
    expected, refused, untouched = (repr(act(whole)), whole.snapshot()), 0, 0
    for at, subject in all_interruptions(lambda: pipeline.resume(state), act, pure=all_but(*GATES)):
        try:
            found = repr(act(subject))
        except TidegateError:
            refused += 1
        else:  # the first time took nothing
            assert (found, subject.snapshot()) == expected, at
            untouched += 1
    assert refused > depth(3, 10)
    assert untouched > depth(1, 3)
