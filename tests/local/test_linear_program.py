"""The solver against scipy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tests.depth import examples
from tidegate.local.mechanisms.optimal_by_linear_program import linear_program


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 12),
    more=st.integers(1, 40),
    whole=st.booleans(),
)
def test_same_value_as_scipy_and_proven_by_its_multipliers(seed, rows, more, whole):
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(rows, rows + more))
    if whole:  # many ties: degenerate optima
        matrix = random.integers(-2, 3, size=matrix.shape).astype(float)
    if np.linalg.matrix_rank(matrix) < rows:
        return
    inside = random.exponential(size=rows + more) * (random.random(rows + more) < 0.5)
    slack = random.exponential(size=rows + more) * (random.random(rows + more) < 0.7)
    sides, cost = matrix @ inside, matrix.T @ random.normal(size=rows) + slack
    solution = linear_program(cost, matrix, sides)
    reference = linprog(cost, A_eq=matrix, b_eq=sides, bounds=(0, None))
    assert solution.value == pytest.approx(reference.fun, rel=1e-7, abs=1e-7)
    assert (solution.point >= 0).all()
    assert matrix @ solution.point == pytest.approx(sides, abs=1e-6)
    assert (cost - matrix.T @ solution.multipliers > -1e-6).all()
    assert sides @ solution.multipliers == pytest.approx(solution.value, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize(
    ("cost", "matrix", "sides"),
    [([1.0, 1.0], [[1.0, 1.0]], [-1.0]), ([-1.0, 0.0], [[0.0, 1.0]], [1.0])],
    ids=["infeasible", "unbounded"],
)
def test_a_program_without_a_solution_says_so(cost, matrix, sides):
    with pytest.raises(ArithmeticError, match="no finite solution"):
        linear_program(np.array(cost), np.array(matrix), np.array(sides))
