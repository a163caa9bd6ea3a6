"""The exponential mechanism: its exact law, and its privacy loss."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from tests.noise.neighbours import neighbour_ratios
from tidegate.errors import SettingError
from tidegate.noise import exponential_mechanism, selection_mechanisms


def weights(exact, scores, rate):
    found = [exact.exp_minus(rate * (max(scores) - score)) for score in scores]
    return [one / sum(found) for one in found]


@pytest.mark.parametrize(
    ("scores", "rate"),
    [([0, 0, 0], Fraction(1)), ([0, 1], Fraction(1, 2)), ([3, 0], Fraction(1))],
)
def test_law_is_exact(exact, scores, rate, monkeypatch):
    """One attempt at a time; three candidates do not divide the words, so some are left out."""
    monkeypatch.setattr(selection_mechanisms, "_ATTEMPTS", 1)
    law = exact.walk(
        lambda words: exponential_mechanism(words, np.array(scores), rate), 3, budget=2500
    )
    truth = weights(exact, scores, rate)
    assert law.unresolved < Fraction(2, 5)
    assert law.violations(lambda i: truth[i], range(len(scores))) == []


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1)], ids=str)
def test_privacy_loss(exact, epsilon):
    """Monotone neighbours lose less than ε at rate ε; others less than 2ε."""
    laws = {
        scores: weights(exact, scores, epsilon) for scores in itertools.product(range(4), repeat=3)
    }
    worst = {True: 0.0, False: 0.0}
    for monotone, ratio in neighbour_ratios(laws):
        worst[monotone] = max(worst[monotone], math.log(ratio))
    assert 0.6 * epsilon < worst[True] <= epsilon
    assert 1.2 * epsilon < worst[False] <= 2 * epsilon


def test_many_candidates(keystream):
    rate, scores = Fraction(1, 3), np.arange(40) % 17
    words, draws = keystream(5), 8000
    picks = [exponential_mechanism(words, scores, rate) for _ in range(draws)]
    counts = np.bincount(picks, minlength=40)
    for factor, fits in ((1, True), (0.7, False), (1.3, False)):
        expected = np.exp(float(rate) * factor * scores)
        assert (chisquare(counts, draws * expected / expected.sum()).pvalue > 1e-4) == fits


def test_bad_arguments(keystream):
    with pytest.raises(SettingError, match="scores"):
        exponential_mechanism(keystream(1), np.array([1.0]), Fraction(1))
    with pytest.raises(OverflowError):
        exponential_mechanism(keystream(1), np.array([-(2**63), 2**63 - 1]), Fraction(1))
