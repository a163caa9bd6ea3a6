"""Every noise source of a running release has the claimed scale: right at ±0 %, wrong at ±30 %.

Black box: values are all zero, so what comes out of `push` is noise, and without consistency single
nodes can be read off: the first leaf of a tree is its leaf draw, a tree's total its top draw.
"""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import tidegate as tg
from tidegate.lattice import Lattice

WRONG = (0.7, 1.3)
THETA = 20
TREES = 8000


def noise_of(perturber, values, seed=1):
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(THETA), perturber=perturber, estimator=tg.estimate.Unsmoothed()
    )
    return pipeline.start(tg.seeded(seed)).push(np.zeros(values)).astype(np.int64)


def tree(**settings):
    return tg.perturb.Hierarchy(
        **{"epsilon": "1/2", "fanout": 3, "skipped": 0, "consistent": False, **settings}
    )


def nodes_by_level(perturber):
    """Independent draws of every level of many trees, read off the output."""
    fanout, levels = perturber.fanout, perturber.tree_levels
    width = fanout ** (levels - 1)
    noise = noise_of(perturber, perturber.horizon).reshape(-1, width)
    return [noise[:, : fanout**level].sum(axis=1) for level in range(levels)]


CASES = {
    "equal": (tree(horizon=9 * TREES, levels=3), [Fraction(1, 3)] * 3),
    "shares": (tree(horizon=9 * TREES, shares=(4, 1, 3)), [Fraction(n, 8) for n in (4, 1, 3)]),
    "binary": (tree(horizon=2 * TREES, fanout=2, levels=2), [Fraction(1, 2)] * 2),
}


def check_levels(tools, nodes, shares, factor=1.0):
    return [
        tools.fits_laplace(draws, factor * THETA / (0.5 * share))
        for draws, share in zip(nodes, shares, strict=True)
    ]


@pytest.mark.parametrize("case", CASES)
def test_node_noise(tools, case):
    # Catches: a scale that forgets θ, a level or a share; shares in the wrong order.
    perturber, shares = CASES[case]
    nodes = nodes_by_level(perturber)
    assert all(check_levels(tools, nodes, shares))
    for factor in WRONG:
        assert not any(check_levels(tools, nodes, shares, factor))


@pytest.mark.parametrize("factor", WRONG)
def test_node_noise_of_a_faulty_stage(tools, plant_scales, factor):
    # The planted fault: the stage itself is 30 % off. The same check must say so, at every level.
    plant_scales(lambda right, *spent: tuple(s * Fraction(str(factor)) for s in right(*spent)))
    perturber, shares = CASES["equal"]
    assert not any(check_levels(tools, nodes_by_level(perturber), shares))


@pytest.mark.parametrize("block", [1, 4])
def test_flat_noise(tools, block):
    perturber = tg.perturb.Flat(epsilon="1/4", horizon=5000, block=block)
    noise = noise_of(perturber, 20_000 * block).reshape(-1, block)[:, -1]
    assert tools.fits_laplace(noise, THETA * 4)
    for factor in WRONG:
        assert not tools.fits_laplace(noise, factor * THETA * 4)


@pytest.mark.parametrize("factor", WRONG)
def test_flat_noise_of_a_faulty_stage(tools, plant_scales, factor):
    plant_scales(lambda right, *spent: tuple(s * Fraction(str(factor)) for s in right(*spent)))
    noise = noise_of(tg.perturb.Flat(epsilon="1/4", horizon=5000), 20_000)
    assert not tools.fits_laplace(noise, THETA * 4)


def test_noise_of_one_value_at_a_time(tools):
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(THETA), perturber=tg.perturb.Flat(epsilon="1/4", horizon=5000)
    )
    release = pipeline.start(tg.seeded(3))
    noise = np.array([release.push(0) for _ in range(10_000)]).astype(np.int64)
    assert tools.fits_laplace(noise, THETA * 4)
    for factor in WRONG:
        assert not tools.fits_laplace(noise, factor * THETA * 4)


def test_neighbouring_draws_are_independent(tools):
    # Catches: one draw used for two leaves, or for the two ends of a horizon.
    noise = noise_of(tg.perturb.Flat(epsilon=1, horizon=5000), 40_000).astype(np.float64)
    for lag in (1, 2, 3, 4999, 5000, 5001):
        correlation = np.mean(noise[lag:] * noise[:-lag]) / np.mean(np.square(noise))
        assert abs(correlation) < 5 / np.sqrt(noise.size - lag)


# -- consistent forests: contrasts of siblings see leaves only, totals see every level -----------


