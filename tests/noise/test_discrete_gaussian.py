"""The discrete Gaussian law: exact by enumeration, and samples that fit no other scale."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import chi2_contingency, chisquare

from tidegate.errors import SettingError
from tidegate.noise import (
    discrete_gaussian,
    discrete_gaussian_variance,
    exponential_bounds,
)
from tidegate.noise.discrete_gaussian import _kept_gaussian

VARIANCES = [Fraction(1, 4), Fraction(1), Fraction(625, 4), Fraction(10**8), Fraction(10**16, 3)]
# Of the standard deviation: ±30 %.
FACTORS = [(Fraction(1), True), (Fraction(7, 10), False), (Fraction(13, 10), False)]


def proposal_of(variance):
    """The scale of the proposals, and the exponent of the coin that keeps a proposal."""
    scale = math.isqrt(math.floor(variance)) + 1
    return scale, lambda magnitude: (magnitude - variance / scale) ** 2 / (2 * variance)


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_proposal_times_coin_is_the_law(variance):
    """In exact fractions: |k|/t + exponent(k) = k²/(2σ²) + a constant."""
    scale, exponent = proposal_of(variance)
    rest = {Fraction(k, scale) + exponent(k) - Fraction(k * k) / (2 * variance) for k in range(100)}
    assert rest == {variance / (2 * scale**2)}


@pytest.mark.parametrize("bits", [2, 5])
@pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(1), Fraction(7, 3)], ids=str)
def test_coin_is_exact(exact, variance, bits):
    """All words: the proposals' law is exact (other tests), so with this the sampler's is."""
    scale, exponent = proposal_of(variance)

    def violations(magnitude, truth):
        def keep(words):
            return bool(_kept_gaussian(words, np.array([magnitude]), variance / scale, variance)[0])

        law = exact.walk(keep, bits, budget=200)
        assert law.unresolved < Fraction(1, 10**4)
        return law.violations(lambda kept: truth if kept else 1 - truth, [True, False])

    for magnitude in range(4):
        success = exact.exp_minus(exponent(magnitude))
        assert violations(magnitude, success) == []
        if success > Fraction(1, 100):
            assert violations(magnitude, success * Fraction(7, 10))


def distribution(edges, variance):
    sigma = math.sqrt(variance)
    if sigma > 50:  # the sum over integers is the integral to within rounding
        return ndtr((edges + 0.5) / sigma)
    k = np.arange(-math.ceil(40 * sigma) - 40, math.ceil(40 * sigma) + 41)
    weights = np.exp(-(k.astype(float) ** 2) / (2 * float(variance)))
    return np.array([weights[k <= edge].sum() for edge in edges]) / weights.sum()


def edges_for(variance):
    places = math.sqrt(variance) * ndtri(np.linspace(0.03, 0.97, 30))
    return np.unique(np.round(places).astype(np.int64))


def table(sample, edges):
    return np.bincount(np.searchsorted(edges, sample, side="left"), minlength=edges.size + 1)


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_chi_square_fits_the_claimed_variance_only(keystream, variance):
    sample = discrete_gaussian(keystream(31), 100_000, variance)
    edges = edges_for(variance)
    for factor, fits in FACTORS:
        steps = np.concatenate([[0.0], distribution(edges, variance * factor**2), [1.0]])
        pvalue = chisquare(table(sample, edges), sample.size * np.diff(steps)).pvalue
        assert (pvalue > 1e-4) == fits


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_moments_fit_the_claimed_variance_only(keystream, variance):
    sample = discrete_gaussian(keystream(32), 100_000, variance).astype(float)
    spread = math.sqrt(discrete_gaussian_variance(variance) / sample.size)
    assert abs(sample.mean()) < 4 * spread
    for factor, fits in FACTORS:
        ratio = np.square(sample).mean() / discrete_gaussian_variance(variance * factor**2)
        assert (abs(ratio - 1) < 0.05) == fits


def test_opendp_agrees(keystream):
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    theirs = np.array(dp.m.make_gaussian(*space, scale=10.0)([0] * 20_000))
    edges = edges_for(Fraction(100))
    # OpenDP takes no seed, so this bound is one that chance never crosses.
    for factor, fits in FACTORS:
        ours = discrete_gaussian(keystream(33), 50_000, 100 * factor**2)
        both = [table(ours, edges), table(theirs, edges)]
        assert (chi2_contingency(both).pvalue > 1e-15) == fits


@pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(25), Fraction(10**12)], ids=str)
def test_floats_never_decide_against_the_integers(exact, variance):
    """Words next to ⌊2**64·exp(−x)⌋, where a float cannot tell: the coin is the exact one."""
    scale = math.isqrt(math.floor(variance)) + 1
    centre = variance / scale
    for magnitude in {0, 1, scale, 2 * scale, 5 * scale}:
        exponent = (magnitude - centre) ** 2 / (2 * variance)
        floor, _ = exponential_bounds(exponent.numerator, exponent.denominator, 64)
        offsets = [0, *(sign << power for power in range(0, 40, 3) for sign in (-1, 1))]
        near = [floor + offset for offset in offsets if 0 <= floor + offset < 1 << 64]
        for word in near:
            words = exact.ScriptedWords(64, [word, 0])  # a word of 0 decides an open coin: True
            coin = _kept_gaussian(words, np.array([magnitude]), centre, variance)
            assert bool(coin[0]) == (word <= floor)


def test_noise_never_changes_with_the_version(keystream):
    assert discrete_gaussian(keystream(7), 8, Fraction(625, 4)).tolist() == [
        3,
        -18,
        5,
        21,
        -20,
        -22,
        1,
        1,
    ]


def test_bad_arguments(keystream):
    words = keystream(1)
    for variance in (Fraction(0), Fraction(-1), 0.5, True, Fraction(1, 10**9), Fraction(10**40)):
        with pytest.raises(SettingError, match="variance"):
            discrete_gaussian(words, 1, variance)
        with pytest.raises(SettingError, match="variance"):
            discrete_gaussian_variance(variance)
    assert discrete_gaussian(words, 0, Fraction(1)).dtype == np.int64
