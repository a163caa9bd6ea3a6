"""Late rows count where their own time lies: as brute force says, in every table and every file."""

import numpy as np
import pytest

import tidegate as tg
from tests.laws.catalogue import bits
from tidegate.clock import SECOND
from tidegate.durable import transfer
from tidegate.io import Batch

DAY = 86_400 * SECOND
COUNT, PER_DAY = 1_200, 100
PIPELINE = tg.flat(epsilon=100, bound=200, holdout=0, horizon=COUNT)


def late_stream() -> tuple[np.ndarray, np.ndarray]:
    """Values that differ from day to day, and times: single late rows, one far back, and a burst
    that comes two days late."""
    values = np.repeat(np.arange(COUNT // PER_DAY) * 10.0 + 5, PER_DAY)
    ticks = 1_704_067_200 * SECOND + np.arange(COUNT) * (DAY // PER_DAY)
    order = np.arange(COUNT)
    moved = np.concatenate((np.arange(300, 330), [417, 650, 651, 800]))
    place = np.concatenate((np.full(30, 520), [505, 705, 702, 1150]))
    rest = np.setdiff1d(order, moved)
    at = np.searchsorted(rest, place)
    order = np.insert(rest, at, moved)
    return values[order], ticks[order]


@pytest.fixture(scope="module")
def release():
    values, ticks = late_stream()
    run = PIPELINE.start(tg.seeded(2))
    for part in (slice(0, 1), slice(1, 521), slice(521, COUNT)):
        when = ticks[part].astype("datetime64[ns]")
        run.push(values[part], times=when, late="keep")
        run = run.pipeline.resume(run.snapshot())
    return run, values, ticks


def test_sums_by_time_are_those_of_brute_force(release):
    run, values, ticks = release
    for every in ("1d", "7h", "2w"):
        table = run.table(every)
        own = np.searchsorted(table.edges, ticks, side="right") - 1
        np.testing.assert_array_equal(table.rows, np.bincount(own, minlength=len(table)))
        true = np.bincount(own, values, len(table))
        found = table.answers
        assert ((found.low <= true) & (true <= found.high)).mean() >= 0.9
        np.testing.assert_allclose(found.estimate.sum(), run.query(0, COUNT).estimate)
        if every == "1d":
            assert "late rows count where their own time lies" in table.note
            # Without them the days that lose and win rows would be wrong by more than noise.
            places = run.record.time_index.positions(table.edges)
            plain = run.queries(places[:-1], np.minimum(places[1:], COUNT)).estimate
            assert np.abs(plain - true).max() > 10 * np.abs(found.estimate - true).max()
    day = run.query(from_="2024-01-04", to="2024-01-05")
    assert day.estimate == pytest.approx(run.table("1d").answers.estimate[3])
    assert "late rows" in str(day)


def test_a_range_that_late_rows_alone_fill(release):
    run, _, ticks = release
    start, end = int(ticks[490]), int(ticks[519]) + 1  # the burst: all its rows came late
    only = run.query(from_=np.datetime64(start, "ns"), to=np.datetime64(end, "ns"))
    assert only.start == only.end
    placed = run.query(490, 520)
    assert (only.estimate, only.low, only.high) == (placed.estimate, placed.low, placed.high)
    early = run.query(from_="2024-01-04", to="2024-01-05", as_of=500)  # they had not come yet
    assert early.end <= 500
    assert early.estimate < run.query(from_="2024-01-04", to="2024-01-05").estimate


def test_files_and_their_index_know_late_rows(tmp_path, release):
    _, values, ticks = release
    path = tmp_path / "out.csv"
    times = tg.read_times(ticks.astype("datetime64[ns]"))
    transfer([Batch(values, times=times)], PIPELINE.start(), path)
    first, again = (tg.open(path).table("1d") for _ in range(2))  # built, then read
    assert bits(first.answers.estimate) == bits(again.answers.estimate)
    own = np.searchsorted(first.edges, ticks, side="right") - 1
    np.testing.assert_array_equal(first.rows, np.bincount(own))
    np.testing.assert_array_equal(again.rows, first.rows)