@pytest.mark.parametrize("shares", [None, (1, 2, 4)])
def test_consistent_noise(tools, shares):
    fanout, levels = 3, 3
    perturber = tree(horizon=9 * TREES, levels=levels, shares=shares, consistent=True)
    noise = noise_of(perturber, perturber.horizon).reshape(-1, 9).astype(np.float64)
    weights = np.array(shares or (1, 1, 1), dtype=float)
    scales = THETA / (0.5 * weights / weights.sum())
    variances = np.array([tools.laplace_variance(scale) for scale in scales])
    # Least squares by matrices: all draws, weighted, as estimates of the nine leaves.
    design = np.vstack(
        [np.kron(np.eye(9 // fanout**level), np.ones(fanout**level)) for level in range(3)]
    )
    precision = design.T @ np.diag(1 / np.repeat(variances, (9, 3, 1))) @ design
    covariance = np.linalg.inv(precision)
    for contrast in (
        np.array([1, -1, 0, 0, 0, 0, 0, 0, 0]),  # siblings: leaf draws alone
        np.array([1, 1, 1, -1, -1, -1, 0, 0, 0]),
        np.ones(9),  # the tree's total
        np.eye(9)[4],
    ):
        found, variance = noise @ contrast, float(contrast @ covariance @ contrast)
        assert tools.fits_variance(found, variance)
        for factor in WRONG:
            assert not tools.fits_variance(found, variance * factor**2)


# -- thresholds ---------------------------------------------------------------------------------

CHOICES = 6000


def choices(stage, values, lattice, count=CHOICES):
    units = lattice.units(np.asarray(values))
    return np.array(
        [
            stage.choose(units, lattice, tg.seeded(seed).new_epoch().keystream("threshold", b""))
            for seed in range(count)
        ]
    )


def permute_and_flip_law(scores, rate):
    """P(i) = p_i·∫Π_{j≠i}(1 − p_j·t)dt, as an exact integral of a polynomial in floats."""
    p = np.exp(-rate * (np.max(scores) - np.asarray(scores, dtype=float)))
    law = []
    for i in range(p.size):
        product = np.polynomial.Polynomial([1.0])
        for j in np.delete(np.arange(p.size), i):
            product *= np.polynomial.Polynomial([1.0, -p[j]])
        law.append(p[i] * product.integ()(1.0))
    return np.array(law)


def fits_law(counts, law, significance=1e-6):
    return stats.chisquare(counts, law * counts.sum()).pvalue > significance


def test_threshold_choice(tools):
    # The score by hand: −3mθ/(c·r·ε)·√(2(b−1)·log_b(r)³) − #{values above θ}, with r = 16, b = 2.
    values = [1, 1, 2, 3, 3, 3, 5, 6]
    stage = tg.threshold.NoisyMax(
        epsilon="4/5", bound=6, holdout=8, horizon=16, fanout=2, scale=40, stream_epsilon=2
    )
    per_unit = 3 * 8 / (40 * 16 * 2) * np.sqrt(2 * 1 * 4**3)
    scores = [-per_unit * theta - sum(v > theta for v in values) for theta in range(1, 7)]
    chosen = choices(stage, values, Lattice(Fraction(6), Fraction(1)))
    counts = np.bincount(chosen, minlength=7)[1:]
    law = permute_and_flip_law(scores, 0.8)
    assert law.sum() == pytest.approx(1)
    assert fits_law(counts, law)
    for factor in WRONG:
        assert not fits_law(counts, permute_and_flip_law(scores, factor * 0.8))


@pytest.mark.parametrize("failure", [None, "0.006"])
def test_smooth_quantile_noise(tools, failure):
    # θ = x_p + κ·SS/a·(Z + g): solved for Z, with SS by the definition.
    epsilon, delta, top = 1.0, 1e-6, 10**9
    values = np.sort(np.random.default_rng(0).integers(0, top, size=101))
    stage = tg.threshold.SmoothQuantile(
        epsilon=1,
        delta="0.000001",
        bound=top,
        holdout=101,
        percentile=90,
        failure=failure,
        clip=False,
    )
    chosen = choices(stage, values, Lattice(Fraction(top), Fraction(1)), 2400)
    rank, beta = 91, epsilon / (2 * np.log(1 / delta))
    padded = np.concatenate((np.zeros(120), values, np.full(120, top)))  # V(i) at padded[i + 119]
    spread = max(
        np.exp(-beta * k)
        * max(padded[rank + t + 119] - padded[rank + t - k - 1 + 119] for t in range(k + 2))
        for k in range(103)
    )
    shift = 0.0 if failure is None else np.log(1 / (2 * 0.006))
    kappa = 1 / (1 - np.expm1(beta) * shift / (epsilon / 2))
    noise = (chosen - values[rank - 1]) / (kappa * spread / (epsilon / 2)) - shift
    inside = noise[
        chosen > 1
    ]  # θ is at least one step: that end is clipped, the others are Laplace
    lowest = (1 - values[rank - 1]) / (kappa * spread / (epsilon / 2)) - shift

    def agrees(scale):
        law = stats.laplace(scale=scale)
        tail = law.cdf(lowest)
        share = stats.binomtest(chosen.size - inside.size, chosen.size, tail).pvalue
        fit = stats.kstest(inside, lambda z: (law.cdf(z) - tail) / (1 - tail)).pvalue
        # Where both signs are inside, sizes alone: a wrong scale shows twice as clearly.
        sizes, both = np.abs(noise[np.abs(noise) < -lowest]), 2 * law.cdf(-lowest) - 1
        size = stats.kstest(sizes, lambda z: (2 * law.cdf(z) - 1) / both).pvalue
        return min(fit, share, size) > 1e-6

    assert agrees(1.0)
    for factor in WRONG:
        assert not agrees(factor)
