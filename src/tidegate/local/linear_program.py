"""A small dense linear program, solved by an interior-point method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate.lattice import FloatArray

_STEPS = 100
_TOLERANCE = 1e-9
_FAR = 1e15  # a solution so large is none
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
        lacking = sides - matrix @ point
        excess = cost - matrix.T @ multipliers - reduced
        value, bound = float(cost @ point), float(sides @ multipliers)
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
        reached = (point + far * ahead) @ (reduced + far_reduced * ahead_reduced)
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
        self._basis, self._corner = np.linalg.qr((matrix * self._root).T)

    def step(self, products: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The changes (dx, dy, ds) for p = `products`.

        Without dx and ds, A·R²·A'·dy = lacking + A·R·pull with R² = x/s. By R·A' = Q·C the
        condition of C, not its square, decides how exact dy is: degenerate optima need that.
        """
        pull = products / (self._root * self._reduced) + self._root * self._excess
        held = np.linalg.solve(self._corner.T, self._lacking) + self._basis.T @ pull
        turn = np.linalg.solve(self._corner, held)
        return self._root * (self._basis @ held - pull), turn, self._excess - self._matrix.T @ turn


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
    basis, corner = np.linalg.qr(matrix.T)
    point: FloatArray = basis @ np.linalg.solve(corner.T, sides)
    multipliers: FloatArray = np.linalg.solve(corner, basis.T @ cost)
    reduced = cost - matrix.T @ multipliers
    point = point + max(-1.5 * float(point.min()), 0.0)
    reduced = reduced + max(-1.5 * float(reduced.min()), 0.0)
    product = max(float(point @ reduced), 1e-12)
    point = point + 0.5 * product / max(float(reduced.sum()), 1e-12)
    reduced = reduced + 0.5 * product / max(float(point.sum()), 1e-12)
    return point, multipliers, reduced
