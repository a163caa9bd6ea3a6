"""The client's streams of each kind: verbs, argument order and results of the library's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tidegate as tg
from tests.service.conftest import Place, served
from tests.service.test_client import tokens
from tidegate.keyed import keyed
from tidegate.service.service_process import Service

START = pd.Timestamp("2024-01-01")
MINUTES = pd.date_range(START, periods=1_200, freq="min", tz="UTC")
VALUES = tg.synthetic.baskets(1_200)
KEYS = ["north", "south"]
SETTINGS: dict[str, Any] = {"epsilon": 1, "bound": 500, "horizon": 2_048}
CLOCK: dict[str, Any] = {"every": "15min", "start": "2024-01-01T00:00Z"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str, Any]]:
    service = Place(tmp_path_factory.mktemp("kinds") / "gate", None).opened()
    with served(service) as address:
        made = tokens(service, "admin", "producer", "reader")
        with tg.connect(address, *made) as gate:
            yield service, address, gate


def test_event_streams(running: tuple[Service, str, Any]) -> None:
    gate = running[2]
    there = gate.create("log", **{**SETTINGS, "horizon": 512}, events=CLOCK)
    here = tg.events(1, 500, horizon=512, **CLOCK).start()
    for one in (there, here):
        assert one.push(MINUTES, VALUES) is None
        rows = one.advance("2024-01-01T20:00Z")
        assert (rows.first, rows.values.size, one.position) == (0, 80, 80)
        answer = one.query("2024-01-01T10:00Z", "2024-01-01T20:00Z")
        assert answer.low < VALUES[600:].sum() < answer.high
        assert len(one.table("1h")) == 20
        assert one.advance("2024-01-01T20:30Z").values.size == 2
        assert one.finish(until="2024-01-01T21:00Z").values.size == 2
        for wrong in ((VALUES, MINUTES), (MINUTES, MINUTES), (VALUES,)):
            with pytest.raises(tg.InputError, match=r"write push\(times, values\)"):
                one.push(*wrong)
        with pytest.raises(tg.InputError, match="this stream sums the values of events"):
            one.push(MINUTES)
    counting = gate.create("number", epsilon=1, events={**CLOCK, "count": True}, horizon=512)
    counting.push(MINUTES)
    with pytest.raises(tg.InputError, match="this stream counts events"):
        counting.push(MINUTES, VALUES)
    counting.advance("2024-01-01T20:00Z")
    found = counting.query(40, 80)
    assert found.low < 600 < found.high


def test_keyed_readings(running: tuple[Service, str, Any]) -> None:
    there = running[2].create("zones", **SETTINGS, keys=KEYS)
    here = keyed(tg.adaptive(**SETTINGS), keys=KEYS).start()
    names, times = np.array(KEYS * 600), np.repeat(MINUTES[:600], 2)
    for one in (there, here):
        rows = one.push(names, VALUES, times)
        assert rows.keys.tolist() == names.tolist()
        np.testing.assert_array_equal(rows.of("south").positions, np.arange(600))
        np.testing.assert_array_equal(
            rows.times, times.tz_localize(None).to_numpy().astype("M8[ns]").astype(np.int64)
        )
        assert set(rows.to_pandas().columns) == {"key", "time", "position", "value", "level"}
        north, south = (one.query(0, 600, key=key).estimate for key in KEYS)
        assert one.query().estimate == pytest.approx(north + south)
        assert one.query("2024-01-01", "2024-01-02", key="north").estimate == pytest.approx(north)
        assert one.query(from_="2024-01-01", key="north").end == 600
        hours = one.table("1h")
        assert list(hours.parts) == KEYS
        assert hours["north"].answers.estimate.sum() == pytest.approx(north)
        np.testing.assert_array_equal(one.table("1h", key="north").rows, [60] * 10)
        whole = one.table("1h", total=True)
        np.testing.assert_array_equal(whole.rows, [120] * 10)
        assert repr(whole) == repr(one.totals("1h"))
        assert len(one.table(300)["south"]) == len(one.table(300, key="south")) == 2
        hourly = one.moving("1h", key="north")
        assert hourly.rows.tolist() == [60] * len(hourly)
        np.testing.assert_array_equal(hourly.answers.estimate[::4], hours["north"].answers.estimate)
        assert len(one.moving(300, key="south", every=100)) == 4
        assert one.keys == KEYS
        with pytest.raises(tg.InputError, match=r"write push\(keys, values, times\)"):
            one.push(names, times, VALUES)
        with pytest.raises(tg.InputError, match="1200 values but 3 keys"):
            one.push(["north"] * 3, VALUES, times)
        with pytest.raises(tg.QueryError, match="give key="):
            one.table("1h", key="north", total=True)
        with pytest.raises(tg.QueryError, match="total needs a length of time"):
            one.table(10, total=True)
        with pytest.raises(tg.QueryError, match="give key="):
            one.query(0, 10, key="north", keys=["south"])
        with pytest.raises(tg.SettingError, match="until: is for event streams"):
            one.close_ticks(1) if one is here else one.advance("2024-01-02")


def test_keyed_events(running: tuple[Service, str, Any]) -> None:
    settings = {**SETTINGS, "horizon": 256}
    there = running[2].create("stations", **settings, keys=KEYS, events=CLOCK)
    here = keyed(tg.events(1, 500, horizon=256, **CLOCK), keys=KEYS).start()
    for one in (there, here):
        assert one.push(KEYS * 600, MINUTES, VALUES) is None
        rows = one.advance(pd.Timestamp("2024-01-01T20:00Z"))
        assert (len(rows), one.position) == (160, 160)
        assert rows.keys[:2].tolist() == KEYS
        answer = one.query(from_="2024-01-01T10:00Z", key="north")
        assert answer.low < VALUES[600::2].sum() < answer.high
        assert len(one.finish("2024-01-01T20:15Z")) == 2
        for wrong in ((VALUES, MINUTES), (MINUTES, MINUTES)):
            with pytest.raises(tg.InputError, match=r"write push\(keys, times, values\)"):
                one.push(KEYS * 600, *wrong)
        with pytest.raises(tg.InputError, match="this stream sums the values of events"):
            one.push(KEYS * 600, MINUTES)


def test_readings_give_what_was_given(running: tuple[Service, str, Any]) -> None:
    there = running[2].create("shapes", **SETTINGS)
    for one in (there, tg.adaptive(**SETTINGS).start()):
        series = pd.Series([1.0, None, 3.0], index=[7, 8, 9], name="load")
        released = one.push(series, times=MINUTES[:3])
        assert (released.name, list(released.index)) == ("load", [7, 8, 9])
        assert isinstance(one.push(2, times=MINUTES[3]), float)
        assert one.push([], times=[]).size == 0
        rows = one.push_rows([1, 2], times=MINUTES[4:6])
        assert (rows.first, rows.levels.size) == (4, 2)
        assert one.seen == 6
        for wrong in ("1", ["1", "0"], ["a"], (n for n in (1, 2)), [[1], [2]], object()):
            with pytest.raises(tg.InputError):
                one.push(wrong, times=MINUTES[6:8])
        with pytest.raises(tg.InputError, match=r"write push\(values, times=times\)"):
            one.push(MINUTES)
        with pytest.raises(tg.SettingError, match="until: is for event streams"):
            one.advance("2024-01-02")
    with pytest.raises(tg.SettingError, match="users: must be left out"):
        there.push([1], ["anna"], MINUTES[6:7])
    with pytest.raises(tg.SettingError, match="late: must be left out"):
        there.push([1], times=MINUTES[6:7], late="keep")


def test_days_are_those_of_the_zone_of_the_times(running: tuple[Service, str, Any]) -> None:
    there = running[2].create("local", **SETTINGS)
    hours = pd.date_range("2024-01-01T12:00", periods=100, freq="h", tz="Europe/Berlin")
    for one in (there, tg.adaptive(**SETTINGS).start()):
        one.push(VALUES[:100], times=hours)
        one.finish()
        days = one.table("1d")
        assert (days.zone, days.rows.tolist()) == ("Europe/Berlin", [12, 24, 24, 24, 16])


def test_pushes_of_others_do_not_get_into_the_answer(running: tuple[Service, str, Any]) -> None:
    there = running[2].create("held", epsilon=1, bound=500, method="tops", holdout=1_000)
    assert there.push(VALUES[:700]).size == 0
    assert (there.holding, there.push(VALUES[700:]).size) == (300, 200)
    rows = there.push_rows([5, 6])
    assert (rows.first, rows.values.size) == (200, 2)


def test_a_producer_pushes_and_is_told_nothing(running: tuple[Service, str, Any]) -> None:
    service, address, gate = running
    gate.create("blind", **SETTINGS, events=CLOCK)
    with tg.connect(address, *tokens(service, "producer")) as producer:
        log = producer["blind"]
        assert log.push(MINUTES[:9], VALUES[:9]) is None
        assert log.advance("2024-01-01T01:00Z") is None
        with pytest.raises(tg.RefusedError, match="that may read: give one of the role reader"):
            log.query(0, 4)
        assert "not shown" in log._repr_html_()
    assert gate["blind"].position == 4


def test_a_gate_is_a_collection_of_streams(running: tuple[Service, str, Any]) -> None:
    gate = running[2]
    gate.create("listed", **SETTINGS)
    assert "listed" in list(gate)
    assert "listed" in gate
    assert ("nowhere" in gate, 7 in gate) == (False, False)
    assert len(gate) == len(list(gate))
    with pytest.raises(tg.SettingError, match="name: must be text"):
        _ = gate[0]
    with pytest.raises(tg.SettingError, match="permission: must be one of read, write"):
        gate.token("producer")


def test_a_stream_is_shown(running: tuple[Service, str, Any]) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    there = running[2].create("shown", **SETTINGS)
    assert "warming up for" in there._repr_html_()
    there.push(VALUES, times=MINUTES)
    shown = there._repr_html_()
    assert "<svg" in shown
    assert "2024-01-01T19:59" in shown
    mean, whole = there.mean("2024-01-01", "2024-01-02"), there.query("2024-01-01", "2024-01-02")
    assert (mean.rows, mean.low) == (1_200, whole.low / 1_200)
    assert str(mean).startswith(f"mean of 1,200 rows: {whole.estimate / 1_200:.6g} (95%: ")
    axes = there.plot(window=100)
    assert [line.get_label() for line in axes.lines] == ["level", "moving average of 100 values"]
    assert axes.get_xlabel() == "time (UTC)"
    matplotlib.pyplot.close(axes.figure)
    keys = running[2].create("shown-keys", **SETTINGS, method="flat", holdout=0, keys=[*KEYS, "x"])
    keys.push(KEYS * 100, VALUES[:200], np.repeat(MINUTES[:100], 2))
    axes = keys.plot(window=20)
    assert [line.get_label() for line in axes.lines] == KEYS
    assert axes.get_xlabel() == "time (UTC)"
    matplotlib.pyplot.close(axes.figure)
    assert len(keys.rows(key="south")) == keys.mean(key="south").rows == 100
    assert "keyed readings" in keys._repr_html_()
