"""The banded square root: exact in integers, right in scale, honest in its error bars."""

from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tests.methods.coverage import coverage
from tidegate.errors import SettingError
from tidegate.methods.banded_root import BandedNoise, BandedRoot, banded_root
from tidegate.methods.square_root import RootNoise, coefficients

WRONG = (0.7, 1.3)


def matrix(leaves, band):
    """C, with its integers."""
    c = [*coefficients(band).tolist(), *([0] * leaves)]
    places = range(leaves)
    return [[c[row - column] if row >= column else 0 for column in places] for row in places]


@pytest.mark.parametrize("band", [1, 2, 7, 40])
def test_what_is_published_is_a_function_of_the_measurements(band):
    """y = C·x + Z, then o from y alone: bit for bit the true sums plus noise that never saw x."""
    leaves, random = 40, np.random.default_rng(3)
    draws = random.integers(-(2**30), 2**30, size=leaves)
    values = random.integers(0, 1000, size=leaves).tolist()
    c = coefficients(band).tolist()
    found = []
    for at, (row, draw) in enumerate(zip(matrix(leaves, band), draws.tolist(), strict=True)):
        y = sum(weight * value for weight, value in zip(row, values, strict=True)) + draw
        known = sum(c[k] * found[at - k] for k in range(1, min(band, at + 1)))
        found.append(y - (known + 2**15 >> 16))
    running = [(sum(found[: at + 1]) + 2**15) >> 16 for at in range(leaves)]
    noise, _ = BandedNoise(leaves, 1, band).combine([draws], 0.0)
    assert running == (np.cumsum(values) + np.cumsum(noise)).tolist()


def test_the_whole_band_is_the_square_root():
    draws = np.random.default_rng(3).integers(-(2**30), 2**30, size=200)
    whole, root = BandedNoise(200, 5 << 32, 200), RootNoise(200, 5 << 32)
    assert whole.combine([draws], 0.0)[0].tolist() == root.combine([draws], 0.0)[0].tolist()
    starts, ends = np.arange(0, 150, 7), np.arange(40, 190, 7)
    np.testing.assert_allclose(
        whole.range_variance(starts, ends), root.range_variance(starts, ends), rtol=2e-3
    )


def test_by_hand():
    """A band of two: 2^16 and 2^15, so a draw comes back with −1/2, 1/4, −1/8, …"""
    noise, _ = BandedNoise(4, 1, 2).combine([np.array([8 << 16, 0, 0, 0])], 0.0)
    assert noise.tolist() == [8, -4, 2, -1]


@pytest.mark.parametrize("rho", ["1/200", "3"])
@pytest.mark.parametrize("threshold", [1, 9, 10**6])
def test_the_noise_spends_rho_and_hardly_less(rho, threshold):
    stage = BandedRoot(rho=rho, delta="1e-6", horizon=300)
    assert stage.band == 75
    squared = sum((c * threshold) ** 2 for c in coefficients(75).tolist())
    spent = Fraction(squared, 2 * stage.noise_law(threshold).variance)
    assert stage.rho * (1 - Fraction(1, 10**4)) < spent <= stage.rho
    assert stage.guarantee.rho == stage.rho


def test_scale_of_the_noise():
    """Black box: zeros in, noise out. C times the noise is Z: 12,800 draws, ±30 % is seen."""
    pipeline = banded_root(1, 2000, delta="1e-6", horizon=64, holdout=0, band=16)
    out = pipeline.start(tg.seeded(5)).push(np.zeros(64 * 200)).reshape(200, 64)
    draws = out @ (np.array(matrix(64, 16)) / 2**16).T
    norm = float(np.square(coefficients(16) / 2**16).sum())
    claimed = 2000**2 * norm / (2 * float(pipeline.guarantee.rho))
    ratio, error = float(np.square(draws).mean()) / claimed, np.sqrt(2 / draws.size)
    assert abs(ratio - 1) < 5 * error
    assert all(abs(ratio / factor**2 - 1) > 20 * error for factor in WRONG)


def test_variance_of_ranges_is_that_of_the_exact_inverse():
    leaves = 90
    law = BandedNoise(leaves, 7 << 40, 11)
    inverse = np.linalg.inv(np.array(matrix(leaves, 11)) / 2**16)
    running = np.tril(np.ones((leaves, leaves))) @ inverse
    covariance = np.zeros((leaves + 1, leaves + 1))
    covariance[1:, 1:] = running @ running.T * (law.variance / 2**32)
    starts, ends = np.triu_indices(leaves + 1)
    exact = covariance[starts, starts] + covariance[ends, ends] - 2 * covariance[starts, ends]
    np.testing.assert_allclose(law.range_variance(starts, ends), exact, rtol=1e-6, atol=1e-3)


def test_inverses_stay_small():
    """What the check of overflows rests on: Σ |coefficient of 1/C| is below 2.5 for any band."""
    for band in (1, 2, 3, 5, 9, 33, 129, 400):
        inverse = np.diff(BandedNoise(1000, 1, band)._weights, prepend=0)
        assert np.abs(inverse).sum() < 2.5


def test_a_quarter_is_better_than_the_whole_for_random_ranges():
    random = np.random.default_rng(1)
    ends = np.sort(random.integers(0, 1025, size=(2, 400)), axis=0)
    one, other = (
        preset(1, 1000, delta="1e-6", horizon=1024, holdout=0, resolution=1)
        .perturber.noise_law(1000)
        .range_variance(*ends)
        .mean()
        for preset in (banded_root, tg.square_root)
    )
    assert one / other == pytest.approx(0.886, abs=0.02)  # with 4,096 leaves 0.909


def test_intervals_hold_what_they_say():
    values = np.random.default_rng(1).integers(0, 50, size=300)
    pipeline = banded_root(2, 50, delta="1e-6", horizon=128, holdout=0)
    starts, ends = np.arange(0, 240, 13), np.arange(40, 280, 13)
    assert 0.91 < coverage(pipeline, values, starts, ends, releases=40) < 0.985


def test_settings_that_cannot_be():
    with pytest.raises(SettingError, match="band: is too wide"):
        banded_root(1, 1, horizon=2**20, holdout=0, block=16, band=2**12)
    with pytest.raises(SettingError, match="resolution: too fine"):
        banded_root("1e-6", 10**9, horizon=2**20, holdout=0, resolution="1e-6")
