"""Event streams: order, splits and stops change nothing; an event changes its own tick only."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tidegate as tg
from tests.depth import in_turn
from tests.laws.catalogue import bits
from tidegate.clock import SECOND
from tidegate.errors import InputError, SettingError, TidegateError
from tidegate.estimate.mixture import event_posterior
from tidegate.run import refinement_schedule as refinement
from tidegate.timestamps import Times, read_times

START = 1_706_745_600 * SECOND  # 2024-02-01
TICKS = 320
COMMON = {"every": "15min", "start": "2024-02-01", "horizon": 200}
PIPELINES = {
    "count": tg.events(epsilon=1, **COMMON),
    "fixed": tg.events(epsilon=1, bound=30, fixed=True, **COMMON),
    "private": tg.events(epsilon=4, bound=200, **{**COMMON, "horizon": 600}),
    "signed": tg.events(epsilon=4, bound=200, lower=-100, **{**COMMON, "horizon": 600}),
    # A day of 24 ticks that changes with a week of 168.
    "weekly": tg.events(epsilon=4, bound=200, period=[24, 168], **{**COMMON, "horizon": 600}),
}


def log(name: str, seed: int = 1, scale: float = 1.0) -> tuple[Times, np.ndarray]:
    """Events of a rate that rises a hundredfold, in any order."""
    rng = np.random.default_rng(seed)
    rate = np.where(np.arange(TICKS) < 150, 2.0, 200.0 if name == "count" else 20.0)
    ticks = np.repeat(np.arange(TICKS), rng.poisson(rate * scale))
    rng.shuffle(ticks)
    times = START + ticks * 900 * SECOND + rng.integers(0, 900 * SECOND, ticks.size)
    values = rng.exponential(10.0, ticks.size) * np.where(rng.random(ticks.size) < 0.1, -1, 1)
    return read_times(times.astype("datetime64[ns]")), np.ones(
        ticks.size
    ) if name == "count" else values


def part(times: Times, where) -> Times:
    return Times(times.ticks[where], times.clock)


def push(name: str, release: tg.Release, times: Times, values: np.ndarray) -> None:
    release.push(times, None if name == "count" else values)


def whole(name: str, times: Times, values: np.ndarray) -> tuple[tg.Release, np.ndarray, np.ndarray]:
    release = PIPELINES[name].start(tg.seeded(3))
    push(name, release, times, values)
    rows = release.close_ticks(TICKS)
    return release, rows.values, rows.levels


@pytest.mark.parametrize("name", in_turn(["count", "private", "signed", "weekly"], 0))
def test_any_order_any_split_and_any_stop_give_the_same_bits(name):
    times, values = log(name)
    one, plain, levels = whole(name, times, values)
    assert len({phase.threshold for phase in one.phases}) > 1 or name == "count"
    rng, other = np.random.default_rng(2), PIPELINES[name].start(tg.seeded(3))
    order, found, seen = rng.permutation(values.size), [], []
    places = (times.ticks - START) // (900 * SECOND)
    for number, cut in enumerate([0, 1, 15, 16, 17, 40, 90, 150, 151, 210, 260, TICKS - 1, TICKS]):
        # All events of the ticks that are closed next, and some that lie ahead.
        ready = places[order] < cut + 50 * (number % 2)
        here = order[ready]
        order = order[~ready]
        for piece in np.array_split(here, 3):
            push(name, other, part(times, piece), values[piece])
        rows = other.close_ticks(cut - other.position)
        found.append(rows.values)
        seen.append(rows.levels)
        other = PIPELINES[name].resume(other.snapshot(brief=number % 2 == 1 and cut < 100))
    assert bits(np.concatenate(found)) == bits(plain)
    assert bits(np.concatenate(seen)) == bits(levels)
    again = PIPELINES[name].resume(one.snapshot())
    assert again.query(40, TICKS) == one.query(40, TICKS)
    stored = tg.load_record(one.save_record())
    assert stored.query(3, 277) == one.query(3, 277)


@pytest.mark.parametrize("name", PIPELINES)
def test_settings_survive_json(name):
    pipeline = PIPELINES[name]
    again = tg.Pipeline.from_settings(json.loads(json.dumps(pipeline.settings())))
    assert again == pipeline
    assert again.guarantee.unit == "event that is added or removed"
    assert "one event" in again.guarantee.neighbours


@pytest.mark.parametrize("name", ["count", "private"])
def test_an_event_changes_nothing_before_its_tick_and_nothing_else_in_time(name):
    times, values = log(name, scale=0.5)
    _, plain, _ = whole(name, times, values)
    for tick in (3, 60, 190):
        at = START + (900 * tick + 77) * SECOND
        more = Times(np.append(times.ticks, at), times.clock)
        release, moved, _ = whole(name, more, np.append(values, 1e9))
        assert bits(moved[:tick]) == bits(plain[:tick])
        assert moved.size == plain.size
        assert release.dropped == 0
    # Before the start, after the end, and too late: as if it had not happened.
    away = Times(np.append(times.ticks, [START - 1, START + 900 * TICKS * SECOND]), times.clock)
    release, same, _ = whole(name, away, np.append(values, [1e9, 1e9]))
    assert bits(same) == bits(plain)
    late = PIPELINES[name].start(tg.seeded(3))
    push(name, late, times, values)
    first = late.close_ticks(100)
    missed = [np.datetime64(START + 5, "ns"), np.datetime64(START, "ns")]
    push(name, late, read_times(missed), np.array([1e9, 5]))
    assert (release.dropped, late.dropped) == (1, 2)
    rest = late.close_ticks(TICKS - 100)
    assert bits(np.concatenate((first.values, rest.values))) == bits(plain)


def test_ticks_come_from_the_clock_and_from_nothing_else():
    pipeline = PIPELINES["private"]
    empty, full = pipeline.start(tg.seeded(3)), pipeline.start(tg.seeded(3))
    full.push(*log("private"))
    for until, count in (("2024-02-01T00:14:59", 0), ("2024-02-01T02:00", 8), ("2024-02-03", 192)):
        rows, others = empty.advance(until), full.advance(until)
        assert rows.times.tolist() == others.times.tolist()
        assert empty.position == full.position == count
    assert empty.query(from_="2024-02-01T06:00", to="2024-02-02").start == 24
    assert empty.table("6h").rows.tolist() == [24] * 8
    assert [type(one) for one in (empty.level, full.level)] == [float, float]
    assert empty.advance("2024-02-01").values.size == 0  # the clock does not go back


@pytest.mark.parametrize("nodes", [(4,), (1, 8, 64)])
def test_leaf_sums_under_the_same_noise_differ_by_their_difference(nodes):
    pipeline = tg.events(epsilon=1, bound=30, fixed=True, nodes=nodes, **COMMON)
    rng = np.random.default_rng(5)
    ticks = np.repeat(np.arange(TICKS), 50)
    when = read_times((START + ticks * 900 * SECOND).astype("datetime64[ns]"))
    values = rng.integers(0, 20, ticks.size)
    shift = rng.integers(-1, 2, ticks.size) * (values > 0)
    found = []
    for one in (values, values + shift):
        release = pipeline.start(tg.seeded(3))
        release.push(when, one)
        release.close_ticks(TICKS)
        found.append(release.record.segments)
    moved = np.bincount(ticks, weights=shift).astype(int)
    for first, second in zip(*found, strict=True):
        edges = [
            block.start + block.layout.edge(leaf)
            for block in first.blocks
            for leaf in range(block.layout.leaves)
        ]
        edges = [edge for edge in edges if edge < first.end]
        expected = np.add.reduceat(moved[: first.end], edges)
        expected = expected[: first.released.size]
        step = round(1 / first.method.step)
        assert ((second.released - first.released)[:-1] == step * expected[:-1]).all()


def test_missing_values_count_as_zero_and_ends_are_those_of_single_events():
    pipeline = tg.events(epsilon="1/1000000", bound=10, fixed=True, **COMMON)
    hidden = tg.events(epsilon=10**6, bound=10, fixed=True, **COMMON)
    release = hidden.start(tg.seeded(1))
    release.push(["2024-02-01T00:01"] * 5, [None, float("nan"), 400.0, -3, 2])
    assert release.finish("2024-02-01T04:00").values.size == 16
    assert release.query(0, 16).estimate == pytest.approx(12, abs=0.01)
    assert pipeline.guarantee.epsilon * 10**6 == 1


def test_a_log_that_ends_in_its_warm_up_is_measured():
    release = tg.events(epsilon=10, bound=100, **COMMON).start(tg.seeded(1))
    release.push(["2024-02-01T00:01"] * 500, [3] * 500)
    rows = release.finish("2024-02-01T01:00")
    assert rows.values.tolist() == [0.0] * 4
    assert release.query(0, 4).low < 1500 < release.query(0, 4).high


def test_the_excess_is_that_of_the_stretch_that_a_choice_is_made_for():
    assert event_posterior.STRETCH == refinement.STRETCH


def test_what_is_refused():
    with pytest.raises(SettingError, match="every"):
        tg.events(epsilon=1, every="1mo", start="2024-02-01")
    with pytest.raises(SettingError, match="start"):
        tg.events(epsilon=1, every="1s", start="noon")
    with pytest.raises(SettingError, match="needs `ticks`"):
        tg.adaptive(epsilon=1, bound=9, unit=tg.units.AddedEvent())
    with pytest.raises(SettingError, match="resolution"):
        tg.events(epsilon=1, bound=10**6, resolution="1/1000000000", **COMMON)
    release = PIPELINES["count"].start()
    with pytest.raises(InputError, match="have a zone"):
        release.push(["2024-02-01T00:00Z"])
    with pytest.raises(InputError, match="position 1"):
        release.push(["2024-02-01", None])
    with pytest.raises(SettingError, match="until"):
        release.advance("soon")
    with pytest.raises(TidegateError, match="no forks"):
        release.fork()
    assert (release.seen, release.position) == (0, 0)


def test_means_are_sums_over_numbers_and_their_intervals_hold():
    """Four logs, nine ranges each: 36 intervals of 95 %, of which chance leaves 29 at least."""
    means = tg.event_means(epsilon=2, bound=60, nodes=(4,), **COMMON)
    assert means.guarantee.epsilon == 2
    held = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        ticks = np.sort(rng.integers(0, 192, 4000))
        values = np.minimum(rng.exponential(10, ticks.size), 60)
        release = means.start(tg.seeded(seed))
        release.push((START + ticks * 900 * SECOND).astype("datetime64[ns]"), values)
        sums, counts = release.advance("2024-02-03")
        assert sums.values.size == counts.values.size == 192
        for start, end in zip(
            range(0, 180, 20), (192, 100, 180, 70, 192, 120, 140, 180, 192), strict=True
        ):
            found, inside = release.mean(start, end), (ticks >= start) & (ticks < end)
            held += found.low <= values[inside].mean() <= found.high
            assert found.low <= found.estimate <= found.high
    assert held >= 29
    assert release.mean(from_="2024-02-01", to="2024-02-02").denominator == release.count(0, 96)
