"""Events by key: every key has a row for every tick, and an event moves its own key alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.cli.invoking import run
from tests.laws.catalogue import bits
from tidegate.durable import transfer
from tidegate.durable.folder_lock import StateError
from tidegate.io import Batch
from tidegate.keyed import KeyedEventRelease
from tidegate.keyed.durable_folder import DurableKeyed
from tidegate.keyed.transfer import transfer_durably
from tidegate.ledger import CapExceeded
from tidegate.ownership import Ownership
from tidegate.run.event_release import EventRelease
from tidegate.timestamps import read_times

START = np.datetime64("2024-01-01T00:00", "s")
PIPELINE = tg.events(epsilon=2, bound=60, every="1h", start="2024-01-01", horizon=240)
SECRET = "Zebedee-77"  # a key that nobody declared


def log(count: int = 1500, days: int = 10, seed: int = 0) -> tuple[Any, Any, Any]:
    """Keys, times and values; some keys are not declared, one declared key has no event."""
    random = np.random.default_rng(seed)
    keys = random.choice(["a", "b", SECRET], count, p=[0.6, 0.3, 0.1])
    times = START + random.integers(0, days * 86400, count).astype("timedelta64[s]")
    return keys, times, random.exponential(9, count) - 1


def started(pipeline: tg.Pipeline = PIPELINE, seed: int = 5) -> KeyedEventRelease:
    release = tg.keyed(pipeline, keys=["a", "b", "none"]).start(tg.seeded(seed))
    assert isinstance(release, KeyedEventRelease)
    return release


@pytest.mark.parametrize("counting", [False, True])
def test_a_key_is_an_event_release_of_its_own(counting: bool) -> None:
    """Any order and split of the events, any steps of the clock, stops in between."""
    pipeline = PIPELINE
    if counting:
        pipeline = tg.events(epsilon=1, every="1h", start="2024-01-01", horizon=240)
    keys, times, values = log()
    order = np.random.default_rng(1).permutation(keys.size)
    release, specification = started(pipeline), tg.keyed(pipeline, keys=["a", "b", "none"])
    for part in np.array_split(order, 3):
        given = () if counting else (values[part],)
        release.push(keys[part], times[part], *given)
        release = specification.resume(release.snapshot())  # type: ignore[assignment]
    found = [release.advance(until) for until in ("2024-01-01T05:00", "2024-01-04", "2024-01-11")]
    release = specification.resume(release.snapshot(brief=True))  # type: ignore[assignment]
    assert len(release.advance("2024-01-11")) == 0
    for key in ("a", "b", "none"):
        epoch = tg.seeded(5).new_epoch().of_key(key)
        alone = EventRelease(pipeline, epoch, ownership=Ownership())
        mine = keys == key
        alone.push(times[mine], None if counting else values[mine])
        expected = alone.advance("2024-01-11")
        rows = [one.of(key) for one in found]
        assert bits(np.concatenate([one.values for one in rows])) == bits(expected.values)
        assert bits(np.concatenate([one.levels for one in rows])) == bits(expected.levels)
        assert np.concatenate([one.positions for one in rows]).tolist() == list(range(240))
        assert np.concatenate([one.times for one in rows]).tolist() == expected.times.tolist()


def test_an_event_more_changes_the_rows_of_its_key_and_nothing_else() -> None:
    keys, times, values = log()
    outs = []
    for more in (None, "a", SECRET):
        release = started()
        release.push(keys, times, values)
        if more is not None:
            release.push([more], ["2024-01-05T12:00"], [40])
        outs.append(release.advance("2024-01-11"))
    plain, moved, undeclared = outs
    for one in (moved, undeclared):
        assert one.codes.tolist() == plain.codes.tolist()
        assert one.positions.tolist() == plain.positions.tolist()
        assert one.times.tolist() == plain.times.tolist()
    assert bits(undeclared.values) == bits(plain.values)
    for key in ("b", "none"):
        assert bits(moved.of(key).values) == bits(plain.of(key).values)
    assert bits(moved.of("a").values) != bits(plain.of("a").values)
    # By time, then by key: an order that no event decides about.
    assert plain.codes.tolist() == [0, 1, 2] * 240


def test_what_comes_late_or_for_nobody_is_dropped_and_never_refused() -> None:
    release = started()
    release.push(["a"], ["2024-01-01T00:30"], [5])
    release.advance("2024-01-02")
    release.push(["a", "b", SECRET, None], ["2024-01-01T01:00"] * 4, [1, 2, 3, 4])
    assert (release.late, release.dropped) == (2, 2)
    release.end("b")
    release.push(["b", "a"], ["2024-01-03"] * 2, [1, 2])
    assert release.dropped == 3
    assert set(release.advance("2024-01-04").keys) == {"a", "none"}
    with pytest.raises(tg.InputError) as caught:
        release.push(["a", "a"], ["2024-01-05", "77 o'clock"], [1, 2])
    assert "77" not in str(caught.value)
    with pytest.raises(tg.InputError, match="2 values but 1 times"):
        release.push(["a"], ["2024-01-05"], [1, 2])


def test_keys_of_events_are_declared() -> None:
    with pytest.raises(tg.SettingError, match="every key gets a row for every tick"):
        tg.keyed(PIPELINE, keys_are_public=True)
    with pytest.raises(tg.SettingError, match="each key chooses its own"):
        tg.keyed(PIPELINE, keys=["a"], threshold="shared")
    promise = tg.keyed(PIPELINE, keys=["a"]).guarantee
    assert promise.epsilon == 2
    assert str(promise).startswith("ε = 2 per event that is added or removed of any key")
    assert "one event of one key" in promise.neighbours
    assert "how many rows" not in promise.public


def test_answers_add_up_over_keys_and_days() -> None:
    keys, times, values = log(6000)
    release = started(seed=6)
    release.push(keys, times, values)
    release.finish("2024-01-11")
    truth = values[keys == "a"].sum()
    answer = release.query(key="a", from_="2024-01-01", to="2024-01-11")
    assert abs(answer.estimate - truth) < 0.2 * truth
    nothing = release.query(key="none", from_="2024-01-03", to="2024-01-11")
    assert nothing.low == 0 < nothing.high  # no event counts below 0
    days = release.totals("1d")
    assert len(days) == 10
    total = release.query(from_="2024-01-01", to="2024-01-11")
    assert days.answers.estimate.sum() == pytest.approx(total.estimate)


# -- files -----------------------------------------------------------------------------------------


def written(folder: Path, count: int = 3000) -> list[Any]:
    keys, times, values = log(count)
    lines = [f"{t},{k},{v:.2f}" for k, t, v in zip(keys, times, values, strict=True)]
    (folder / "log.csv").write_text("at,zone,fare\n" + "\n".join(lines) + "\n")
    (folder / "zones.txt").write_text("a\nb\nnone\n")
    words = ["release", folder / "log.csv", "--by", "zone", "--keys", folder / "zones.txt"]
    words += ["--time", "at", "--every", "1h", "--start", "2024-01-01", "--epsilon", 2]
    return [*words, "-o", folder / "out.csv"]


def test_the_command_line_releases_events_by_key(tmp_path: Path) -> None:
    words = [*written(tmp_path), "--column", "fare", "--bound", 60, "--until", "2024-01-11"]
    result = run(*words)
    assert result.exit_code == 0, result.stderr
    assert "released 240 ticks of 3 keys" in result.stderr
    out = (tmp_path / "out.csv").read_text()
    facts = (tmp_path / "out.csv.meta.json").read_text()
    assert out.startswith("key,time,position,value,level\na,2024-01-01T00:00:00,0,")
    assert out.count("\n") == 1 + 3 * 240
    for text in (out, facts, result.stdout, result.stderr):
        assert SECRET not in text
    file = tg.open(tmp_path / "out.csv")
    keys, _, values = log(3000)
    truth, answer = values[keys == "b"].sum(), file.query(key="b")  # type: ignore[call-arg]
    assert abs(answer.estimate - truth) < 0.3 * truth
    for more, problem in (
        (["--keys-are-public"], "that a key has events is protected"),
        (["--shared-threshold"], "each key chooses its own"),
    ):
        assert problem in run(*words, *more, "--overwrite").stderr


def test_events_by_key_go_on_where_they_stopped(tmp_path: Path) -> None:
    words = [*written(tmp_path), "--count", "--state", tmp_path / "state"]
    for until, ticks in (("2024-01-03", 48), ("2024-01-11", 240), ("2024-01-11", 240)):
        result = run(*words, "--until", until)
        assert result.exit_code == 0, result.stderr
        assert (tmp_path / "out.csv").read_text().count("\n") == 1 + 3 * ticks
    keys, _, _ = log(3000)
    file = tg.open(tmp_path / "out.csv")
    answer = file.query(key="a", from_="2024-01-01", to="2024-01-11")  # type: ignore[call-arg]
    assert abs(answer.estimate - np.count_nonzero(keys == "a")) < 60
    assert SECRET.encode() not in (tmp_path / "out.csv.meta.json").read_bytes()


def test_a_new_epoch_of_keys_is_charged_and_costs_nothing_if_refused(tmp_path: Path) -> None:
    pipeline = tg.tops(epsilon=1, bound=40, holdout=20, horizon=64, fanout=4)
    specification = tg.keyed(pipeline, keys=["a", "b"], threshold="shared")

    def released(name: str, **given: Any) -> str:
        rows = Batch(np.arange(200.0) % 40, np.array(["a", "b"] * 100, dtype=object))
        given_rows = {"batches": lambda _: iter([rows]), "fraction": lambda _: None}
        source: Any = type("Once", (), given_rows)()
        with DurableKeyed.open(tmp_path / "state", specification, cap=2, **given) as state:
            transfer_durably(source, state, tmp_path / name)
            return state.release.epoch

    first = released("1.csv")
    assert released("1.csv") == first
    second = released("2.csv", new_epoch=True)
    assert second != first
    assert released("2.csv") == second
    noisy = [(tmp_path / name).read_text() for name in ("1.csv", "2.csv")]
    assert noisy[0] != noisy[1]
    with pytest.raises(CapExceeded):
        released("3.csv", new_epoch=True)
    assert released("2.csv") == second  # nothing was given up
    (tmp_path / "state" / "keys.sqlite").unlink()
    with pytest.raises(StateError, match="is lost, but its ledger"):
        released("3.csv")


def test_ticks_are_released_as_the_clock_goes_on(tmp_path: Path) -> None:
    """A followed log: rows come with the clock, not with events."""
    pipeline = tg.events(epsilon=1, every="1h", start="2024-01-01", horizon=240)
    shown: list[int] = []

    class Followed:
        def when_idle(self, call: Any) -> None:
            self.idle = call

        def batches(self) -> Any:
            yield Batch(np.ones(2), times=read_times(["2024-01-01T01:00", "2024-01-01T04:00"]))
            for _ in range(3):
                self.idle()
                shown.append((tmp_path / "out.csv").read_text().count("\n") - 1)
            yield Batch(np.ones(1), times=read_times(["2024-01-01T02:00"]))  # too late
            shown.append((tmp_path / "out.csv").read_text().count("\n") - 1)

    release = pipeline.start()
    hours = iter([3, 3, 5, 23])

    def until() -> str:
        return f"2024-01-01T{next(hours):02}:00"

    source: Any = Followed()
    transfer(source, release, tmp_path / "out.csv", until=until)
    assert shown == [3, 3, 5, 5]
    assert release.dropped == 1  # type: ignore[attr-defined]
    assert (tmp_path / "out.csv").read_text().count("\n") - 1 == 23


def test_follow_goes_with_now(tmp_path: Path) -> None:
    words = ["release", tmp_path / "log.csv", "--time", "at", "--every", "1h", "--count"]
    words += ["--epsilon", 1, "--start", "2024-01-01", "-o", tmp_path / "out.csv"]
    (tmp_path / "log.csv").write_text("at\n2024-01-01T00:10\n")
    for until in ("2024-01-02", "now-soon"):
        result = run(*words, "--follow", "--until", until)
        assert result.exit_code == 2
        assert "until" in result.stderr
    assert run(*words, "--until", "now-5min").exit_code == 0


def test_a_finished_stream_may_go_on() -> None:
    """What `finish` says: rows follow, with the θ that was chosen."""
    readings = tg.adaptive(epsilon=1, bound=50, horizon=2000)
    one, keyed = readings.start(tg.seeded(1)), tg.keyed(readings, keys=["a"]).start(tg.seeded(1))
    for _ in range(2):
        assert len(one.push(np.ones(30))) == len(keyed.push(["a"] * 30, np.ones(30)).values) == 30
        one.finish()
        keyed.finish()
    assert one.position == keyed.position == 60
    events = started()
    events.push(["a"], ["2024-01-01T00:10"], [2.0])
    assert len(events.finish("2024-01-01T05:00")) == 3 * 5
    events.push(["a", "a"], ["2024-01-01T07:10", "2024-01-01T01:00"], [2.0, 3.0])
    assert len(events.advance("2024-01-01T10:00")) == 3 * 5
