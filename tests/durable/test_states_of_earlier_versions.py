"""The same command after an upgrade continues a state with the settings that it was begun with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate.durable import DurableRelease, StateError
from tidegate.durable.durable_columns import DurableColumns
from tidegate.errors import SnapshotError
from tidegate.keyed.durable_folder import DurableKeyed
from tidegate.run.earlier_pipelines import earlier_pipelines
from tidegate.timestamps import read_times

READINGS = tg.adaptive(epsilon=1, bound=9, horizon=64)
WEEKS = {"every": "1h", "start": "2024-01-01T00:00Z", "horizon": 24 * 7 * 8}
EVENTS = tg.events(epsilon=1, bound=10, **WEEKS)
EARLIER = earlier_pipelines(EVENTS)[-1]  # what `tg.events` gave before decision 0126
TIMES = [f"2024-01-{day:02}T{hour:02}:10Z" for day in range(1, 15) for hour in range(8, 20)]
NOON, LATER = "2024-01-15T12:00Z", "2024-02-01T00:00Z"


def push(state: Any) -> None:
    if isinstance(state, DurableColumns):
        for run in state.runs.values():
            push(run)
    elif isinstance(state, DurableKeyed):
        state.push_rows(["a"] * len(TIMES), [3] * len(TIMES), read_times(TIMES, by_order=False))
        state.close_ticks(24 * 14)
    else:
        state.push(TIMES, [3] * len(TIMES))
        state.advance(NOON)


OPENED: dict[str, Callable[[Path, tg.Pipeline], Any]] = {
    "single": DurableRelease.open,
    "columns": lambda folder, pipeline: DurableColumns.open(folder, {"a": pipeline, "b": pipeline}),
    "keys": lambda folder, pipeline: DurableKeyed.open(folder, tg.keyed(pipeline, keys=["a"])),
}


def test_settings_differ_from_those_of_before() -> None:
    assert EVENTS.settings() != EARLIER.settings()
    assert not earlier_pipelines(EARLIER)
    given = tg.adaptive(epsilon=1, bound=9, horizon=64, resolution="0.001")
    assert not earlier_pipelines(given)
    assert earlier_pipelines(READINGS) == [given]  # what `tg.adaptive` gave before decision 0136
    uncounted, coarse, unmodulated = earlier_pipelines(EVENTS)
    assert EVENTS.perturber.sizes
    assert not uncounted.perturber.sizes
    assert uncounted.resolution == EVENTS.resolution
    assert coarse.estimator == EVENTS.estimator
    assert [coarse, unmodulated] == earlier_pipelines(uncounted)
    assert unmodulated == EARLIER == earlier_pipelines(coarse)[0]
    for one in (uncounted, coarse, EARLIER):
        assert one.guarantee == EVENTS.guarantee
    assert all(one.kept_history == 10**7 for one in earlier_pipelines(EVENTS.keeping(10**7)))


def test_windows_of_before_continue_with_their_jumps() -> None:
    """Before decision 0145, what corrects running sums was published at once."""
    ours = tg.adaptive(epsilon=1, bound=9, horizon=64, unit=tg.units.Window(length=4))
    newest, coarse = earlier_pipelines(ours)
    assert newest.estimator == coarse.estimator == tg.adaptive(1, 9, horizon=64).estimator
    assert newest.guarantee == coarse.guarantee == ours.guarantee
    assert coarse.resolution == ours.threshold_step
    values = np.random.default_rng(1).gamma(2.0, 1.0, 60)
    for before in (newest, coarse):
        release = before.start(tg.seeded(4))
        release.push(values[:40])
        again = ours.resume(release.snapshot())
        assert again.pipeline == before
        assert again.push(values[40:]).tobytes() == release.push(values[40:]).tobytes()
    given = tg.adaptive(1, 9, horizon=64, catch_up="1/4", resolution="0.001")
    assert not earlier_pipelines(given)


def test_readings_of_before_continue_with_their_resolution(tmp_path: Path) -> None:
    """States, snapshots and keys that were begun when values were rounded to steps of θ."""
    before, values = earlier_pipelines(READINGS)[0], np.random.default_rng(1).gamma(2.0, 1.0, 60)
    release = before.start(tg.seeded(4))
    release.push(values[:40])
    snapshot = release.snapshot()
    ours = READINGS.resume(snapshot)
    assert ours.pipeline == before
    assert ours.push(values[40:]).tobytes() == release.push(values[40:]).tobytes()
    with DurableRelease.open(tmp_path / "state", before) as state:
        state.push(values[:40])
    with DurableRelease.open(tmp_path / "state", READINGS) as state:
        state.push(values[40:])
        assert state.pipeline == before
        assert len(state._charging._ledger.charges()) == 1
    keys = ["a", "b"] * 30
    keyed = tg.keyed(before, keys=["a", "b"]).start(tg.seeded(4))
    keyed.push(keys, values)
    snapshot = keyed.snapshot()
    again = tg.keyed(READINGS, keys=["a", "b"]).resume(snapshot)
    found = [one.push(keys, values).values.tobytes() for one in (again, keyed)]
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", OPENED)
def test_a_state_of_before_is_continued_by_the_same_call(tmp_path: Path, kind: str) -> None:
    """Caught: the state was "begun with other settings", which nothing on the command line gives;
    only a new epoch, charged once more, was left."""
    opened = OPENED[kind]
    with opened(tmp_path / "state", EARLIER) as state:
        push(state)
    for _ in range(2):
        with opened(tmp_path / "state", EVENTS) as state:
            charges = state._charging._ledger.charges()
            assert len(charges) == 1
            push(state)
    other = tg.events(epsilon=1, bound=11, **WEEKS)
    with pytest.raises(StateError, match="other settings"):
        opened(tmp_path / "state", other)


def test_a_snapshot_of_before_continues_bit_for_bit() -> None:
    release = EARLIER.start(tg.seeded(4))
    release.push(TIMES, [3] * len(TIMES))
    release.advance(NOON)
    snapshot = release.snapshot()
    with pytest.raises(SnapshotError, match="other settings"):
        tg.events(epsilon=1, bound=11, **WEEKS).resume(snapshot)
    ours, theirs = EVENTS.resume(snapshot), EARLIER.resume(snapshot)
    assert ours.pipeline == EARLIER
    rows = [one.advance(LATER) for one in (ours, theirs)]
    assert rows[0].values.tobytes() == rows[1].values.tobytes()
    assert rows[0].levels.tobytes() == rows[1].levels.tobytes()


def test_a_keyed_snapshot_of_before_continues_bit_for_bit() -> None:
    keys = np.random.default_rng(2).choice(["a", "b"], len(TIMES)).tolist()
    before, today = (tg.keyed(one, keys=["a", "b"]) for one in (EARLIER, EVENTS))
    release = before.start(tg.seeded(4))
    release.push(keys, TIMES, [3] * len(TIMES))
    release.advance(NOON)
    snapshot = release.snapshot()
    rows = [one.resume(snapshot).advance(LATER) for one in (today, before)]
    assert rows[0].values.tobytes() == rows[1].values.tobytes()
