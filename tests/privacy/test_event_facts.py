"""An event more or less changes sums, through noise, and nothing else that anybody can see.

Not how times are written, not what is refused, not the words of a refusal, not what a producer is
told by a service.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.cli.invoking import run
from tests.service.test_http import Clients, http
from tidegate.durable import DurableRelease
from tidegate.errors import TidegateError
from tidegate.io import input_file_or_pipe

__all__ = ["http"]  # a fixture

PIPELINE = tg.events(1, 20, every="1h", start="2024-01-01T00:00Z", horizon=64)
KEYED = tg.keyed(PIPELINE, keys=["a"])
FORMS: dict[str, Any] = {
    "numbers": lambda count: tg.read_times([1_704_067_200] * count),
    "another zone": lambda count: ["2024-01-01T01:00:00+01:00"] * count,
    "numpy": lambda count: tg.read_times(
        np.full(count, "2024-01-01", dtype="datetime64[s]"), zone="Europe/Berlin"
    ),
}


def push(release: Any, times: Any, values: Any) -> None:
    if isinstance(release, DurableRelease):
        release.push_rows(values, None, times)
    elif hasattr(release, "released_keys"):
        release.push(["a"] * len(values), times, values)
    else:
        release.push(times, values)


@contextmanager
def started(kind: str, folder: Path) -> Iterator[Any]:
    if kind == "durable":
        folder.mkdir(exist_ok=True)
        with DurableRelease.open(folder / "state", PIPELINE) as release:
            yield release
    else:
        yield KEYED.start() if kind == "keyed" else PIPELINE.start()


@pytest.mark.parametrize("kind", ["memory", "keyed", "durable"])
@pytest.mark.parametrize("form", FORMS)
def test_how_times_are_written_follows_from_the_settings(
    kind: str, form: str, tmp_path: Path
) -> None:
    # Caught: the first event decided. One event, and every row of the output looked different.
    with started(kind, tmp_path) as release:
        expected = release.clock
        assert expected == PIPELINE.ticks.clock  # type: ignore[union-attr]
        push(release, FORMS[form](3), [1, 2, 3])
        assert release.clock == expected
        rows = release.advance("2024-01-01T05:00Z")
        assert release.clock == expected
    assert expected.texts(rows.times)[1] == "2024-01-01T01:00:00Z"


UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
WRITTEN: dict[str, Callable[[list[int]], Any]] = {
    "texts": lambda numbers: [str(one) for one in numbers],
    "other lengths": lambda numbers: [
        f"{one:019}" if at % 3 else str(one) for at, one in enumerate(numbers)
    ],
    "decimals": lambda numbers: [f"{one}.25" for one in numbers],
    "whole": lambda numbers: numbers,
    "floats": lambda numbers: [float(one) for one in numbers],
    "array": np.array,
}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("form", WRITTEN)
def test_a_number_is_the_time_that_it_is_by_itself(form: str, unit: str) -> None:
    """Caught: the first event decided whether all others are seconds, ms, µs or ns.

    In a log of seconds, one event at 10¹¹ (ms: 1973) put all others into January 1970.
    """
    moments = [(1_704_067_200 + 97 * at) * UNITS[unit] for at in range(40)]
    ticks = PIPELINE.ticks
    assert ticks is not None
    alone = [
        int(ticks.read(tg.read_times(WRITTEN[form]([one]), by_order=False)).ticks[0])
        for one in moments
    ]
    assert ticks.places(np.array(alone)).tolist() == [97 * at // 3600 for at in range(40)]
    for other in (1_704_067_200 * factor + 7 for factor in UNITS.values()):
        for numbers in ([other, *moments], [*moments, other]):
            found = ticks.read(tg.read_times(WRITTEN[form](numbers), by_order=False)).ticks.tolist()
            assert [one for one in alone if one not in found] == []
            if form not in ("array", "floats"):
                texts = [str(one) for one in WRITTEN[form](numbers)]
                assert ticks.read(texts).ticks.tolist() == found


def test_one_event_of_another_unit_moves_no_other_in_a_file(tmp_path: Path) -> None:
    """The command line carried the unit of the first event through the whole file."""
    log = "".join(f"{1_704_067_200 + 60 * at},1\n" for at in range(300))
    sums = []
    for name, first in (("without", ""), ("with", "100000000000,1\n")):
        source, output = tmp_path / f"{name}.csv", tmp_path / f"{name}.out.csv"
        source.write_text(f"ts,v\n{first}{log}")
        ticks = ("--every", "1h", "--start", "2024-01-01T00:00Z", "--until", "2024-01-01T05:00Z")
        result = run(
            "release", source, "-o", output, "--count", "--time", "ts", "--epsilon", 20, *ticks
        )
        assert result.exit_code == 0, result.stderr
        sums.append(tg.open(output).query().estimate)
    assert sums == [pytest.approx(300, abs=15)] * 2


def test_the_output_of_a_log_with_an_event_looks_like_that_of_one_without(tmp_path: Path) -> None:
    found = []
    for name, log in (("none", ""), ("one", "1704067300,1\n")):
        source, output = tmp_path / f"{name}.csv", tmp_path / f"{name}.out.csv"
        source.write_text(f"ts,v\n{log}")
        ticks = ("--every", "1h", "--start", "2024-01-01T00:00Z", "--until", "2024-01-02T00:00Z")
        how = ("--column", "v", "--time", "ts", "--epsilon", "1", "--bound", "9", *ticks)
        assert run("release", source, "-o", output, *how).exit_code == 0
        facts = json.loads(output.with_name(f"{name}.out.csv.meta.json").read_text())
        times = [line.split(",")[0] for line in output.read_text().splitlines()]
        found.append((times, facts["time"], sorted(facts)))
    assert found[0] == found[1]


WRONG: dict[str, tuple[Any, Any]] = {
    "no time": (["never"], [1]),
    "no zone": (["2024-01-01T00:00"], [1]),
    "no number": (["2024-01-01T00:00Z"], ["x"]),
    "too few": (["2024-01-01T00:00Z"] * 2, [1]),
    "numbers for times": ([3], [1]),
    "times for values": (["2024-01-01T00:00Z"], [np.datetime64("2024-01-01")]),
    "nothing missing": ([None], [1]),
}


def refusal(action: Callable[[], Any]) -> str:
    try:
        action()
    except TidegateError as error:
        return str(error)
    return "taken"


@pytest.mark.parametrize("kind", ["memory", "keyed", "durable"])
def test_a_refusal_tells_nothing_of_events_before(kind: str, tmp_path: Path) -> None:
    # Caught: positions counted all events, and a message said that there had been some.
    words = []
    for count in (0, 137):
        said = {}
        with started(kind, tmp_path / str(count)) as release:
            if count:
                push(release, FORMS["numbers"](count), [1] * count)
            for name, wrong in WRONG.items():
                said[name] = refusal(partial(push, release, *wrong))
        words.append(said)
    assert words[0] == words[1]
    assert sum(one != "taken" for one in words[0].values()) > 4


@pytest.mark.parametrize("keys", [None, {"names": ["a"], "threshold": "per key"}])
def test_a_producer_is_not_told_how_many_events_others_sent(http: Clients, keys: Any) -> None:
    # Caught: the answer to a key that was used before had their number.
    streams = http.service.gate.streams
    http.service.gate.call(lambda: streams.create("calls", PIPELINE, keys=keys)).result()

    def send(count: int, key: str, form: str = "2024-01-01T00:00:01Z") -> Any:
        body: dict[str, Any] = {"times": [form] * count, "values": [1.0] * count}
        body |= {} if keys is None else {"keys": ["a"] * count}
        return http(
            "producer",
            "POST",
            "/v1/streams/calls/values",
            json=body,
            headers={"Idempotency-Key": key},
        )

    answers = []
    for number, count in enumerate((1, 4321)):
        assert send(count, f"first {number}").status_code == 202
        other = send(1 + number, f"first {number}")
        assert other.status_code == (200 if number == 0 else 409)
        conflict = send(7, f"first {number}")
        assert conflict.status_code == 409
        answers.append((conflict.json(), send(1, f"bad {number}", "never").json()))
    assert answers[0] == answers[1]
    assert "seen" not in answers[0][0]


def test_when_ticks_are_closed_follows_from_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Caught: a followed file was looked at more often after an event, and rows came out sooner.

    And as long as every look found events, no tick was closed at all.
    """
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += max(seconds, 1e-6)

    monkeypatch.setattr(input_file_or_pipe.time, "monotonic", lambda: now)
    monkeypatch.setattr(input_file_or_pipe.time, "sleep", sleep)

    def closed(arrivals: list[float], before: int = 0) -> tuple[list[float], list[int]]:
        """When ticks are closed, and how many events were taken by then."""
        nonlocal now
        now, waiting = 0.0, list(arrivals)
        moments: list[float] = []
        taken: list[int] = []
        path = tmp_path / "log.csv"
        path.write_bytes(b"1\n" * before)
        source, events = input_file_or_pipe.InputBytes(path, follow=True), 0
        read_once = source._read_once

        def read(count: int) -> bytes:
            with path.open("ab") as log:
                while waiting and waiting[0] <= now:
                    log.write(b"1\n")
                    del waiting[0]
            return read_once(2)  # an event a look

        def idle() -> None:
            moments.append(round(now, 2))
            taken.append(events)
            if now > 2:
                source.close()

        monkeypatch.setattr(source, "_read_once", read)
        source.idle = idle
        while source.read_packed(100):
            events += 1
            sleep(0.0005)  # what it takes to push it
        return moments, taken

    without, _ = closed([])
    assert without == [0.25 * step for step in range(12)][: len(without)]
    assert len(without) > 8
    assert closed([0.71])[0] == without
    assert closed([0.5, 0.59, 0.93, 1.39])[0] == without
    crowded, taken = closed([0.0006 * step for step in range(3000)])  # one at every look
    assert crowded == pytest.approx(without, abs=0.03)  # what it takes to push them
    assert taken[5] > 1500
    _, taken = closed([], before=2000)  # what is there at the beginning is read before
    assert taken[0] == 2000
