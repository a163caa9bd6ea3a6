"""The law of the discrete Laplace sampler, by enumeration of all words at small widths."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.depth import in_turn
from tidegate.noise import discrete_laplace, one_discrete_laplace
from tidegate.noise.discrete_laplace import LaplaceInversion, in_arrays, one_by_one
from tidegate.randomness import seeded

SCALES = [Fraction(1, 50), Fraction(1, 3), Fraction(1), Fraction(5, 2), Fraction(7)]


def truth(exact, scale):
    q = exact.exp_minus(1 / scale)

    def probability(k):
        return (1 - q) / (1 + q) * exact.exp_minus(abs(k) / scale)

    return probability


def one(scale):
    return lambda words: int(in_arrays(words, 1, scale)[0])


def restarting(scale):
    """Planted error: an attempt whose word does not decide is given up instead of refined."""

    def draw(words):
        while True:
            word = int(words.take(1)[0])
            sign, cell, places = word & 1, word >> 1, words.bits - 1
            ends = [scale * (math.log(1 << places) - math.log(m)) for m in (cell, cell + 1) if m]
            if len(ends) < 2 or math.floor(ends[0] - 1e-12) != math.floor(ends[1] + 1e-12):
                continue
            magnitude = math.floor(ends[1] + 1e-12)
            if not (sign and magnitude == 0):
                return -magnitude if sign else magnitude

    return draw


def unrefined(scale):
    """Planted error: the float's proposal is taken for the truth."""

    def draw(words):
        while True:
            word = int(words.take(1)[0])
            middle = ((word >> 1) + 0.5) / (1 << words.bits - 1)
            magnitude = math.floor(float(scale) * -math.log(middle))
            if not (word & 1 and magnitude == 0):
                return -magnitude if word & 1 else magnitude

    return draw


def attempt(scale):
    """One attempt: its outcome, or None for −0. Its tree has no loop of redraws: sharp bounds."""

    def draw(words):
        outcome = LaplaceInversion(words, scale, 1).attempt(1).tolist()
        return outcome[0] if outcome else None

    return draw


def truth_of_attempt(exact, scale):
    q = exact.exp_minus(1 / scale)

    def probability(k):
        return (1 - q) / 2 * (exact.exp_minus(abs(k) / scale) if k is not None else 1)

    return probability


@pytest.mark.parametrize("bits", in_turn([2, 3, 5, 8], 1))
@pytest.mark.parametrize("scale", in_turn(SCALES, 0), ids=str)
def test_law_of_an_attempt_is_exact(exact, scale, bits):
    law = exact.walk(attempt(scale), bits, budget=25_000, until=Fraction(1, 250))
    assert law.unresolved < Fraction(1, 100)
    assert law.violations(truth_of_attempt(exact, scale), [None, *range(-60, 61)]) == []


@pytest.fixture(scope="module")
def law_at_one(exact):
    return exact.walk(attempt(Fraction(1)), 8, budget=4000)


@pytest.mark.parametrize(
    "wrong", [Fraction(7, 10), Fraction(99, 100), Fraction(101, 100), Fraction(13, 10)], ids=str
)
def test_check_catches_wrong_scale(exact, law_at_one, wrong):
    assert law_at_one.violations(truth_of_attempt(exact, wrong), [None, *range(-10, 11)])


@pytest.mark.parametrize("bits", [2, 3, 5])
@pytest.mark.parametrize("scale", in_turn(SCALES, 1), ids=str)
def test_law_is_exact(exact, scale, bits):
    """Attempts are exact, as above; so is what repeats them, as far as an eighth shows it."""
    law = exact.walk(one(scale), bits, budget=4000, until=Fraction(1, 8))
    assert law.unresolved < Fraction(1, 4)
    assert law.violations(truth(exact, scale), range(-60, 61)) == []


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_law_of_a_single_one_is_exact(exact, scale):
    law = exact.walk(
        lambda words: one_discrete_laplace(words, scale), 3, budget=4000, until=Fraction(1, 8)
    )
    assert law.unresolved < Fraction(1, 4)
    assert law.violations(truth(exact, scale), range(-60, 61)) == []


@pytest.mark.parametrize("scale", [*SCALES, Fraction(10**4), Fraction(2**41)], ids=str)
def test_a_few_are_what_the_arrays_give(scale):
    keystream = seeded(3).new_epoch().keystream("perturb", b"")
    for place in range(75):
        words, others = keystream.at(tree=place), keystream.at(tree=place)
        for count in (1, 1, 5, 16):  # one after the other: both have read the same words
            found = in_arrays(others, count, scale).tolist()
            assert one_by_one(words, count, scale) == found
    assert discrete_laplace(keystream.at(), 9, scale).tolist() == one_by_one(
        keystream.at(), 9, scale
    )


class NarrowWords:
    """Words of a few bits: many samples are open after the first, and read more."""

    bits = 4

    def __init__(self, seed):
        self._random = np.random.default_rng(seed)

    def take(self, count):
        return self._random.integers(0, 16, count).astype(np.uint64)


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_a_few_read_the_words_that_the_arrays_read(scale):
    for seed in range(30):
        words, others = NarrowWords(seed), NarrowWords(seed)
        for count in (3, 1, 8):
            assert one_by_one(words, count, scale) == in_arrays(others, count, scale).tolist()


@pytest.mark.parametrize("planted", [restarting, unrefined])
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(5, 2)], ids=str)
def test_check_catches_planted_errors(exact, planted, scale):
    law = exact.walk(planted(scale), 5, budget=4000, until=Fraction(1, 8))
    assert law.violations(truth(exact, scale), range(-10, 11))


def test_joint_law_of_two_is_a_product(exact):
    """Refinements and redraws of one sample take no words from the other."""
    scale = Fraction(1)
    single = truth(exact, scale)
    law = exact.walk(lambda words: tuple(in_arrays(words, 2, scale).tolist()), 2, budget=16_000)
    pairs = [(a, b) for a in range(-5, 6) for b in range(-5, 6)]
    assert law.unresolved < Fraction(1, 5)
    assert law.violations(lambda pair: single(pair[0]) * single(pair[1]), pairs) == []
