"""Permute-and-flip: the law of the sequential mechanism, and its privacy loss."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from tests.noise.neighbours import neighbour_ratios
from tidegate.errors import SettingError
from tidegate.noise import permute_and_flip
from tidegate.noise.selection_mechanisms import permute_and_flip_rows
from tidegate.randomness import seeded


def sequential_law(exact, scores, rate):
    """P(i) of the sequential mechanism, by enumerating all orders of the candidates."""
    success = [exact.exp_minus(rate * (max(scores) - score)) for score in scores]
    law = [Fraction(0)] * len(scores)
    for order in itertools.permutations(range(len(scores))):
        reached = Fraction(1, math.factorial(len(scores)))
        for i in order:
            law[i] += reached * success[i]
            reached *= 1 - success[i]
    return law


@pytest.mark.parametrize(
    ("scores", "rate"),
    [
        ([0, 0], Fraction(1)),
        ([0, 1], Fraction(1, 2)),
        ([3, 1], Fraction(1, 3)),
        ([-1, 2, 0], Fraction(1, 4)),
        ([5, 5, 4], Fraction(1)),
        ([1, 2, 3], Fraction(0)),
    ],
)
def test_law_is_that_of_the_sequential_mechanism(exact, scores, rate):
    law = exact.walk(lambda words: permute_and_flip(words, np.array(scores), rate), 3, budget=6000)
    truth = sequential_law(exact, scores, rate)
    assert law.unresolved < Fraction(2, 5)
    assert law.violations(lambda i: truth[i], range(len(scores))) == []


def test_check_catches_the_exponential_mechanism(exact):
    """The tolerance of the test above tells permute-and-flip from its nearest relative."""
    scores, rate = [3, 1], Fraction(1, 3)
    law = exact.walk(lambda words: permute_and_flip(words, np.array(scores), rate), 3, budget=6000)
    weights = [exact.exp_minus(-rate * score) for score in scores]
    assert law.violations(lambda i: weights[i] / sum(weights), range(2))


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1)], ids=str)
def test_privacy_loss(exact, epsilon):
    """Monotone neighbours lose at most ε at rate ε, and reach it; others reach 2ε."""
    laws = {
        scores: sequential_law(exact, scores, epsilon)
        for scores in itertools.product(range(5), repeat=3)
    }
    limit = 1 / exact.exp_minus(epsilon) + Fraction(1, 10**40)
    worst = {True: Fraction(0), False: Fraction(0)}
    for monotone, ratio in neighbour_ratios(laws):
        worst[monotone] = max(worst[monotone], ratio)
    assert worst[True] <= limit
    assert math.log(worst[True]) > 0.99 * epsilon
    assert worst[False] <= limit**2
    assert math.log(worst[False]) > 1.9 * epsilon


def test_many_candidates(keystream):
    """Frequencies of a large instance against P(i) = p_i·∫Π(1 − p_j·t)dt, by quadrature."""
    rate, scores = Fraction(1, 3), np.arange(40) % 17
    words, draws = keystream(5), 8_000
    picks = [permute_and_flip(words, scores, rate) for _ in range(draws)]
    counts = np.bincount(picks, minlength=40)

    def law(rate):
        p = np.exp(-float(rate) * (scores.max() - scores))
        t, weight = np.polynomial.legendre.leggauss(40)
        factors = 1 - p[:, None] * ((t + 1) / 2)
        return [p[i] * (weight / 2 * np.delete(factors, i, 0).prod(0)).sum() for i in range(40)]

    for factor, fits in ((1, True), (Fraction(7, 10), False), (Fraction(13, 10), False)):
        expected = np.array(law(rate * factor))
        assert expected.sum() == pytest.approx(1)
        assert (chisquare(counts, draws * expected).pvalue > 1e-4) == fits


def test_single_candidate_and_ties(keystream):
    assert permute_and_flip(keystream(1), np.array([-5]), Fraction(1)) == 0
    words, equal = keystream(1), np.zeros(4, dtype=np.int64)
    picks = [permute_and_flip(words, equal, Fraction(9)) for _ in range(4000)]
    assert (abs(np.bincount(picks) - 1000) < 120).all()


def test_bad_arguments(keystream):
    words = keystream(1)
    for scores in (np.array([1.0]), np.empty(0, np.int64), np.zeros((2, 2), np.int64)):
        with pytest.raises(SettingError, match="scores"):
            permute_and_flip(words, scores, Fraction(1))
    for rate in (Fraction(-1), 0.1):
        with pytest.raises(SettingError, match="rate"):
            permute_and_flip(words, np.array([1, 2]), rate)
    with pytest.raises(OverflowError):
        permute_and_flip(words, np.array([-(2**63), 2**63 - 1]), Fraction(1))


class _Words:
    """A source of these words, then of nothing."""

    bits = 64

    def __init__(self, words: np.ndarray) -> None:
        self._words = words

    def take(self, count: int) -> np.ndarray:
        found, self._words = self._words[:count], self._words[count:]
        assert found.size == count
        return found


@pytest.mark.parametrize("spread", [0, 1, 30])
def test_many_choices_are_what_each_gives_alone(spread: int) -> None:
    """From the same words; rows that are named need more of them, and no others."""
    rows, count, spare = 400, 11, 3
    source = seeded(spread).new_epoch().keystream("example", b"").at()
    words = source.take(rows * (count + spare)).reshape(rows, -1).copy()
    scores = np.random.default_rng(0).integers(0, spread + 1, (rows, count))
    scores[0], words[0, 4] = np.arange(count), round(math.exp(-6 / 7) * 2**64)  # a coin in doubt
    chosen, others = permute_and_flip_rows(words, scores, Fraction(1, 7))
    assert 0 in others
    assert len(others) < rows // 4
    for row in range(rows):
        if row in others:
            if row:
                with pytest.raises(AssertionError):
                    permute_and_flip(_Words(words[row]), scores[row], Fraction(1, 7))
        else:
            alone = permute_and_flip(_Words(words[row]), scores[row], Fraction(1, 7))
            assert chosen[row] == alone
    # Without a spare word, only a single success is sure.
    _, others = permute_and_flip_rows(words[:, :count], scores, Fraction(1, 7))
    assert len(others) > rows // 2
