"""Offline rivals: the algebra by hand, the noise at its scale, and that they are kept apart."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.offline import efpa, fourier, fpa, optstream
from experiments.offline.optstream import lines_through, sample_scale, sampled_places, sum_noise


@pytest.mark.parametrize("size", [4, 5, 64, 101])
def test_coefficients_are_a_rotation(size: int) -> None:
    values = np.random.default_rng(0).normal(size=size)
    found = fourier.coefficients(values)
    assert found.size == size
    assert np.square(found).sum() == pytest.approx(np.square(values).sum())
    assert np.allclose(fourier.series(found, size), values)


def test_by_hand() -> None:
    """A constant stream of 1 has one coefficient, √n; an alternating one only the last."""
    assert np.allclose(fourier.coefficients(np.array([1.0, -1.0, 1.0, -1.0])), [0, 0, 0, 2])
    assert np.allclose(fourier.series(np.array([2.0]), 4), 1.0)
    cosine = np.cos(2 * np.pi * np.arange(8) / 8)
    assert np.allclose(fourier.coefficients(cosine)[:3], [0, 2, 0])


def test_a_replaced_value_moves_kept_coefficients_by_at_most_root_n_theta() -> None:
    """What the scale √n·θ/ε rests on; attained for no more than a constant factor less."""
    random = np.random.default_rng(1)
    largest = 0.0
    for _ in range(200):
        values = random.random(32)
        other = values.copy()
        other[random.integers(32)] = random.integers(2)
        for kept in (1, 5, 32):
            moved = (fourier.coefficients(other) - fourier.coefficients(values))[:kept]
            largest = max(largest, float(np.abs(moved).sum() / np.sqrt(kept)))
    assert 0.5 < largest <= 1


def test_noise_has_the_scale_that_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coefficients of zeros are noise: its mean size is the scale, and 30 % less is seen."""

    def size() -> float:
        released = [fpa(np.zeros(64), 1, 10.0, seed, 9) for seed in range(200)]
        return float(np.mean([np.abs(fourier.coefficients(one)[:9]).mean() for one in released]))

    spread = 30 / np.sqrt(200 * 9)
    assert abs(size() - 30) < 4 * spread  # √9·10/1
    right = fourier._noisy
    monkeypatch.setattr(
        fourier, "_noisy", lambda kept, theta, *more: right(kept, 0.7 * theta, *more)
    )
    assert abs(size() - 30) > 4 * spread


def test_the_number_of_coefficients_follows_the_stream() -> None:
    """A slow wave needs few; with little ε fewer are kept, and the error is below that of flat."""
    wave = 50 + 40 * np.sin(2 * np.pi * np.arange(4096) / 1024)
    error = np.abs(efpa(wave, 10, 100.0, 1) - wave).mean()
    assert error < 9  # with the mean alone it is 25, with noise on every value 10
    # A hundredth of ε would make noise of 10,000 on every value; one coefficient is kept.
    assert np.abs(efpa(wave, 0.01, 100.0, 1) - wave).mean() < 2000
    assert fourier.guarantee(1).arithmetic == "float"


def test_optstream_by_hand() -> None:
    """Two samples of a window of three, nearly no noise: the line through both ends."""
    published = optstream(np.array([0.0, 9.0, 4.0]), 1e12, 10.0, 1, window=3, kept=2)
    # The line has the sum 6, the window 13; noise: 2·2·θ and 2·3·θ over ε, so the line takes
    # 2·4²·(1.5² + 1.5²)/(2·4²·4.5 + 2·6²) = 2/3 of the difference of 7.
    assert np.allclose(published, np.array([0, 2, 4]) + 7 * (2 / 3) / 3)
    assert lines_through(np.array([0, 2]), 3).sum(axis=1).tolist() == [1.5, 1.5]


@pytest.mark.parametrize(("window", "kept"), [(12, 4), (60, 4), (7, 3), (5, 5), (1, 1)])
def test_optstream_costs_a_window_exactly_epsilon(window: int, kept: int) -> None:
    """Any w values, wherever they begin: their samples, and what they move of two sums."""
    epsilon, theta = 2.0, 10.0
    sampled = np.tile(np.isin(np.arange(window), sampled_places(window, kept)), 3)
    for start in range(2 * window):
        inside = -start % window or window  # of the first of the two windows
        sums = inside * theta + (window - inside) * theta
        samples = np.count_nonzero(sampled[start : start + window]) * theta
        cost = samples / sample_scale(epsilon, theta, kept)
        assert cost + sums / sum_noise(epsilon, theta, window) == pytest.approx(epsilon)


def test_optstream_noise_has_its_scale() -> None:
    """Of zeros, in windows of one value: the mean of a sample and the same sum."""
    noise = optstream(np.zeros(4000), 8.0, 1.0, 3, window=1, kept=1)
    # Both scales are 2/8: half of each, so a variance of 2·0.25²/2.
    assert noise.var() == pytest.approx(0.0625, rel=0.12)
    assert abs(noise.var() / 0.7**2 / 0.0625 - 1) > 0.3
