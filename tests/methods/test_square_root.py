"""The square-root factorisation: exact in integers, right in scale, honest in its error bars."""

from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tidegate.errors import SettingError
from tidegate.methods.square_root import RootNoise, SquareRoot, coefficients, square_root

WRONG = (0.7, 1.3)


def matrix(leaves):
    """C, with its integers."""
    c = coefficients(leaves).tolist()
    places = range(leaves)
    return [[c[row - column] if row >= column else 0 for column in places] for row in places]


def test_coefficients_are_those_of_the_root():
    """C·C = A, the matrix of running sums, to within rounding."""
    c = np.array(matrix(200)) / 2**16
    np.testing.assert_allclose(c @ c, np.tril(np.ones((200, 200))), atol=2e-4)


def test_what_is_published_is_a_function_of_the_measurements():
    """y = C·x + Z, then o from y alone: bit for bit the true sums plus noise that never saw x."""
    leaves, random = 40, np.random.default_rng(3)
    draws = random.integers(-(2**30), 2**30, size=leaves)
    values = random.integers(0, 1000, size=leaves).tolist()
    c = coefficients(leaves).tolist()
    measured = [
        sum(row[k] * values[k] for k in range(leaves)) + int(draw)
        for row, draw in zip(matrix(leaves), draws, strict=True)
    ]
    found = []
    for at, y in enumerate(measured):
        known = sum(c[k] * found[at - k] for k in range(1, at + 1))
        found.append(y - (known + 2**15 >> 16))
    running = [(sum(found[: at + 1]) + 2**15) >> 16 for at in range(leaves)]
    noise, _ = RootNoise(leaves, 1).combine([draws], 0.0)
    assert running == (np.cumsum(values) + np.cumsum(noise)).tolist()


@pytest.mark.parametrize("rho", ["1/200", "3", "1/7919"])
@pytest.mark.parametrize("threshold", [1, 9, 10**6])
def test_the_noise_spends_rho_and_hardly_less(rho, threshold):
    stage = SquareRoot(rho=rho, delta="1e-6", horizon=300)
    squared = sum((c * threshold) ** 2 for c in coefficients(300).tolist())
    spent = Fraction(squared, 2 * stage.noise_law(threshold).variance)
    assert stage.rho * (1 - Fraction(1, 10**4)) < spent <= stage.rho


def test_scale_of_the_noise():
    """Black box: zeros in, noise out. C times the noise is Z: 12,800 draws, ±30 % is seen."""
    pipeline = square_root(1, 2000, delta="1e-6", horizon=64, holdout=0)
    out = pipeline.start(tg.seeded(5)).push(np.zeros(64 * 200)).reshape(200, 64)
    draws = out @ (np.array(matrix(64)) / 2**16).T
    rho = float(pipeline.guarantee.rho)
    claimed = 2000**2 * float(coefficients(64) / 2**16 @ (coefficients(64) / 2**16)) / (2 * rho)
    ratio = float(np.square(draws).mean()) / claimed
    error = np.sqrt(2 / draws.size)
    assert abs(ratio - 1) < 5 * error
    for factor in WRONG:
        assert abs(ratio / factor**2 - 1) > 20 * error
    covariance = np.abs(np.corrcoef(draws.T) - np.eye(64))
    assert covariance.max() < 6 / np.sqrt(200)  # independent


def test_variance_of_ranges_is_that_of_the_exact_inverse():
    leaves = 90
    law = RootNoise(leaves, 7 << 40)
    inverse = np.linalg.inv(np.array(matrix(leaves)) / 2**16)
    running = np.tril(np.ones((leaves, leaves))) @ inverse
    covariance = np.zeros((leaves + 1, leaves + 1))
    covariance[1:, 1:] = running @ running.T * (law.variance / 2**32)
    starts, ends = np.triu_indices(leaves + 1)
    exact = covariance[starts, starts] + covariance[ends, ends] - 2 * covariance[starts, ends]
    np.testing.assert_allclose(law.range_variance(starts, ends), exact, rtol=2e-3)
    # Over horizons: what is left of the first, whole ones, the beginning of the last.
    across = law.range_variance(np.array([80]), np.array([2 * leaves + 11]))
    parts = law.range_variance(np.array([80, 0, 0]), np.array([leaves, leaves, 11]))
    np.testing.assert_allclose(across, parts.sum())


@pytest.mark.parametrize("block", [1, 4])
def test_intervals_hold_what_they_say(block):
    random = np.random.default_rng(1)
    values = np.repeat(random.integers(0, 50, size=64), 16)
    pipeline = square_root(2, 50, delta="1e-6", horizon=512, holdout=0, block=block)
    starts = np.sort(random.integers(0, 250, size=40)) * 4
    ends = np.minimum(starts + 4 * random.integers(1, 120, size=40), 1024)
    truth = np.concatenate(([0], np.cumsum(values)))
    hits = []
    for seed in range(40):
        release = pipeline.start(tg.seeded(seed))
        release.push(values)
        found = release.queries(starts, ends)
        exact = truth[ends] - truth[starts]
        hits.append(((found.low <= exact) & (exact <= found.high)).mean())
    assert 0.91 < np.mean(hits) < 0.985


def test_error_beats_the_binary_tree():
    """Long ranges, the same (ε, δ): what the method is for."""
    ends = np.arange(64, 4096, 64)
    gauss = square_root(1, 1, delta="1e-6", horizon=4096, holdout=0, resolution="1/1000")
    tree = tg.binary_tree(1, 1, horizon=4096, holdout=0, resolution="1/1000")
    one, two = (
        pipeline.perturber.noise_law(1000).range_variance(np.zeros_like(ends), ends).mean()
        for pipeline in (gauss, tree)
    )
    assert one < two / 2


def test_settings_that_cannot_be():
    with pytest.raises(SettingError, match="block: is too small"):
        square_root(1, 1, horizon=2**20, holdout=0, block=1)
    with pytest.raises(SettingError, match="resolution: too fine"):
        square_root("1e-6", 10**9, horizon=2**20, holdout=0, resolution="1e-6")
    with pytest.raises(SettingError, match="consistent"):
        square_root(1, 1, horizon=64, holdout=0, estimator=tg.estimate.Mixture())


def test_budget_of_the_threshold_and_of_windows():
    """Hold-out and stream have the same ρ; a window of 3 divides it by 9."""
    plain = square_root(1, 40, delta="1e-6", horizon=64, holdout=50)
    assert plain.guarantee.rho == plain.perturber.rho
    window = square_root(
        1, 40, delta="1e-6", horizon=64, holdout=50, unit=tg.units.Window(length=3)
    )
    assert window.perturber.rho == plain.perturber.rho / 9
    assert window.guarantee.rho == plain.guarantee.rho
