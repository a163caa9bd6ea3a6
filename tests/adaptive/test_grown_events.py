"""Events that have grown since θ was chosen: their number tells, and upper ends reach further.

Where they are not counted by size, as by earlier versions.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.cli.invoking import run
from tidegate.record.grown_events import NOTE, GrownEvents, _lacking
from tidegate.run.earlier_pipelines import earlier_pipelines

HOURS, JUMP, BOUND = 256, 100, 500
START = np.datetime64("2024-01-01T00:00")
CLOCK: dict[str, Any] = {"every": "1h", "start": "2024-01-01", "horizon": HOURS}


def log(seed: int, kind: str, times: float) -> tuple[np.ndarray, np.ndarray]:
    """Seconds and values of 8,000 events; from an hour on they are so many times as large."""
    random = np.random.default_rng(seed)
    at = np.sort(random.integers(0, HOURS * 3600, 8000))
    values = random.gamma(4, 1.25, at.size) if kind == "gamma" else np.full(at.size, 5.0)
    return at, np.where(at // 3600 >= JUMP, values * times, values)


def released(seed: int, kind: str, times: float, *, sizes: bool = False) -> tuple[Any, np.ndarray]:
    """The means of such a log, and its true sums by hour."""
    at, values = log(seed, kind, times)
    means = tg.event_means(1, BOUND, **CLOCK)
    if not sizes:
        means = replace(means, sums=earlier_pipelines(means.sums)[0])
    release = means.start(tg.seeded(seed))
    release.push(START + at.astype("timedelta64[s]"), values)
    release.advance(START + np.timedelta64(HOURS, "h"))
    return release, np.bincount(at // 3600, values, HOURS)


@pytest.mark.parametrize(("kind", "times"), [("gamma", 12), ("gamma", 4), ("constant", 10)])
def test_upper_ends_reach_what_was_cut(kind: str, times: float) -> None:
    """Caught: 131,000 (130,700 to 133,000) for 461,000, and the mean of an event as wrong."""
    for seed in range(3):
        release, sums = released(seed, kind, times)
        for start, end in ((0, HOURS), (JUMP + 20, HOURS), (HOURS - 40, HOURS)):
            found, true = release.query(start, end), sums[start:end].sum()
            alone = release.sums.query(start, end)
            assert alone.high < 0.9 * true  # the sums by themselves cannot know
            assert found.sum.low <= true <= found.sum.high
            assert found.mean.high >= true / found.count.estimate
            assert NOTE in found.sum.note
            assert (found.sum.limit or 0) >= found.sum.high
        early = release.query(0, JUMP // 2)
        assert early.sum.high < 2 * early.sum.estimate  # what was before is as well known
        assert early.sum.low <= sums[: JUMP // 2].sum() <= early.sum.high
        as_of = release._both(release._sums_given).answers([0], [JUMP], 0.95, JUMP)
        assert NOTE not in as_of.note  # numbers that came later would tell


@pytest.mark.parametrize(("kind", "times"), [("gamma", 12), ("gamma", 4), ("constant", 10)])
def test_where_events_are_counted_by_size_that_is_enough(kind: str, times: float) -> None:
    """Caught: upper ends of ten times the sum, where those of sums alone were 1 to 20 % above."""
    for seed in range(10, 13):
        release, sums = released(seed, kind, times, sizes=True)
        for start, end in ((0, HOURS), (JUMP + 20, HOURS), (HOURS - 40, HOURS)):
            found, true = release.query(start, end).sum, sums[start:end].sum()
            assert NOTE not in found.note
            assert 0.85 * true < found.high < 1.3 * true
        assert release._both(GrownEvents.of) is None


def test_the_command_line_says_it_once(tmp_path: Path) -> None:
    at, values = log(0, "gamma", 12)
    rows = zip(START + at.astype("timedelta64[s]"), values.tolist(), strict=True)
    (tmp_path / "log.csv").write_text("at,fare\n" + "".join(f"{t},{v}\n" for t, v in rows))
    words = ["--time", "at", "--every", "1h", "--start", "2024-01-01"]
    words += ["--until", "2024-01-11T16:00", "--column", "fare", "--mean"]
    words += ["--epsilon", 1, "--bound", BOUND]
    assert run("release", tmp_path / "log.csv", "-o", tmp_path / "o.csv", *words).exit_code == 0
    said = run("query", tmp_path / "o.csv", "--every", "2d").stdout
    assert said.count("Not every part is full") == 1
    assert "Events have grown" not in said  # counted by size


@pytest.mark.parametrize(("kind", "times"), [("gamma", 1), ("constant", 1), ("gamma", 0.2)])
def test_events_that_stay_or_fall_have_the_ends_of_before(kind: str, times: float) -> None:
    for seed in range(3):
        release, _ = released(seed, kind, times)
        assert release._both(GrownEvents.of) is None


def test_ranges_have_the_part_of_the_events_that_they_hold() -> None:
    # Catches: pieces that are not in order, so that a range had the part of others.
    release, sums = released(1, "constant", 10)
    grown = release._both(GrownEvents.of)
    assert (np.diff(grown.edges) >= 0).all()
    assert (np.diff(grown.before) >= 0).all()
    lacking = grown.before[-1]
    before, after = np.interp([JUMP - 8, JUMP + 8], grown.edges, grown.before)
    assert before == 0
    assert 0.02 * lacking < after < 0.15 * lacking
    middle = np.interp((JUMP + HOURS) // 2, grown.edges, grown.before)
    assert 0.4 * lacking < middle < 0.6 * lacking
    most = lacking + release.sums.query(JUMP, HOURS).estimate
    assert 0.9 < most / (BOUND * sums[JUMP:].sum() / 50) < 1.1  # all are cut: up to the bound


def test_what_an_event_lacks() -> None:
    """Of exponential values x caps large, min(v, cap) has the mean x·(1 − e^(−1/x))."""
    for large in (0.7, 1.0, 2.0, 4.0):
        random = np.random.default_rng(1)
        values = random.exponential(large, 400_000)
        share = np.minimum(values, 1.0).mean()
        (lacks,) = _lacking(np.array([share]), 1000.0)
        assert abs(lacks - (values.mean() - share)) < 0.03 * large
    full = _lacking(np.array([0.95, 1.0, 1.02, 0.7]), 20.0)
    np.testing.assert_allclose(full[:3], [19.05, 19.0, 18.98])
    assert _lacking(np.array([0.7]), 1.1)[0] == pytest.approx(0.4)  # never beyond the bound
