"""Devices ask and report over HTTP: sticky, once, late, again, on both databases."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import Place
from tidegate.durable import StorageError
from tidegate.local.announcements_and_reports import Report
from tidegate.local.client import Client
from tidegate.local.device_memory import Memory
from tidegate.local.task.task import LEASE
from tidegate.service.devices.answers_by_time import described_with_answers
from tidegate.service.devices.device_queue import DeviceQueue
from tidegate.service.devices.device_requests import (
    DeviceAsked,
    DeviceNotNow,
    DeviceQuestion,
    DeviceReports,
)
from tidegate.service.devices.task_routes import NewTask
from tidegate.service.service_process import Service

NOON = 1_763_380_800  # 2025-11-17T12:00Z
HOUR = 3600


@dataclass
class Time:
    """A clock that tests turn."""

    now: float = NOON

    def __call__(self) -> float:
        return self.now


class Fleet:
    """A task and its devices, at the queue of a service."""

    def __init__(self, place: Place, time: Time, **settings: Any) -> None:
        self.place, self.time = place, time
        self.service: Service = place.opened()
        self.queue = DeviceQueue(self.service.gate, time)
        new = {"name": "steps", "epsilon": "1", "bound": 100, "settings": {"threshold": 20}}
        self.facts = self.queue.create(NewTask(**{**new, **settings}).facts()).result()
        self.id = self.facts.task_id

    def reopened(self) -> None:
        """As after a crash: nothing is left but the database."""
        self.service.gate.close()
        self.service = self.place.opened()
        self.queue = DeviceQueue(self.service.gate, self.time)

    @property
    def round(self) -> str:
        return f"{self.id}.{self.facts.calendar.number(self.time())}"

    def ask(self, client: str, name: str | None = None) -> DeviceAsked | DeviceNotNow:
        question = DeviceQuestion(self.id, name or self.round, client)
        self.queue.submit(question)
        return question.answer.result(timeout=240)

    def send(self, *reports: Report | str) -> list[str]:
        request = DeviceReports(self.id, list(reports))
        self.queue.submit(request)
        return request.answer.result(timeout=240)

    def device(self) -> Client:
        return self.facts.topl.client(Memory.volatile(), lifetime=100)

    def answered(self, device: Client, value: float, event: str = "") -> Report:
        asked = self.ask(device.name_in(self.round))
        assert isinstance(asked, DeviceAsked), asked
        return device.answer(asked.text, value, event=event)


@pytest.fixture
def time() -> Time:
    return Time()


@contextmanager
def _fleet(place: Place, time: Time, **settings: Any) -> Iterator[Fleet]:
    made = Fleet(place, time, **settings)
    yield made
    made.service.gate.close()


@pytest.fixture
def fleet(place: Place, time: Time) -> Iterator[Fleet]:
    with _fleet(place, time) as made:
        yield made


def test_a_device_is_asked_the_same_until_its_round_is_over(fleet: Fleet, time: Time) -> None:
    device = fleet.device()
    report = fleet.answered(device, 7)
    first = fleet.ask(device.name_in(fleet.round))
    fleet.reopened()
    assert fleet.ask(device.name_in(fleet.round)) == first
    assert fleet.answered(device, 99) == report  # the pinned one: the announcement is the same
    assert fleet.send(report) == ["accepted"]
    assert fleet.send(report, report) == ["duplicate", "duplicate"]
    fleet.reopened()
    assert fleet.send(report) == ["duplicate"]
    name = report.round
    time.now += 13 * HOUR  # the round has closed: who was asked is told the same, nobody else is
    assert fleet.ask(device.name_in(name), name) == first
    with pytest.raises(Exception, match="ask which one is"):
        fleet.ask("somebody", name)
    assert len(device.ledger) == 1


def test_late_reports_count_for_their_own_round_until_grace_ends(fleet: Fleet, time: Time) -> None:
    devices = [fleet.device() for _ in range(3)]
    reports = [fleet.answered(device, 7) for device in devices]
    assert fleet.send(reports[0]) == ["accepted"]
    time.now += 12 * HOUR + HOUR  # an hour after midnight
    number = fleet.facts.calendar.number(NOON)
    assert fleet.send(reports[1]) == ["accepted"]
    fleet.answered(devices[0], 8, event="next")
    from tidegate.service.devices import stored_tasks

    def counted() -> list[tuple[int, int]]:
        with fleet.service.gate.database.reading() as connection:
            found = stored_tasks.task_rounds_between(connection, fleet.facts.task, 0)
        return [(one.number, one.reports) for one in found]

    assert counted() == [(number, 2), (number + 1, 0)]
    time.now += 5 * HOUR  # six hours are over
    assert fleet.send(reports[2]) == ["late"]
    assert fleet.send(reports[0]) == ["late"]
    fleet.reopened()
    assert fleet.send(reports[2]) == ["late"]
    assert counted() == [(number, 2), (number + 1, 0)]


def test_a_clock_that_was_wrong_for_a_moment_loses_no_report(fleet: Fleet, time: Time) -> None:
    """It jumped to another day, and rounds were dropped; put back, it found an empty round."""
    right = time.now
    reports = [fleet.answered(fleet.device(), 7) for _ in range(5)]
    assert fleet.send(*reports[:4]) == ["accepted"] * 4
    time.now += 3 * 24 * HOUR
    fleet.ask("somebody")  # the round of noon takes no more reports now
    assert fleet.send(reports[4]) == ["late"]
    time.now = right
    fleet.ask("another")
    described = described_with_answers(fleet.queue, fleet.id)
    assert described["reports"] == 4
    fleet.reopened()
    assert described_with_answers(fleet.queue, fleet.id)["reports"] == 4


def test_every_report_is_told_what_became_of_it(fleet: Fleet) -> None:
    device, other = fleet.device(), fleet.device()
    good = fleet.answered(device, 7)
    plain = good.plain()
    fleet.ask(other.name_in(fleet.round))

    def wrong(**fields: Any) -> Report:
        return Report.from_json(json.dumps({**plain, **fields}))

    number = int(good.round.rpartition(".")[2])
    cases = {
        "round": [wrong(round="x"), wrong(round=f"{fleet.id}.{number + 1}")],
        "late": [wrong(round=f"{fleet.id}.{number - 1}")],
        "slot": [wrong(slot=good.slot + 1)],
        "domain": [wrong(report=10_000)],
        "phase": [wrong(phase="threshold")],
        "epsilon": [wrong(epsilon="1/2")],
        "assignment": [wrong(client="never-asked")],
        "malformed": ["malformed"],
    }
    given: list[Report | str] = [one for some in cases.values() for one in some]
    expected = [reason for reason, some in cases.items() for _ in some]
    assert fleet.send(*given, good, good) == [*expected, "accepted", "duplicate"]
    huge = wrong(round=f"{fleet.id}.{'9' * 18}")
    assert fleet.send(huge, wrong(round=f"{fleet.id}.{'9' * 40}")) == ["round", "round"]


def test_no_more_are_asked_than_may_answer(place: Place, time: Time) -> None:
    """The first survey wants so many answers; who is silent is replaced, and still taken later."""
    settings = {"settings": {"holdout": 100, "horizon": 512}}
    with _fleet(place, time, **settings) as fleet:
        wanted = 20  # of the first of five parts
        devices = [fleet.device() for _ in range(wanted)]
        reports = [fleet.answered(device, 7) for device in devices]
        late = fleet.device()
        full = fleet.ask(late.name_in(fleet.round))
        assert isinstance(full, DeviceNotNow)
        assert 0 < full.seconds <= LEASE + 1
        silent, quick = reports[:5], reports[5:]
        assert set(fleet.send(*quick)) == {"accepted"}
        assert isinstance(fleet.ask(late.name_in(fleet.round)), DeviceNotNow)
        time.now += LEASE
        others = [fleet.answered(fleet.device(), 7) for _ in silent]  # in their place
        assert isinstance(fleet.ask("one-more"), DeviceNotNow)
        fleet.reopened()
        assert set(fleet.send(*others)) == {"accepted"}
        second = fleet.answered(late, 7)  # other questions are open now
        assert second.slot >= max(one.slot for one in reports)
        assert set(fleet.send(*silent, second)) == {"accepted"}


def test_a_crowd_chooses_a_threshold_and_is_summed_up_by_day(place: Place, time: Time) -> None:
    survey = {"holdout": 100, "horizon": 512, "keep_asking": False}
    settings = {"epsilon": "4", "settings": {**survey, "report": "stochastic-rounding"}}
    with _fleet(place, time, **settings) as fleet:
        days, size, values = 2, 180, [float(7 + 3 * (one % 5)) for one in range(180)]
        for day in range(days):
            for start in range(0, size, 20):
                some = [(fleet.device(), value) for value in values[start : start + 20]]
                reports = [fleet.answered(device, value) for device, value in some]
                assert set(fleet.send(*reports)) == {"accepted"}
                if start == 100 + 20 * day:
                    fleet.reopened()
            time.now += 24 * HOUR
        from tidegate.service.devices.answers_by_time import answers_by_time

        asked = {"confidence": str(1 - 1e-9), "population": "1000"}
        answer = answers_by_time(fleet.queue, fleet.id, asked)
        assert [(row["from"][:10], row["devices"]) for row in answer["rows"]] == [
            ("2025-11-17", size),
            ("2025-11-18", size),
        ]
        cut = [min(value, answer["threshold"]) for value in values]
        for row in answer["rows"]:
            assert row["sum"]["low"] < sum(cut) < row["sum"]["high"]
            assert row["mean"]["estimate"] == pytest.approx(row["sum"]["estimate"] / size)
            total = row["population_total"]
            assert total["low"] < sum(cut) / size * 1000 < total["high"]
            assert total["estimate"] == pytest.approx(1000 / size * row["sum"]["estimate"])
        assert answer["rows"][0]["reports"] < answer["rows"][1]["reports"] == size
        both = answers_by_time(fleet.queue, fleet.id, {"every": "2d", "from": "2025-11-17"})["rows"]
        assert [row["devices"] for row in both] == [2 * size]
        one = answers_by_time(fleet.queue, fleet.id, {"from": "2025-11-18", "to": "2025-11-19"})[
            "rows"
        ]
        assert one[0]["sum"]["estimate"] == answer["rows"][1]["sum"]["estimate"]
        for wrong in ({"from": "2025-11-18T01:00"}, {"every": "36h"}, {"population": "9"}):
            with pytest.raises(Exception, match=r"must be|cannot be"):
                answers_by_time(fleet.queue, fleet.id, wrong)


def test_what_is_not_committed_was_not_handed_out_or_taken(
    tmp_path: Path, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _fleet(Place(tmp_path / "gate", None), time) as fleet:
        device = fleet.device()
        report = fleet.answered(device, 7)
        database = fleet.service.gate.database
        from sqlalchemy.exc import OperationalError

        def failing(*_: Any) -> None:
            raise OperationalError("", {}, Exception("disk full"))

        with monkeypatch.context() as patch:
            patch.setattr(database, "_counted", failing)
            with pytest.raises(StorageError):
                fleet.send(report)
            with pytest.raises(StorageError):
                fleet.ask("another")
        assert fleet.send(report) == ["accepted"]
        with database.reading() as connection:
            rows = connection.exec_driver_sql("SELECT count(*) FROM tidegate_task_devices")
            assert rows.scalar() == 1


def test_many_threads_at_the_desk(place: Place, time: Time) -> None:
    with _fleet(place, time) as fleet:
        outcomes: list[str] = []

        def work() -> None:
            for _ in range(10):
                report = fleet.answered(fleet.device(), 7)
                outcomes.extend(fleet.send(report, report))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["accepted"] * 80 + ["duplicate"] * 80


def test_a_retired_task_asks_nobody_and_takes_what_was_asked(fleet: Fleet) -> None:
    report = fleet.answered(fleet.device(), 7)
    assert fleet.queue.retire(fleet.id).result().retired is not None
    with pytest.raises(Exception, match="was retired"):
        fleet.ask("another")
    assert fleet.send(report) == ["accepted"]


def test_the_database_holds_no_names_of_devices(tmp_path: Path, time: Time) -> None:
    with _fleet(Place(tmp_path / "gate", None), time) as fleet:
        report = fleet.answered(fleet.device(), 7)
        assert fleet.send(report) == ["accepted"]
        fleet.reopened()
    content = b"".join(path.read_bytes() for path in (tmp_path / "gate").iterdir())
    assert report.client.encode() not in content
    assert bytes.fromhex(report.client) not in content
