"""Tables that are looked at: worked out ahead, with the bits of those that are asked for."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

import tidegate as tg
from tests.service.conftest import Place
from tidegate.service import answers_ahead
from tidegate.service.answers_ahead import AnswersAhead
from tidegate.service.answers_json import View, table_as_json, view_to_answer
from tidegate.service.pending_requests import PendingPush
from tidegate.timestamps import read_times

NAMES = ["north", "south", "west"]
ASKED: dict[str, Any] = {"every": "1h", "confidence": 0.95, "total": False}
TICKS = 1_704_067_200 + 900 * np.arange(96)


def hourly(view: View) -> dict[str, Any]:
    return table_as_json(view, ASKED)


def test_a_table_is_ready_once_its_stream_rests(tmp_path: Any) -> None:
    service = Place(tmp_path / "gate", None).opened()
    gate, now = service.gate, [0.0]
    ahead = AnswersAhead(gate, lambda: now[0])
    gate.listener = lambda group: ahead.released(group.rows)
    pipeline = tg.adaptive(epsilon=1, bound=100, horizon=96)
    keys = {"names": NAMES, "threshold": "per key"}
    for name in ("zones", "others"):
        gate.call(lambda name=name: gate.streams.create(name, pipeline, keys=keys)).result()

    def send(name: str, first: int, last: int) -> None:
        times = read_times(np.repeat(TICKS[first:last], len(NAMES)))
        values = np.random.default_rng(first).gamma(2, 10, len(times.ticks))
        one = PendingPush(name, values, times, keys=NAMES * (last - first))
        gate.submit(one)
        one.answer.result(60)

    def ready(name: str) -> bool:
        view = gate.ask(name, view_to_answer)
        segments = [segment for key in NAMES for segment in view.record(key).segments]
        return all(segment.answered is not None for segment in segments)

    send("zones", 0, 48)
    assert ahead.due() == "zones"  # though more may come: the first table of all
    asyncio.run(ahead.work("zones"))
    for name in ("zones", "others"):
        send(name, 48, 72)
    ahead.asked("zones", None, hourly)
    send("zones", 72, 96)
    assert ahead.due() is None  # more may come
    now[0] += 20
    assert (ahead.due(), ready("zones"), ready("others")) == ("zones", False, False)
    asyncio.run(ahead.work("zones"))
    assert (ready("zones"), ready("others")) == (True, False)
    before = hourly(gate.ask("zones", view_to_answer))
    service.gate.close()
    service = Place(tmp_path / "gate", None).opened()  # which has worked out nothing
    assert hourly(service.gate.ask("zones", view_to_answer)) == before
    service.gate.close()


def test_a_first_table_is_ready_where_keys_are_few(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(answers_ahead, "_FEW", 4)
    service = Place(tmp_path / "gate", None).opened()
    gate, now = service.gate, [0.0]
    ahead = AnswersAhead(gate, lambda: now[0])
    gate.listener = lambda group: ahead.released(group.rows)
    adaptive, fixed = tg.adaptive(epsilon=1, bound=100, horizon=96), tg.tops(1, 100, holdout=8)
    make = gate.streams.create
    for name, pipeline, names in (
        ("few", adaptive, ["a", "b"]),
        ("others", adaptive, ["a", "b", "c"]),  # would be five together
        ("open", adaptive, None),
        ("quick", fixed, ["a"]),  # answers at once
        ("many", adaptive, list("abcde")),
    ):
        keys = {"names": names, "threshold": "per key"}
        gate.call(lambda a=name, b=pipeline, c=keys: make(a, b, keys=c)).result()  # type: ignore[misc]
    gate.call(lambda: make("alone", adaptive)).result()

    def send(name: str, *keys: str, day: int = 0) -> None:
        times = read_times(np.repeat(TICKS + 86_400 * day, len(keys)))
        values = np.random.default_rng(5).gamma(2, 10, len(times.ticks))
        one = PendingPush(name, values, times, keys=[*keys] * TICKS.size or None)
        gate.submit(one)
        one.answer.result(60)

    def worked() -> list[str]:
        found = []
        now[0] += 100
        while (name := ahead.due()) is not None:
            found.append(name)
            asyncio.run(ahead.work(name))
            now[0] += 100
        return found

    send("few", "a", "b")
    assert worked() == ["few"]
    view = gate.ask("few", view_to_answer)
    assert all(one.answered for key in "ab" for one in view.record(key).segments)
    for name, keys in (("others", "abc"), ("many", "abcde"), ("quick", "a")):
        send(name, *keys)
        assert worked() == []
    send("open", *"abc")
    assert worked() == ["open"]  # how many keys have come is looked up first
    assert ahead._unasked == {"few": 2}
    send("few", "a", "b", day=1)
    assert worked() == ["few"]  # kept up to date
    service.gate.close()


def test_it_rests_forgets_and_survives(tmp_path: Any) -> None:
    service = Place(tmp_path / "gate", None).opened()
    now = [0.0]
    ahead = AnswersAhead(service.gate, lambda: now[0], lambda: now[0])

    def slow(view: View) -> None:
        now[0] += 3

    make = service.gate.streams.create
    service.gate.call(lambda: make("meters", tg.adaptive(epsilon=1, bound=9))).result()
    ahead.asked("meters", None, slow)
    ahead.released(["meters"])
    now[0] += 1
    asyncio.run(ahead.work("meters"))
    ahead.released(["meters"])
    now[0] += 11
    assert ahead.due() is None  # 3 seconds of work are a fifth of 15
    now[0] += 2
    assert ahead.due() == "meters"
    ahead.asked("gone", None, slow)
    ahead.released(["gone"])
    asyncio.run(ahead.work("gone"))  # there is no such stream: nobody is told, and it is forgotten
    now[0] += 3600
    assert ahead.due() is None  # nobody has looked for an hour
    for number in range(20):
        ahead.asked(f"stream {number}", None, slow)
    assert len(ahead._tables) == 8
    service.gate.close()


def test_a_service_that_starts_has_first_tables_ready(tmp_path: Any) -> None:
    place = Place(tmp_path / "gate", None)
    service = place.opened()
    gate = service.gate
    pipeline = tg.adaptive(epsilon=1, bound=100, horizon=96)
    keys = {"names": NAMES, "threshold": "per key"}
    for name in ("zones", "over"):
        gate.call(lambda name=name: gate.streams.create(name, pipeline, keys=keys)).result()
        times = read_times(np.repeat(TICKS, len(NAMES)))
        values = np.random.default_rng(7).gamma(2, 10, len(times.ticks))
        one = PendingPush(name, values, times, keys=NAMES * TICKS.size)
        gate.submit(one)
        one.answer.result(60)
    gate.call(lambda: gate.streams.retire("over")).result()
    gate.close()
    service = place.opened()
    loaded = service.gate.streams.loaded
    app = service.app()

    async def start() -> None:
        async with app.router.lifespan_context(app):
            assert (loaded("zones"), loaded("over")) == (True, False)
            view = service.gate.ask("zones", view_to_answer)
            assert all(one.answered for key in NAMES for one in view.record(key).segments)

    asyncio.run(start())


def test_a_start_waits_for_first_tables_but_not_for_long(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(answers_ahead, "_START", 0.01)
    service = Place(tmp_path / "gate", None).opened()
    ahead = AnswersAhead(service.gate)
    asyncio.run(asyncio.wait_for(ahead.ready(), 30))  # nothing is ever ready: it does not run
    service.gate.close()
