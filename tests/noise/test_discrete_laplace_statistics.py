"""Samples of the discrete Laplace law: they fit the claimed scale and no other."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare

from tidegate.errors import SettingError
from tidegate.noise import discrete_laplace, discrete_laplace_variance, float_laplace

SCALES = [Fraction(1, 2), Fraction(1), Fraction(25, 2), Fraction(10**4), Fraction(10**8)]
FACTORS = [(Fraction(1), True), (Fraction(7, 10), False), (Fraction(13, 10), False)]


def distribution(k, scale):
    """P(X ≤ k), elementwise."""
    rate = 1 / float(scale)
    tail = np.exp(-np.where(k >= 0, k + 1, -k) * rate) / (1 + math.exp(-rate))
    return np.where(k >= 0, 1 - tail, tail)


def edges_for(scale):
    """At most 31 integer edges, at about equal steps of probability."""
    half = -float(scale) * np.log(np.linspace(0.05, 1, 16))
    return np.unique(np.round(np.concatenate([-half, half])).astype(np.int64))


def p_value(sample, scale, edges):
    observed = np.bincount(np.searchsorted(edges, sample, side="left"), minlength=edges.size + 1)
    steps = np.concatenate([[0.0], distribution(edges, scale), [1.0]])
    return chisquare(observed, sample.size * np.diff(steps)).pvalue


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_chi_square_fits_the_claimed_scale_only(keystream, scale):
    sample = discrete_laplace(keystream(21), 200_000, scale)
    for factor, fits in FACTORS:
        assert (p_value(sample, scale * factor, edges_for(scale)) > 1e-4) == fits


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_variance_fits_the_claimed_scale_only(keystream, scale):
    sample = discrete_laplace(keystream(22), 200_000, scale)
    assert abs(sample.mean()) < 4 * math.sqrt(discrete_laplace_variance(scale) / sample.size)
    for factor, fits in FACTORS:
        ratio = np.square(sample.astype(float)).mean() / discrete_laplace_variance(scale * factor)
        assert (abs(ratio - 1) < 0.03) == fits


@pytest.mark.parametrize("scale", [Fraction(10**12), Fraction(10**16, 3)], ids=str)
def test_scales_beyond_floats(keystream, scale):
    sample = discrete_laplace(keystream(23), 3000, scale)
    for factor, fits in FACTORS:
        assert (p_value(sample, scale * factor, edges_for(scale)) > 1e-3) == fits
    assert len({int(k) % 7 for k in sample}) == 7


def test_tiny_scale(keystream):
    """P(X ≠ 0) ≈ 2·exp(−5) at scale 1/5; at 1/50 no other value than 0 is ever seen."""
    sample = discrete_laplace(keystream(24), 100_000, Fraction(1, 5))
    assert abs((sample != 0).mean() / (2 * math.exp(-5) / (1 + math.exp(-5))) - 1) < 0.15
    assert not discrete_laplace(keystream(24), 100_000, Fraction(1, 50)).any()
    assert not discrete_laplace(keystream(24), 1000, Fraction(1, 10**400)).any()


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(10), Fraction(1000)], ids=str)
def test_opendp_agrees(keystream, scale):
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    measurement = dp.m.make_laplace(*space, scale=float(scale))
    theirs = np.array(measurement([0] * 20_000))
    edges = edges_for(scale)

    def table(sample):
        places = np.searchsorted(edges, sample, side="left")
        return np.bincount(places, minlength=edges.size + 1)

    # OpenDP takes no seed, so this bound is one that chance never crosses; 30 % off gives 1e-170.
    for factor, fits in FACTORS:
        ours = discrete_laplace(keystream(25), 100_000, scale * factor)
        assert (chi2_contingency([table(ours), table(theirs)]).pvalue > 1e-15) == fits


def test_variance_formula():
    for scale in (Fraction(1, 3), Fraction(1), Fraction(20)):
        k = np.arange(-2000, 2001)
        weights = np.exp(-np.abs(k) / float(scale))
        expected = (weights * k**2).sum() / weights.sum()
        assert discrete_laplace_variance(scale) == pytest.approx(expected, rel=1e-12)
    for scale in (10**5, 10**9, 10**15, 10**100):
        # 2·scale² − 1/6 + …
        assert discrete_laplace_variance(Fraction(scale)) == pytest.approx(
            2.0 * float(scale) ** 2, rel=1e-10
        )
    assert discrete_laplace_variance(Fraction(1, 50)) == pytest.approx(2 * math.exp(-50))
    assert discrete_laplace_variance(Fraction(1, 10**400)) == 0.0
    with pytest.raises(OverflowError):
        discrete_laplace_variance(Fraction(10**200))


def test_same_words_same_noise(keystream):
    scale = Fraction(3)
    noise = discrete_laplace(keystream(7), 50_000, scale)
    assert np.array_equal(noise, discrete_laplace(keystream(7), 50_000, scale))
    assert not np.array_equal(noise[:100], discrete_laplace(keystream(8), 100, scale))


def test_noise_of_a_release_never_changes_with_the_version(keystream):
    """A resumed release must find the noise that it began with: these values are for ever."""
    noise = discrete_laplace(keystream(7), 8, Fraction(25, 2))
    assert noise.tolist() == [3, -17, 5, 20, -20, -21, 1, 1]
    words = keystream(7)
    discrete_laplace(words, 20_000, Fraction(1))
    assert int(words.take(1)[0]) == 6530457591324035428


def test_noise_beyond_64_bits_is_an_error(keystream):
    with pytest.raises(OverflowError, match="64 bits"):
        discrete_laplace(keystream(1), 10, Fraction(10**30))


def test_bad_arguments(keystream):
    words = keystream(1)
    for scale in (Fraction(0), Fraction(-1), 0.5, True):
        with pytest.raises(SettingError, match="scale"):
            discrete_laplace(words, 1, scale)
        with pytest.raises(SettingError, match="scale"):
            discrete_laplace_variance(scale)
    for count in (-1, 1.5):
        with pytest.raises(SettingError, match="count"):
            discrete_laplace(words, count, Fraction(1))
    assert discrete_laplace(words, 0, Fraction(1)).dtype == np.int64


def test_float_laplace(keystream):
    sample = float_laplace(keystream(9), 200_000, 3.0)
    for factor, fits in ((1.0, True), (0.7, False), (1.3, False)):
        assert (abs(np.square(sample).mean() / (2 * (3.0 * factor) ** 2) - 1) < 0.03) == fits
        assert (abs(np.abs(sample).mean() / (3.0 * factor) - 1) < 0.01) == fits
    assert abs(sample.mean()) < 4 * 3.0 * math.sqrt(2 / sample.size)
    for scale in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(SettingError, match="scale"):
            float_laplace(keystream(9), 1, scale)
    with pytest.raises(SettingError, match="count"):
        float_laplace(keystream(9), -1, 1.0)
