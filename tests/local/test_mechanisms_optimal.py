"""The table of least variance really has the least, among all tables."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

from tests.depth import in_turn
from tidegate.local.mechanisms import hybrid_variance, optimal
from tidegate.local.mechanisms.optimal_by_linear_program import (
    INPUTS,
    expected_shares_for_optimal,
    optimal_probabilities,
    outputs_of_optimal,
)

X = np.linspace(-1, 1, INPUTS)


def least_cost(epsilon):
    """Σ share·E(output²) of the best table, by scipy, over all tables: P and q themselves."""
    outputs = outputs_of_optimal(epsilon)
    rows, columns = INPUTS, outputs.size
    cells, ones = rows * columns, np.ones((1, columns))
    cost = np.append(
        np.outer(expected_shares_for_optimal(X), outputs**2).ravel(), np.zeros(columns)
    )
    totals = sparse.kron(sparse.eye(rows), ones)
    means = sparse.kron(sparse.eye(rows), outputs[None])
    equal = sparse.hstack((sparse.vstack((totals, means)), sparse.csr_matrix((2 * rows, columns))))
    least = sparse.vstack([sparse.eye(columns)] * rows)  # q_k, for every cell
    below = sparse.hstack((-sparse.eye(cells), least))
    above = sparse.hstack((sparse.eye(cells), -np.exp(float(epsilon)) * least))
    result = linprog(
        cost,
        A_ub=sparse.vstack((below, above)).tocsr(),
        b_ub=np.zeros(2 * cells),
        A_eq=equal.tocsr(),
        b_eq=np.append(np.ones(rows), X),
        bounds=(0, None),
    )
    assert result.status == 0
    return result.fun


@pytest.mark.parametrize("epsilon", in_turn(["0.62", "1", "2.5", "5"], 0))
def test_no_table_has_less_variance(epsilon):
    epsilon = Fraction(epsilon)
    outputs, probabilities = optimal_probabilities(epsilon)
    cost = expected_shares_for_optimal(X) @ probabilities @ outputs**2
    assert cost == pytest.approx(least_cost(epsilon), rel=1e-6)
    # What is handed out, in integers, is that table.
    question = optimal(100, epsilon)
    realised = expected_shares_for_optimal(X) @ (question.variance(X) + X**2)
    assert realised == pytest.approx(cost, rel=1e-5)
    assert question.reports == outputs.size <= 30


@pytest.mark.parametrize(("epsilon", "gain"), [("1", 1.11), ("2", 1.34)])
def test_variance_is_below_the_hybrid_mechanism_for_skewed_values(epsilon, gain):
    epsilon = Fraction(epsilon)
    x = np.linspace(-1, 1, 4_001)
    shares = expected_shares_for_optimal(x)
    ratio = (shares @ hybrid_variance(x, epsilon)) / (shares @ optimal(100, epsilon).variance(x))
    assert ratio > gain


def test_small_budgets_get_stochastic_rounding():
    assert optimal(100, Fraction(61, 100)).reports == 2
    assert optimal(100, Fraction(62, 100)).reports > 2
