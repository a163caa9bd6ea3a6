"""Law 7 of these tests: for ever, with a new forest per horizon and memory that does not grow."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import tidegate as tg
from tests.laws.catalogue import names_of_law, perturbers, pipelines


def peak_memory(pipeline: tg.Pipeline, count: int, batch: int) -> int:
    release = pipeline.start(tg.seeded(1))
    values = np.ones(batch, dtype=np.int64)
    tracemalloc.start()
    for _ in range(count // batch):
        release.push(values)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


# The same geometry with short horizons is enough here.
SHORT = {name: one for name, one in perturbers(fixed=True).items() if one.horizon < 1000}
SHORT_PIPELINES = [name for name in names_of_law(2) if pipelines()[name].perturber.horizon < 1000]


@pytest.mark.parametrize("name", SHORT)
def test_every_horizon_has_a_forest_of_its_own(name: str) -> None:
    stage = SHORT[name]
    law = stage.noise_law(9)
    horizons = 40
    keystream = tg.seeded(1).new_epoch().keystream("perturb", b"")
    run = stage.start(9, 9, keystream)
    noise = run.push(np.zeros(horizons * law.leaves * stage.block, dtype=np.int64)).sums
    table = noise.reshape(horizons, law.leaves)
    assert run.chunk == horizons
    assert (run.leaf, run.filled, run.total) == (0, 0, 0)
    assert len(set(noise.tolist())) > 10
    if law.leaves >= 10:  # a single leaf may well repeat itself
        assert len({row.tobytes() for row in table}) == horizons
        correlation = np.corrcoef(table)
        np.fill_diagonal(correlation, 0)
        assert np.abs(correlation).mean() < 2 / np.sqrt(law.leaves)


@pytest.mark.parametrize("name", SHORT_PIPELINES)
def test_memory_does_not_grow_with_the_stream(name: str) -> None:
    """State after sixty horizons is no larger than after forty.

    The record's history is seventeen; in twenty more, the models come to settled weights of the
    stream, and the whole history holds it: more digits.
    """
    pipeline = pipelines()[name]
    horizon = pipeline.perturber.horizon
    values = np.ones(horizon, dtype=np.int64)
    release = pipeline.start(tg.seeded(1))
    release.push(np.ones(pipeline.holdout, dtype=np.int64))
    sizes = {40: 0, 60: 0}
    for number in range(1, 61):
        release.push(values)
        for until in sizes:
            if until - 12 <= number <= until and number % 4 == 0:
                sizes[until] = max(sizes[until], len(release.snapshot()))
    assert sizes[60] <= sizes[40] * 1.02 + 200  # digits of the counters; Median's heaps
    assert release.position == 60 * horizon


def test_peak_memory_is_that_of_a_short_stream() -> None:
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(9),
        perturber=tg.perturb.Hierarchy(epsilon=1, horizon=4096, skipped=1),
        estimator=tg.estimate.Median(),
    )
    short = peak_memory(pipeline, 20 * 4096, 4096)
    long = peak_memory(pipeline, 200 * 4096, 4096)
    assert long < 1.1 * short + 20_000


def test_noise_is_made_one_top_tree_at_a_time() -> None:
    """Memory is that of one top tree, and starting a huge horizon makes no noise at all."""
    stage = tg.perturb.Hierarchy(epsilon=1, horizon=2**40, skipped=0, levels=3)
    assert stage.noise_law(9).grove_leaves == 4096
    release = tg.Pipeline(threshold=tg.threshold.Fixed(9), perturber=stage).start(tg.seeded(1))
    tracemalloc.start()
    release.push(np.ones(20_000, dtype=np.int64))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8_000_000


def test_nothing_is_lost_where_horizons_meet() -> None:
    """A very private-unfriendly budget leaves hardly any noise: sums show every value once."""
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(1000),
        perturber=tg.perturb.Hierarchy(epsilon=10**5, horizon=50, fanout=3, skipped=1),
    )
    values = np.random.default_rng(0).integers(0, 1000, size=500)
    release = pipeline.start(tg.seeded(1))
    release.push(values)
    blocks = 500 // 3
    starts = np.arange(blocks) * 3
    found = release.queries(starts, starts + 3).estimate
    np.testing.assert_allclose(found, values[: blocks * 3].reshape(-1, 3).sum(axis=1), atol=1)
