"""A small dense linear program, solved by an interior-point method."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tidegate.lattice import FloatArray

_STEPS = 100
_TOLERANCE = 1e-9
_FAR = 1e15  # a solution so large is none
_ALMOST = 1e-4  # what is left of a row beside the others, if they are dependent but for rounding
_SHORT_OF_THE_WALL = 0.9995  # of the way to the nearest bound


@dataclass(frozen=True)
class Solution:
    """A point near the optimum, and the proof that it is near.

    Attributes:
        point: x ≥ 0 with A·x = b.
        multipliers: y with A'·y ≤ c, so that b·y is a lower bound of the least value.
        value: c·x.
    """

    point: FloatArray
    multipliers: FloatArray
    value: float


def least(cost: FloatArray, matrix: FloatArray, sides: FloatArray) -> Solution:
    """Minimise cost·x over x ≥ 0 with matrix·x = sides.

    Mehrotra's predictor-corrector method: Newton's steps towards x·s = 0, where s = c − A'·y are
    the reduced costs. A step solves two systems with A·diag(x/s)·A': few rows and many columns are
    cheap. It ends when x and y keep their constraints and c·x − b·y is below 1e-9 of the value (or
    of 1, if that is more). If that does not happen within 100 steps, there is no solution or no
    finite one: ArithmeticError. The rows of the matrix must be independent.

    >>> least(np.array([1.0, 2.0]), np.array([[1.0, 1.0]]), np.array([3.0])).point.round(6)
    array([3., 0.])
    """
    point, multipliers, reduced = _start(cost, matrix, sides)
    for _ in range(_STEPS):
        if (
            max(float(point.max()), float(reduced.max())) > _FAR
            or min(point.min(), reduced.min()) <= 0
        ):
            break
        lacking = sides - _times(matrix, point)
        excess = cost - _transposed_times(matrix, multipliers) - reduced
        value, bound = _inner(cost, point), _inner(sides, multipliers)
        if (
            abs(value - bound) <= _TOLERANCE * max(1.0, abs(value))
            and np.abs(lacking).max() <= _TOLERANCE * max(1.0, np.abs(sides).max())
            and np.abs(excess).max() <= _TOLERANCE * max(1.0, np.abs(cost).max())
        ):
            return Solution(point, multipliers, value)
        newton = _Newton(matrix, point, reduced, lacking, excess)
        products = point * reduced
        ahead, _, ahead_reduced = newton.step(products)
        far, far_reduced = _share(point, ahead), _share(reduced, ahead_reduced)
        reached = _inner(point + far * ahead, reduced + far_reduced * ahead_reduced)
        centre = (reached / products.sum()) ** 3 * products.mean()
        step, turn, reduced_step = newton.step(products + ahead * ahead_reduced - centre)
        point = point + _SHORT_OF_THE_WALL * _share(point, step) * step
        share = _SHORT_OF_THE_WALL * _share(reduced, reduced_step)
        multipliers, reduced = multipliers + share * turn, reduced + share * reduced_step
    raise ArithmeticError("the linear program has no finite solution, or is badly scaled")


class _Newton:
    """Newton's equations at one point: A·dx = lacking, A'·dy + ds = excess, s·dx + x·ds = −p."""

    def __init__(
        self,
        matrix: FloatArray,
        point: FloatArray,
        reduced: FloatArray,
        lacking: FloatArray,
        excess: FloatArray,
    ) -> None:
        self._matrix, self._reduced = matrix, reduced
        self._lacking, self._excess = lacking, excess
        self._root = np.sqrt(point / reduced)
        self._basis, self._corner = _orthogonal(matrix * self._root)

    def step(self, products: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The changes (dx, dy, ds) for p = `products`.

        Without dx and ds, A·R²·A'·dy = lacking + A·R·pull with R² = x/s. By A·R = C·Q the
        condition of C, not its square, decides how exact dy is: degenerate optima need that.
        """
        pull = products / (self._root * self._reduced) + self._root * self._excess
        held = _solved(self._corner, self._lacking) + _times(self._basis, pull)
        turn = _solved(self._corner.T, held)
        forward = self._root * (_transposed_times(self._basis, held) - pull)
        return forward, turn, self._excess - _transposed_times(self._matrix, turn)


# No BLAS for the long products: it would spread them over threads, which have to wait for each
# other. On a busy machine that takes ten to fifty times as long as the arithmetic itself.


def _times(matrix: FloatArray, column: FloatArray) -> FloatArray:
    product: FloatArray = np.einsum("ij,j->i", matrix, column)
    return product


def _transposed_times(matrix: FloatArray, column: FloatArray) -> FloatArray:
    product: FloatArray = np.einsum("ij,i->j", matrix, column)
    return product


def _inner(one: FloatArray, other: FloatArray) -> float:
    return float(np.einsum("i,i->", one, other))


def _solved(matrix: FloatArray, sides: FloatArray) -> FloatArray:
    return np.linalg.solve(matrix, sides).astype(np.float64, copy=False)


def _orthogonal(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Q with orthonormal rows and a lower triangle C with matrix = C·Q.

    By Gram-Schmidt, and where rows are almost dependent twice: once leaves them not orthogonal.
    """
    basis, corner = _gram_schmidt(matrix)
    lengths = corner.diagonal()
    if lengths.min() > _ALMOST * lengths.max():
        return basis, corner
    basis, again = _gram_schmidt(basis)
    return basis, np.einsum("ij,jk->ik", corner, again)


def _gram_schmidt(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    rows = len(matrix)
    basis, corner = matrix.copy(), np.zeros((rows, rows))
    for row in range(rows):
        corner[row, row] = math.sqrt(_inner(basis[row], basis[row]))
        if corner[row, row] == 0:
            raise ArithmeticError("the rows of the linear program are not independent")
        basis[row] /= corner[row, row]
        rest = basis[row + 1 :]
        corner[row + 1 :, row] = _times(rest, basis[row])
        rest -= corner[row + 1 :, row, None] * basis[row]
    return basis, corner


def _share(point: FloatArray, step: FloatArray) -> float:
    """How much of the step, at most all, keeps the point from leaving x ≥ 0."""
    backwards = step < 0
    if not backwards.any():
        return 1.0
    return min(1.0, float((point[backwards] / -step[backwards]).min()))


def _start(
    cost: FloatArray, matrix: FloatArray, sides: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mehrotra's start: the least-squares point and multipliers, pushed away from the bounds."""
    basis, corner = _orthogonal(matrix)
    point = _transposed_times(basis, _solved(corner, sides))
    multipliers = _solved(corner.T, _times(basis, cost))
    reduced = cost - _transposed_times(matrix, multipliers)
    point = point + max(-1.5 * float(point.min()), 0.0)
    reduced = reduced + max(-1.5 * float(reduced.min()), 0.0)
    product = max(_inner(point, reduced), 1e-12)
    point = point + 0.5 * product / max(float(reduced.sum()), 1e-12)
    reduced = reduced + 0.5 * product / max(float(point.sum()), 1e-12)
    return point, multipliers, reduced
