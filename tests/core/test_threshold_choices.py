"""Thresholds on tiny, constant and extreme hold-outs, and whether what they choose makes sense."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate as tg
from tests.depth import examples
from tidegate.lattice import Lattice

KINDS: dict[str, Any] = {
    "NM-E": lambda **more: tg.threshold.NoisyMax(epsilon=1, horizon=100, fanout=4, **more),
    "NM-E laplace": lambda **more: tg.threshold.NoisyMax(
        epsilon=1, horizon=100, fanout=4, selection="laplace", **more
    ),
    "S-P": lambda **more: tg.threshold.SmoothQuantile(epsilon=1, delta="1e-9", **more),
    "S-PAK": lambda **more: tg.threshold.SmoothQuantile(
        epsilon=1, delta="1e-9", failure="0.006", **more
    ),
    "AboveThreshold": lambda **more: tg.threshold.AboveThreshold(epsilon=1, **more),
    "log histogram": lambda **more: tg.threshold.LogHistogram(epsilon=1, **more),
    "Cauchy": lambda **more: tg.threshold.CauchyQuantile(epsilon=1, **more),
    "Gaussian": lambda **more: tg.threshold.GaussianQuantile(epsilon=1, delta="1e-9", **more),
}


def choose(stage: Any, values: Any, *, resolution: Any = 1, seed: int = 0) -> int:
    lattice = Lattice(stage.bound, Fraction(resolution))
    keystream = tg.seeded(seed).new_epoch().keystream("threshold", b"")
    return stage.choose(np.asarray(values, dtype=np.int64), lattice, keystream)


@pytest.mark.parametrize("bound", [1, 2, 7, 1000])
@pytest.mark.parametrize("size", [1, 2, 3, 50])
@pytest.mark.parametrize("kind", KINDS)
def test_degenerate_hold_outs_give_a_threshold_in_range(kind: str, size: int, bound: int) -> None:
    stage = KINDS[kind](bound=bound, holdout=size)
    for values in (
        np.zeros(size),
        np.full(size, bound),
        np.full(size, (bound + 1) // 2),
        np.arange(size) % (bound + 1),
    ):
        for seed in range(5):
            theta = choose(stage, values, seed=seed)
            assert type(theta) is int
            assert 1 <= theta <= bound


@pytest.mark.parametrize("kind", KINDS)
def test_every_threshold_works_in_a_release_of_the_smallest_hold_out(kind: str) -> None:
    unclipped = kind.startswith("S-P")
    for clip in [True, False] if unclipped else [True]:
        more = {"clip": clip} if unclipped else {}
        pipeline = tg.Pipeline(
            threshold=KINDS[kind](bound=9, holdout=1, **more),
            perturber=tg.perturb.Flat(epsilon=1, horizon=10),
        )
        for seed in range(20):
            release = pipeline.start(tg.seeded(seed))
            assert release.push(5) is None
            assert release.threshold is not None
            assert release.threshold >= 1
            assert clip is False or release.threshold <= 9
            assert np.isfinite(release.push([1, 2, 3])).all()


@settings(max_examples=examples(80))
@given(st.integers(1, 5000), st.integers(1, 6000), st.sampled_from(["1", "1/10", "7/3"]))
def test_the_grid_always_holds_the_bound(bound: int, step: int, resolution: str) -> None:
    lattice = Lattice(Fraction(bound) * 3, Fraction(resolution))
    stage = tg.threshold.NoisyMax(epsilon=1, bound=3 * bound, step=step)
    grid = stage.candidates(lattice)
    assert grid[-1] == lattice.top == stage.ceiling(lattice)
    assert grid[0] == min(step, lattice.top)
    assert np.all(np.diff(grid) > 0)
    assert np.all(grid[:-1] % step == 0)


def test_a_huge_bound_gets_a_coarser_grid() -> None:
    stage = tg.threshold.NoisyMax(epsilon=1, bound=2**40, holdout=100, horizon=100)
    lattice = Lattice(stage.bound, Fraction(1))
    grid = stage.candidates(lattice)
    assert grid.size <= 2**20
    assert grid[-1] == 2**40
    assert 1 <= choose(stage, np.full(100, 2**39)) <= 2**40


def test_noisy_max_takes_the_best_score_when_there_is_budget() -> None:
    """The maximiser of −penalty·θ − #above, by brute force, at a budget that hides nothing."""
    values = np.minimum(np.random.default_rng(0).geometric(0.05, size=5000), 400)
    for selection in ("permute-and-flip", "exponential", "laplace"):
        stage = tg.threshold.NoisyMax(
            epsilon=1000, stream_epsilon="1/10", bound=400, holdout=5000, horizon=2**16,
            selection=selection,
        )  # fmt: skip
        scores = [
            -stage.penalty() * theta - np.count_nonzero(values > theta) for theta in range(1, 401)
        ]
        assert choose(stage, values) == 1 + int(np.argmax(scores))


