"""Sums that 64 bits do not hold: over many horizons, and of many events in a tick."""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tidegate import methods
from tidegate.durable import DurableRelease, transfer
from tidegate.estimate.mean import MeanRun
from tidegate.noise.discrete_gaussian import LARGEST_VARIANCE
from tidegate.stages import Noisy

HORIZON, BOUND = 1 << 10, 10**9
# All whose answers are sums of leaves of one size, as noisy as it gets: nothing is left of 64 bits.
MADE = {"binary_tree": {}, "flat": {}, "smooth_binary": {"delta": "1e-6"}}


def tight(name: str, **more: Any) -> tg.Pipeline:
    """A pipeline whose resolution is as fine as it may be, by what is refused."""
    make = getattr(tg, name)
    known = {"horizon": HORIZON, "holdout": 1024, **MADE[name], **more}
    pipeline = make(10**6, BOUND, **known)
    while True:
        try:
            pipeline = make(10**6, BOUND, resolution=pipeline.resolution / 10, **known)
        except tg.SettingError:
            return pipeline


@pytest.mark.parametrize("name", MADE)
def test_sums_over_many_horizons_are_right(name: str) -> None:
    """Running sums wrap round at 64 bits: a sum of all values was far below 0, and sure of it."""
    pipeline = tight(name)
    units = BOUND / pipeline.resolution
    assert 16 * HORIZON * units > 1 << 63  # the history, if all values lie at the bound
    release = pipeline.start(tg.seeded(1))
    end = release.push(np.full(20 * HORIZON, float(BOUND))).size
    starts = np.array([end - many * HORIZON for many in (1, 4, 5, 9, 15)])
    answers = release.queries(starts, np.full(5, end))
    assert answers.estimate == pytest.approx((end - starts) * BOUND, rel=0.02)
    resumed = pipeline.resume(release.snapshot())
    assert resumed.queries(starts, np.full(5, end)).estimate.tolist() == answers.estimate.tolist()


def test_a_level_where_running_sums_wrap_round() -> None:
    """The mean of the last leaves was off by 2⁶⁴ once."""
    flat = tg.perturb.Flat(epsilon=10**6, horizon=HORIZON, block=16)
    fixed = tg.threshold.Fixed(BOUND)
    resolution = tight("flat").resolution * 10
    pipeline = tg.Pipeline(threshold=fixed, perturber=flat, resolution=resolution)
    release = pipeline.start(tg.seeded(1))
    levels = []
    for _ in range(20 * HORIZON // 128):
        release.push(np.full(128, float(BOUND)))
        levels.append(release.level)
    settled = np.array(levels[2 * HORIZON // 128 :])
    assert settled == pytest.approx(np.full(settled.size, float(BOUND)), rel=0.2)


def test_the_mean_of_an_endless_stream() -> None:
    """All sums so far were added up in 64 bits: predictions were those of a stream below 0."""
    units = BOUND * 10**6
    values = np.random.default_rng(1).integers(units // 2, units, 40_000)
    whole, parts = (MeanRun(units / 2, block=1) for _ in range(2))
    found = whole.push(Noisy(values))
    totals = list(accumulate(values.tolist()))
    assert totals[-1] > 1 << 64
    assert found.tolist() == [
        (float(total) + units / 2) / (number + 2) for number, total in enumerate(totals)
    ]
    cut = np.array_split(values, [3, 9000, 17_000, 17_001])
    assert np.concatenate([parts.push(Noisy(some)) for some in cut]).tolist() == found.tolist()
    assert parts.total == whole.total == totals[-1]


def test_a_released_file_of_many_horizons_is_not_damaged(tmp_path: Path) -> None:
    """It was refused: its sum is beyond 64 bits."""
    pipeline = tight("flat")
    values, path = np.full(20 * HORIZON, float(BOUND)), tmp_path / "out.csv"
    with DurableRelease.open(tmp_path / "state", pipeline) as run:
        transfer(values, run, path)
        end, recent = run.position, run.query(run.position - 15 * HORIZON, run.position)
    opened = tg.open(path)
    assert opened.query(0, end).estimate == pytest.approx(end * BOUND, rel=0.02)
    again = opened.query(end - 15 * HORIZON, end)
    assert again.estimate == pytest.approx(recent.estimate, rel=1e-9)


def test_noise_that_its_sampler_refuses_is_refused_beforehand() -> None:
    """It was refused within a push, after the values of the hold-out had chosen a threshold."""
    pipeline = tight("smooth_binary")
    assert pipeline.perturber.noise_law(pipeline.ceiling).variance <= LARGEST_VARIANCE


@pytest.mark.parametrize("name", sorted(method.name for method in methods.registered()))
@pytest.mark.parametrize("epsilon", ["1/10", "1/2"])
def test_noise_of_a_default_resolution_is_drawn_quickly(name: str, epsilon: Any) -> None:
    """Beyond a scale of 2⁴⁰ integers draw each number: a hundred times slower."""
    method = next(one for one in methods.registered() if one.name == name)
    for bound in (1, 1000, 10**6):
        pipeline = method.made(epsilon=epsilon, bound=bound, resolution=None)
        if isinstance(pipeline, tg.Pipeline) and pipeline.threshold_step is not None:
            few = isinstance(pipeline.perturber, tg.perturb.AdaptiveTrees)  # draws for many values
            assert pipeline.measurer.check(pipeline.widest) <= 1 << (40 if few else 36)


@pytest.mark.parametrize("horizon", [365, 8760])
def test_ticks_have_room_for_their_events(horizon: int) -> None:
    """Of a million events of 1 in an hour 263,224 counted, and the interval was ± 0.1 %."""
    pipeline = tg.events(1, 1, every="1h", start="2024-01-01", horizon=horizon)
    assert pipeline.threshold_step is not None
    assert pipeline.measurer.most >= 16_000_000 * pipeline.lattice.top
    release = pipeline.start(tg.seeded(1))
    day = np.datetime64("2024-01-01")
    sizes = np.where(np.arange(256) == 64, 2_000_000, 1000)
    hours = np.repeat(day + np.arange(256) * np.timedelta64(1, "h"), sizes)
    release.push(hours, np.ones(hours.size))
    release.finish(day + np.timedelta64(256, "h"))
    assert release.query(0, 256).estimate == pytest.approx(hours.size, rel=0.02)
