"""What is published does not hang on a mathematical library: plain IEEE arithmetic decides."""

from __future__ import annotations

import ast
import hashlib
import math
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
import tidegate.estimate.mixture
from tidegate.estimate.mixture import portable_exp_and_log
from tidegate.estimate.mixture.kalman_filter.kalman_filters import KalmanFilters
from tidegate.estimate.mixture.portable_exp_and_log import (
    exp,
    expm1,
    halved_each,
    log,
    one_exp,
    one_log,
)
from tidegate.estimate.mixture.smoother.cell_variances import applied_to_cells, cell_products
from tidegate.noise import discrete_laplace_variance
from tidegate.perturb.adaptive.adaptive_trees import AdaptiveTrees
from tidegate.perturb.adaptive.tree_shapes import RANGE_ERROR, cap_factor_of_shape

FOLDER = Path(tidegate.estimate.mixture.__file__).parent
# Libraries differ in these, or in the order in which they add up.
LIBRARY = {
    "exp", "expm1", "exp2", "log", "log2", "log10", "log1p", "pow", "power", "sin", "cos", "tanh",
    "matmul", "dot", "vdot", "inner", "einsum", "tensordot", "linalg", "convolve",
}  # fmt: skip


def calls(tree: ast.AST) -> list[str]:
    """What a module takes from numpy and math."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("np", "math"):
            found.append(node.attr)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            found.append("matmul")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            exponent = node.right
            if not (isinstance(exponent, ast.Constant) and exponent.value in (2, 3)):
                found.append("pow")
    return found


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_forecasts_call_no_library_function_that_differs(path: Path) -> None:
    assert not LIBRARY & set(calls(ast.parse(path.read_text())))


def test_the_scan_would_find_them() -> None:
    for text in ("np.exp(x)", "a @ b", "np.linalg.solve(a, b)", "math.log(2)", "x ** y"):
        assert LIBRARY & set(calls(ast.parse(text)))


def test_our_own_functions_are_right() -> None:
    values = np.array([-30.0, -1.0, -1e-9, 0.0, 0.3, 5.0])
    np.testing.assert_allclose(exp(values), np.exp(values), rtol=1e-15)
    np.testing.assert_allclose(expm1(values), np.expm1(values), rtol=1e-15)
    np.testing.assert_allclose(
        log(np.array([1e-30, 0.5, 7.0])), np.log([1e-30, 0.5, 7]), rtol=1e-15
    )
    times = np.array([0.0, 1e-12, 0.3, 0.999999, 1.0, 17.3, 35.99])
    np.testing.assert_allclose(halved_each(times), 2.0**-times, rtol=1e-10)
    random = np.random.default_rng(1)
    left, right = random.normal(size=(2, 9, 6, 6))
    first = np.moveaxis(left, 0, -1), np.moveaxis(right, 0, -1)  # the axes of the matrices first
    found = np.moveaxis(cell_products(*first), -1, 0)
    np.testing.assert_allclose(found, left @ right, rtol=1e-11)
    some = np.moveaxis(applied_to_cells(first[0], first[1][:, 0]), -1, 0)
    np.testing.assert_allclose(some, (left @ right)[..., 0], rtol=1e-11)


@pytest.mark.parametrize("theta", [1, 37, 10**9])
def test_variances_are_those_of_the_noise(theta: int) -> None:
    for tree in AdaptiveTrees(epsilon="1/7", horizon=4000).layouts(4000, theta, 10**10):
        for scale, variance in zip(tree.scales, tree.variances, strict=True):
            assert variance == pytest.approx(discrete_laplace_variance(scale), rel=1e-12)


def test_no_cap_lies_on_a_rounding_edge() -> None:
    """Powers come from a library; caps are multiples of θ/1024 of them, far from every edge."""
    for shape, error in RANGE_ERROR.items():
        for cap_step in range(18):
            factor = (error / 40) ** (-1 / 24)
            if cap_step:
                factor = max(factor, 1.0) * math.sqrt(2) ** (cap_step - 1)
            part = factor * 1024 % 1
            assert abs(part - 0.5) > 1e-6
            assert float(cap_factor_of_shape(shape, cap_step)) == pytest.approx(factor, rel=1e-3)


def released(seed: int, epsilon: str = "1/10", period: int | None = None) -> np.ndarray:
    random = np.random.default_rng(seed)
    values = random.poisson(20 * (1 + 0.8 * np.sin(np.arange(6000) / 300)))
    pipeline = tg.adaptive(epsilon, 500, horizon=2500, holdout=600, resolution=1, period=period)
    return pipeline.start(tg.seeded(seed)).push(values)


@pytest.mark.parametrize(("period", "seeds"), [(None, 8), (1885, 2)])
def test_last_bits_do_not_show(
    monkeypatch: pytest.MonkeyPatch, period: int | None, seeds: int
) -> None:
    """All filters off by a relative 10⁻¹² after every measurement: the same stream, bit for bit."""
    before = [released(seed, period=period) for seed in range(seeds)]
    random = np.random.default_rng(1)
    exact = KalmanFilters.update

    def nearly(self: KalmanFilters, *arguments: Any) -> None:
        exact(self, *arguments)
        self.augmented *= 1 + 1e-12 * random.uniform(-1, 1, size=self.augmented.shape)
        self.mahalanobis *= 1 + 1e-12 * random.uniform(-1, 1, size=self.mahalanobis.shape)

    monkeypatch.setattr(KalmanFilters, "update", nearly)
    after = [released(seed, period=period) for seed in range(seeds)]
    assert sum(int((one != two).sum()) for one, two in zip(before, after, strict=True)) == 0

    def roughly(self: KalmanFilters, *arguments: Any) -> None:
        exact(self, *arguments)
        self.augmented *= 1 + 1e-3 * random.uniform(-1, 1, size=self.augmented.shape)

    monkeypatch.setattr(KalmanFilters, "update", roughly)  # the comparison can fail
    assert (released(0, period=period) != before[0]).any()


def test_the_bits_are_pinned() -> None:
    """Another machine, or another version, must publish the same; if not, the changelog says so."""
    found = hashlib.sha256(b"".join(released(seed, "1/3").tobytes() for seed in range(3)))
    assert found.hexdigest()[:16] == "3dbe7b2fda5643e8"
    cycle = hashlib.sha256(released(0, "1/3", period=1885).tobytes())
    assert cycle.hexdigest()[:16] == "ead023e79ae43d35"


def test_one_exp_is_correctly_rounded() -> None:
    """As decimals give it, bit for bit, near 0 and far from it."""
    random = np.random.default_rng(6)
    values = [*random.normal(0, 3, 1500).tolist(), *random.uniform(-800, 700, 300).tolist()]
    values = [0.0, 1e-300, -1e-17, 0.6931471805599453, 50.0, *values]
    expected = [float(Decimal(value).exp(Context(prec=30))) for value in values]
    assert [one_exp(value) for value in values] == expected
    assert exp(np.array(values)).tolist() == expected


@pytest.mark.parametrize("off", [1.0, 1 + 1e-13])
def test_one_log_is_correctly_rounded(monkeypatch: pytest.MonkeyPatch, off: float) -> None:
    """As decimals give it, bit for bit, also where the first guess is worse than it is."""
    guess = portable_exp_and_log._near_log
    monkeypatch.setattr(portable_exp_and_log, "_near_log", lambda mantissa: guess(mantissa) * off)
    random = np.random.default_rng(7)
    near = 1 + random.uniform(-1, 1, 300) * 10.0 ** -random.uniform(0, 16, 300)
    values = [*random.uniform(1, 50, 500).tolist(), *near.tolist()]
    values += np.exp(random.uniform(-700, 700, 300)).tolist()
    for value in [1.0, 2.0, 0.5, 5e-324, 1e-300, 1.7e308, *values]:
        assert one_log(value) == float(Decimal(value).ln(Context(prec=30)))
