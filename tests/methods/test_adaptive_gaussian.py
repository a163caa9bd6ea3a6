"""The adaptive release with Gaussian noise: ρ adds up exactly, and is what is drawn."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tidegate.guarantee import concentrated_epsilon
from tidegate.methods import adaptive_gaussian as method
from tidegate.methods.adaptive_gaussian import GaussianTrees, node_variances

STAGE = GaussianTrees(epsilon="1/4", delta="1e-6", horizon=4096)


def test_the_levels_of_every_tree_cost_rho_and_no_more() -> None:
    """Σ cap²/(2σ²) in fractions, for all trees and caps that can be chosen."""
    rho = Fraction(1, 32)
    assert STAGE.guarantee.rho == rho
    assert float(STAGE.guarantee.epsilon) == concentrated_epsilon(rho, Fraction(1, 10**6))
    trees = STAGE.layouts(256, 40, 1000)
    assert {tree.nodes for tree in trees} >= {(1, 4), (1, 16), (1, 16, 128)}
    for tree in trees:
        variances = node_variances(tree.nodes, tree.cap, STAGE.epsilon)
        spent = sum(Fraction(tree.cap**2, 2 * variance) for variance in variances)
        assert Fraction(99, 100) * rho < spent <= rho
        assert tree.variances == tuple(map(float, variances))
        alike = [2 * float(scale) ** 2 for scale in tree.scales]
        assert np.allclose(alike, tree.variances, rtol=1e-5)


def test_node_variances_by_hand() -> None:
    """cap 10, ε = 1/2: 100·4 = 400 for one level, twice that for each of two."""
    assert node_variances((1,), 10, Fraction(1, 2)) == (400,)
    assert node_variances((1, 16), 10, Fraction(1, 2)) == (800, 800)


def drawn(blocks: int) -> list[tuple[float, np.ndarray]]:
    """For every level: the variance that is claimed, and many draws."""
    tree = next(tree for tree in STAGE.layouts(256, 40, 40) if tree.nodes == (1, 16, 128))
    run = STAGE.start(40, 40, tg.seeded(3).new_epoch().keystream("perturb", b""))
    levels: list[list[np.ndarray]] = [[], [], []]
    for number in range(blocks):
        run.number = number % 16
        run.chunk = number // 16
        for found, noise in zip(levels, run.nodes(tree), strict=True):
            found.append(noise)
    return [
        (variance, np.concatenate(found))
        for variance, found in zip(tree.variances, levels, strict=True)
    ]


def test_noise_has_the_variance_that_rho_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    def off() -> float:
        """How far the sample variance of the finest levels is off, in standard deviations."""
        return max(
            abs(noise.var() / variance - 1) / (2 / noise.size) ** 0.5
            for variance, noise in drawn(24)[1:]
        )

    assert off() < 4
    right = method.discrete_gaussian
    monkeypatch.setattr(
        method,
        "discrete_gaussian",
        lambda words, count, variance: right(words, count, variance * Fraction(7, 10)),
    )
    assert off() > 4


def test_it_is_rho_for_the_unit_and_without_a_threshold_it_is_refused() -> None:
    pipeline = tg.adaptive_gaussian(epsilon=1, bound=500, delta="1e-6", horizon=4096, holdout=100)
    assert pipeline.guarantee.rho is not None
    assert pipeline.guarantee.epsilon <= 1
    window = tg.units.Window(length=10)
    windows = tg.adaptive_gaussian(epsilon=1, bound=500, delta="1e-6", holdout=100, unit=window)
    assert windows.guarantee.unit == window.name
    assert windows.guarantee.epsilon <= 1
    with pytest.raises(tg.SettingError, match="holdout"):
        tg.adaptive_gaussian(epsilon=1, bound=500, holdout=0)


def test_its_trees_are_not_refined_with_laplace_noise() -> None:
    refined = tg.adaptive(epsilon=1, bound=500, horizon=4096)
    with pytest.raises(tg.SettingError, match="refines"):
        tg.Pipeline(
            threshold=refined.threshold,
            perturber=STAGE,
            estimator=refined.estimator,
            reselect=refined.reselect,
        )
