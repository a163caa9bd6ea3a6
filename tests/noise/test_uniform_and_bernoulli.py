"""`uniform_below` and `bernoulli_exp`: exact laws by enumeration, floats against integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tidegate.errors import SettingError
from tidegate.noise import bernoulli_exp, exponential_bounds, uniform_below
from tidegate.noise.bernoulli import EXP_RELATIVE_ERROR, proposed_exp

EXPONENTS = [Fraction(0), Fraction(1, 7), Fraction(1, 2), Fraction(1), Fraction(5, 2), Fraction(9)]


def coin(exponent):
    number = np.array([exponent.numerator])
    return lambda words: bool(bernoulli_exp(words, number, Fraction(1, exponent.denominator))[0])


def coin_by_series(exponent, *, restart):
    """Bernoulli(exp(−n/d)), n ≤ d, by coins of probability n/(d·j), as Canonne et al. do.

    With `restart`, the planted error, a word out of range restarts the whole trial.
    """

    def draw(words):
        while True:
            outcome = trial(words)
            if outcome is not None:
                return outcome

    def trial(words):
        j = 1 if exponent < 1 else 2  # a coin of probability 1 needs no word
        while True:
            below = exponent.denominator * j
            surplus = words.bits - (below - 1).bit_length()
            word = int(words.take(1)[0]) >> surplus  # a negative shift, j > 2**bits, would raise
            while word >= below:
                if restart:
                    return None
                word = int(words.take(1)[0]) >> surplus
            if word >= exponent.numerator:
                return j % 2 == 1
            j += 1

    return draw


def law_of_coin(exact, exponent):
    success = exact.exp_minus(exponent)
    return lambda outcome: success if outcome else 1 - success


@pytest.mark.parametrize("bits", [1, 2, 3, 6])
@pytest.mark.parametrize("exponent", EXPONENTS, ids=str)
def test_coin_is_exact(exact, exponent, bits):
    law = exact.walk(coin(exponent), bits, budget=400)
    assert law.unresolved < Fraction(1, 10**6)
    assert law.violations(law_of_coin(exact, exponent), [True, False]) == []


def test_check_catches_restarted_trials(exact):
    truth = law_of_coin(exact, Fraction(1))
    good = exact.walk(coin_by_series(Fraction(1), restart=False), 3, budget=20_000)
    bad = exact.walk(coin_by_series(Fraction(1), restart=True), 3, budget=20_000)
    assert good.violations(truth, [True, False]) == []
    assert bad.violations(truth, [True, False])


def test_coins_are_independent(exact):
    exponents = np.array([1, 0, 2])
    unit = Fraction(1, 2)
    law = exact.walk(
        lambda words: tuple(bernoulli_exp(words, exponents, unit).tolist()), 3, budget=9000
    )

    def truth(outcome):
        probability = Fraction(1)
        for success, exponent in zip(outcome, exponents.tolist(), strict=True):
            probability *= law_of_coin(exact, exponent * unit)(success)
        return probability

    assert law.unresolved < Fraction(1, 20)
    assert law.violations(truth, []) == []


@pytest.mark.parametrize("unit", [Fraction(1, 7), Fraction(3)], ids=str)
def test_all_words_of_16_bits_agree_with_integers(unit):
    word = np.arange(1 << 16, dtype=np.uint64)
    for n in (0, 1, 2, 5, 30):
        coins, doubtful = proposed_exp(word, 16, np.full(word.size, n), unit)
        floor, _ = exponential_bounds(n * unit.numerator, unit.denominator, 16)
        assert np.array_equal(coins[~doubtful], (word < np.uint64(floor))[~doubtful])
        assert not (~doubtful & (word == np.uint64(floor))).any()
        assert doubtful.sum() < 8


def test_words_of_64_bits_near_the_ends_agree_with_integers():
    unit = Fraction(123_457, 1_000_000)
    offsets = [0, *(sign * (1 << power) for power in range(50) for sign in (-1, 1))]
    decided = 0
    for n in range(1, 350, 3):
        floor, _ = exponential_bounds(n * unit.numerator, unit.denominator, 64)
        near = [floor + offset for offset in offsets if 0 <= floor + offset < 1 << 64]
        coins, doubtful = proposed_exp(np.array(near, np.uint64), 64, np.full(len(near), n), unit)
        for word, success, doubt in zip(near, coins, doubtful, strict=True):
            if not doubt:
                decided += 1
                assert bool(success) == (word < floor)
                assert word != floor
            else:
                assert abs(word - floor) <= 2 + (floor >> 42)
    assert decided > 3000


def test_exp_of_numpy_is_as_accurate_as_assumed():
    exponents = np.concatenate([np.linspace(0, 44.4, 1501), 2.0 ** np.arange(-40, 5)])
    values = np.exp(-exponents)
    for exponent, value in zip(exponents.tolist(), values.tolist(), strict=True):
        argument = Fraction(exponent)
        floor, _ = exponential_bounds(argument.numerator, argument.denominator, 200)
        assert abs(Fraction(value) * (1 << 200) / floor - 1) < Fraction(EXP_RELATIVE_ERROR)


def test_extreme_units(keystream):
    words = keystream(3)
    exponents = np.array([0, 1, 2**63 - 1])
    assert bernoulli_exp(words, exponents, Fraction(0)).all()
    assert bernoulli_exp(words, exponents, Fraction(1, 10**400)).all()
    assert bernoulli_exp(words, exponents, Fraction(10**400)).tolist() == [True, False, False]
    assert bernoulli_exp(words, np.empty(0, np.int64), Fraction(1)).size == 0


def test_frequencies_of_coins(keystream):
    n = 200_000
    for exponent in (1, 3):
        share = bernoulli_exp(keystream(exponent), np.full(n, exponent), Fraction(1, 2)).mean()
        for factor, fits in ((1.0, True), (0.7, False), (1.3, False)):
            p = np.exp(-exponent * factor / 2)
            assert (abs(share - p) < 4 * np.sqrt(p * (1 - p) / n)) == fits


@pytest.mark.parametrize(("n", "bits"), [(1, 3), (2, 3), (5, 3), (8, 3), (9, 3), (37, 2), (50, 6)])
def test_uniform_is_exact(exact, n, bits):
    law = exact.walk(lambda words: uniform_below(words, n), bits, budget=8000)
    assert law.unresolved < Fraction(1, 2)
    assert law.violations(lambda k: Fraction(int(0 <= k < n), n), range(n)) == []


def test_check_catches_modulo_bias(exact):
    law = exact.walk(lambda words: int(words.take(1)[0]) % 5, 3, budget=8000)
    assert law.violations(lambda k: Fraction(1, 5), range(5))


def test_uniform_far_beyond_a_word(keystream):
    n = 3 * 10**60
    draws = [uniform_below(keystream(1), n) for _ in range(2)]
    assert draws[0] == draws[1] < n
    words = keystream(2)
    mean = sum(uniform_below(words, n) for _ in range(2000)) / 2000 / n
    assert abs(mean - 0.5) < 4 / np.sqrt(12 * 2000)


def test_bad_arguments(keystream):
    words = keystream(1)
    for n in (0, -1, 2.0, True):
        with pytest.raises(SettingError, match="n:"):
            uniform_below(words, n)
    with pytest.raises(SettingError, match="exponents: must not be negative"):
        bernoulli_exp(words, np.array([1, -1]), Fraction(1))
    with pytest.raises(SettingError, match="exponents"):
        bernoulli_exp(words, np.array([1.0]), Fraction(1))
    for unit in (Fraction(-1), 0.5):
        with pytest.raises(SettingError, match="unit"):
            bernoulli_exp(words, np.array([1]), unit)
