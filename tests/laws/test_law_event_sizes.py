"""Events that are counted by size: splits, stops, journals and joined records change nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tidegate as tg
from tidegate.durable import DurableRelease
from tidegate.record.segments.segment_codec_and_joining import (
    joined_segment,
    restored_segment,
    segment_array_as_text,
    segment_array_from_text,
    segment_state,
)
from tidegate.run.earlier_pipelines import earlier_pipelines

TICKS = 640
COMMON = {"every": "15min", "start": "2024-02-01", "horizon": 600}
PIPELINES = {
    "plain": tg.events(epsilon=2, bound=5000, **COMMON),
    "signed": tg.events(epsilon=2, bound=5000, lower=-3000, **COMMON),
}


def log(name: str, count: int = 15_000) -> tuple[np.ndarray, np.ndarray]:
    """Sizes that jump thirtyfold in the middle, so that θ follows; in any order."""
    rng = np.random.default_rng(4)
    ticks = rng.integers(0, TICKS, count)
    values = rng.lognormal(2.0, 0.6, count) * np.where(ticks < 330, 1.0, 30.0)
    if name == "signed":
        values *= np.where(rng.random(count) < 0.3, -1, 1)
    minutes = 15 * ticks + rng.integers(0, 15, count)
    return np.datetime64("2024-02-01T00:00") + minutes.astype("timedelta64[m]"), values


def whole(name: str) -> tuple[tg.EventRelease, np.ndarray]:
    release = PIPELINES[name].start(tg.seeded(3))
    release.push(*log(name))
    return release, release.close_ticks(TICKS).values


def answers(release) -> np.ndarray:
    starts = np.arange(0, TICKS, 16)
    found = release.queries(starts, np.minimum(starts + 100, TICKS))
    return np.stack((found.estimate, found.low, found.high))


@pytest.mark.parametrize("name", PIPELINES)
def test_splits_and_stops_give_the_same_bits(name: str) -> None:
    release, values = whole(name)
    raised = [phase.start for phase in release.phases if phase.threshold > 100]
    assert raised  # θ has followed
    times, each = log(name)
    other, found = PIPELINES[name].start(tg.seeded(3)), []
    order, before = np.random.default_rng(1).permutation(each.size), 0
    ticks = (times - np.datetime64("2024-02-01")) // np.timedelta64(15, "m")
    for number, cut in enumerate([1, 16, 40, 153, 154, 300, 331, 350, raised[0] + 1, 500, TICKS]):
        ready = order[(ticks[order] >= before) & (ticks[order] < cut)]
        other.push(times[ready], each[ready])
        found.append(other.close_ticks(cut - before).values)
        before = cut
        if number % 2 == 0:
            other = PIPELINES[name].resume(other.snapshot())
    assert np.concatenate(found).tobytes() == values.tobytes()
    assert answers(other).tobytes() == answers(release).tobytes()


@pytest.mark.parametrize("horizon", [1524, 2234])
def test_a_block_is_given_up_at_the_same_leaf_however_ticks_come(horizon: int) -> None:
    """Pieces that do not end with leaves: the leaf that follows is the last one in any split."""
    pipeline = tg.events(epsilon=3, bound=20_000, **{**COMMON, "horizon": horizon})
    rng = np.random.default_rng(4)
    ticks = np.sort(rng.integers(0, horizon, 20_000))
    values = rng.lognormal(2.0, 0.6, ticks.size) * np.where(ticks < horizon // 2 + 40, 1.0, 30.0)
    times = np.datetime64("2024-02-01T00:00") + 15 * ticks.astype("timedelta64[m]")
    starts = []
    for each in (horizon, 1):
        release = pipeline.start(tg.seeded(3))
        release.push(times, values)
        for _ in range(0, horizon, each):
            release.close_ticks(each)
        starts.append([(segment.origin, segment.threshold) for segment in release._run.segments])
    assert starts[0] == starts[1]


@pytest.mark.parametrize("name", PIPELINES)
def test_a_journal_answers_as_the_release_does(name: str, tmp_path: Path) -> None:
    times, values = log(name)
    with DurableRelease.open(tmp_path / "state", PIPELINES[name]) as state:
        state.push(times, values)
        state.advance("2024-02-03")
    with DurableRelease.open(tmp_path / "state", PIPELINES[name]) as state:
        state.advance("2024-02-01T00:00")
        rows = state.advance(np.datetime64("2024-02-01") + np.timedelta64(15 * TICKS, "m"))
        assert rows.values.size == TICKS - 192
        segments = state.record.segments
        assert all(segment.sizes for segment in segments)
        live = state._release._run.segments  # brief: of the newest phase at least
        assert [row.tolist() for row in segments[-1].sizes][-len(live[-1].sizes) :] == [
            row.tolist() for row in live[-1].sizes
        ]


def test_the_end_of_a_log_releases_what_was_counted() -> None:
    release, _ = whole("plain")
    counted = release._run.segments[-1].sizes
    before = release.query(TICKS - 40, TICKS)
    release.finish()
    rows = release._run.segments[-1].sizes
    assert len(rows) == len(counted) + 1
    assert rows[-1][1] == TICKS
    release.finish()
    assert len(release._run.segments[-1].sizes) == len(rows)  # nothing is counted twice
    assert before.end == TICKS
    times = np.datetime64("2024-02-01T00:05") + np.timedelta64(15 * TICKS, "m")
    release.push([times], [20.0])
    assert release.close_ticks(3).values.size == 3


def test_a_record_keeps_its_numbers_in_text_and_when_joined() -> None:
    full, _ = whole("plain")
    longest = max(full._run.segments, key=lambda segment: len(segment.sizes))
    assert len(longest.sizes) > 1
    stop = int(longest.sizes[0][1]) + 1
    release = PIPELINES["plain"].start(tg.seeded(3))
    release.push(*log("plain"))
    release.close_ticks(stop)
    method = release.pipeline.method
    early = segment_state(release._run.segments[-1])
    release.close_ticks(longest.end - stop)
    (segment,) = (one for one in release._run.segments if one.epoch == early["epoch"])
    again = restored_segment(method, segment_array_from_text(segment_array_as_text(early)))
    joined = joined_segment(again, segment)
    assert [row.tolist() for row in joined.sizes] == [row.tolist() for row in segment.sizes]
    damaged = {**early, "sizes": early["sizes"][:-1]}
    with pytest.raises(ValueError, match="reshape"):
        restored_segment(method, damaged)
    wrong = early["sizes"].copy()
    wrong[2] = 9
    with pytest.raises(ValueError, match="quarters"):
        restored_segment(method, {**early, "sizes": wrong})


def test_a_log_without_its_sizes_is_what_earlier_versions_released() -> None:
    """A snapshot of before goes on without numbers, bit for bit."""
    pipeline = PIPELINES["plain"]
    before = earlier_pipelines(pipeline)[0]
    assert not before.perturber.sizes
    assert before.guarantee == pipeline.guarantee
    release = before.start(tg.seeded(3))
    release.push(*log("plain"))
    release.close_ticks(200)
    ours = pipeline.resume(release.snapshot())
    assert ours.pipeline == before
    rest = [one.close_ticks(300).values.tobytes() for one in (ours, release)]
    assert rest[0] == rest[1]
    assert not any(segment.sizes for segment in ours._run.segments)
