"""OGPM: its density keeps the ratio, its plateau is the best one, and unbiased it is PM."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from tidegate.errors import RefusedError, SettingError
from tidegate.local.mechanisms import generalised_piecewise, piecewise, published_error
from tidegate.local.mechanisms.piecewise import piecewise_plateau

EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_density_by_hand(epsilon: Fraction) -> None:
    """Every x has one plateau of the same length; the density is 1 in all, and has two heights."""
    x = np.linspace(0, 1, 101)
    first, last, dense = piecewise_plateau(x, epsilon)
    length = 1 / (math.exp(epsilon / 2) + 1)
    np.testing.assert_allclose(last - first, length)
    assert first.min() >= 0
    assert last.max() <= 1
    assert np.all((first <= x) & (x <= last))
    assert dense * (length + (1 - length) * math.exp(-epsilon)) == pytest.approx(1)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_every_pair_of_inputs_and_every_report_enumerated(epsilon: Fraction) -> None:
    """The loss of the table itself, in integers over all columns and pairs of rows."""
    question = generalised_piecewise(1000, epsilon)
    worst = Fraction(0)
    for column in zip(*question.weights, strict=True):
        worst = max(worst, *(Fraction(one, other) for one in column for other in column))
    assert math.log(worst) <= epsilon
    assert math.log(worst) > 0.999 * epsilon
    with pytest.raises((RefusedError, SettingError), match=r"epsilon|loss|private"):
        question.check(epsilon * Fraction(7, 10))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_unbiased_it_is_the_piecewise_mechanism(epsilon: Fraction) -> None:
    mine, theirs = generalised_piecewise(500, epsilon), piecewise(500, epsilon)
    np.testing.assert_allclose(mine.weights, theirs.weights, rtol=1e-6)
    np.testing.assert_allclose(mine.outputs, theirs.outputs, rtol=1e-6, atol=1e-9)


def test_error_in_closed_form_and_by_integration() -> None:
    x, epsilon = np.array([0.0, 0.2, 0.5]), Fraction(3, 2)
    places = (np.arange(20_000) + 0.5) / 20_000
    first, last, dense = piecewise_plateau(x, epsilon)
    inside = (places >= first[:, None]) & (places < last[:, None])
    density = np.where(inside, dense, dense * math.exp(-epsilon))
    expected = (density * np.square(places - x[:, None])).mean(axis=1)
    np.testing.assert_allclose(published_error(x, epsilon), expected, rtol=2e-3)


def worst(epsilon: float, length: float, power: int) -> float:
    """The largest E|report − x|^power over x, of plateaus of this length."""
    x = np.linspace(0, 1, 101)[:, None]
    thin = 1 / (1 + length * math.expm1(epsilon))
    first = np.clip(x - length / 2, 0, 1 - length)
    edges = np.concatenate((np.zeros_like(x), first, x, first + length, np.ones_like(x)), axis=1)
    powers = np.sign(edges - x) * np.abs(edges - x) ** (power + 1) / (power + 1)
    heights = thin * np.array([1, math.exp(epsilon), math.exp(epsilon), 1])
    return float((np.diff(powers, axis=1) * heights).sum(axis=1).max())


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_plateau_has_a_smaller_worst_distance(epsilon: Fraction) -> None:
    rate = float(epsilon)
    best = 1 / (math.exp(rate / 2) + 1)
    others = np.linspace(0.01, 0.99, 197)
    assert worst(rate, best, 1) <= min(worst(rate, length, 1) for length in others) + 1e-12
    for factor in (0.7, 1.3):
        assert worst(rate, factor * best, 1) > 1.003 * worst(rate, best, 1)
    squared = worst(rate, best, 2)
    assert squared == pytest.approx(published_error(np.linspace(0, 1, 101), epsilon).max())
    assert min(worst(rate, length, 2) for length in others) < squared  # another aim, another C


def test_tables_whose_least_density_varies_do_better() -> None:
    """A linear program over tables of 12 inputs and 12 cells, for the worst squared error: q_k ≤
    P_ik ≤ e^ε·q_k, rows sum to 1. OGPM has the same q for all reports."""
    size, epsilon = 12, 3.0
    losses = np.square((np.arange(size) + 0.5) / size - np.linspace(0, 1, size)[:, None])
    table = size * size  # variables: P, then q, then the worst error
    cells, columns = np.eye(table), np.tile(np.eye(size), (size, 1))
    nothing, each = np.zeros((table, 1)), np.kron(np.eye(size), np.ones(size))
    rows = np.block(
        [
            [-cells, columns, nothing],
            [cells, -math.exp(epsilon) * columns, nothing],
            [each * losses.ravel(), np.zeros((size, size)), -np.ones((size, 1))],
        ]
    )
    sums = np.hstack((each, np.zeros((size, size + 1))))
    aim = np.zeros(table + size + 1)
    aim[-1] = 1
    found = linprog(aim, A_ub=rows, b_ub=np.zeros(len(rows)), A_eq=sums, b_eq=np.ones(size))
    assert found.fun < 0.8 * worst(epsilon, 1 / (math.exp(epsilon / 2) + 1), 2)