def test_a_larger_stream_budget_moves_the_threshold_up() -> None:
    """Less noise per unit of θ: truncation costs more in comparison."""
    values = np.minimum(np.random.default_rng(0).geometric(0.05, size=5000), 400)
    chosen = [
        choose(
            tg.threshold.NoisyMax(
                epsilon=100, stream_epsilon=budget, bound=400, holdout=5000, horizon=2**14
            ),
            values,
        )
        for budget in ("1/100", "1/10", "1", "10")
    ]
    assert chosen == sorted(chosen)
    assert chosen[0] < chosen[-1]
    quantiles = np.quantile(values, [0.5, 1.0])
    assert quantiles[0] < chosen[1] <= quantiles[1]


@pytest.mark.parametrize("selection", ["permute-and-flip", "exponential", "laplace"])
def test_a_small_budget_spreads_the_choice(selection: str) -> None:
    """A deterministic rule would be no mechanism; with ε tiny every candidate may win."""
    stage = tg.threshold.NoisyMax(
        epsilon="1/1000", stream_epsilon=1000, bound=10, holdout=50, selection=selection
    )
    chosen = {choose(stage, np.full(50, 5), seed=seed) for seed in range(200)}
    assert chosen == set(range(1, 11))


def test_resolution_refines_the_choice() -> None:
    """The same data in steps of 1/100: θ is the same number, to a step of the coarse grid."""
    values = np.minimum(np.random.default_rng(0).geometric(0.05, size=5000), 400)
    stage = tg.threshold.NoisyMax(
        epsilon=1000, stream_epsilon="1/10", bound=400, holdout=5000, horizon=2**16
    )
    coarse = choose(stage, values)
    fine = choose(stage, 100 * values, resolution="1/100")
    assert abs(fine / 100 - coarse) < 1


def test_smooth_quantile_is_near_the_quantile_when_there_is_budget() -> None:
    values = np.random.default_rng(0).integers(0, 1000, size=20_000)
    stage = tg.threshold.SmoothQuantile(
        epsilon=1, delta="1e-6", bound=1000, holdout=20_000, percentile=90
    )
    chosen = [choose(stage, values, seed=seed) for seed in range(30)]
    assert abs(np.median(chosen) - np.quantile(values, 0.9)) < 10


def test_s_pak_is_rarely_below_the_quantile() -> None:
    """That is what `failure` promises: 0.006 here, and S-P is below half of the time."""
    values = np.random.default_rng(0).integers(0, 1000, size=2000)
    common = {"epsilon": 1, "delta": "1e-6", "bound": 10**6, "holdout": 2000, "percentile": 90}
    quantile = np.sort(values)[1799]
    below = {}
    for failure in (None, "0.006"):
        stage = tg.threshold.SmoothQuantile(**common, failure=failure)
        chosen = [choose(stage, values, seed=seed) for seed in range(400)]
        below[failure] = np.mean(np.array(chosen) < quantile)
    assert 0.4 < below[None] < 0.6
    assert below["0.006"] < 0.02


def test_a_fixed_threshold_looks_at_nothing() -> None:
    stage = tg.threshold.Fixed("7/2")
    assert stage.holdout == 0
    assert choose(stage, [], resolution="1/2") == 7
    release = tg.Pipeline(
        threshold=stage, perturber=tg.perturb.Flat(epsilon=1), resolution="1/2"
    ).start(tg.seeded(0))
    assert release.threshold == 3.5
    assert release.holding == 0
    assert release.push([1]).size == 1
