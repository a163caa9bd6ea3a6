"""The paper's equations against numbers worked out by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate as tg
from tests.depth import examples
from tidegate.lattice import Lattice
from tidegate.noise import float_laplace
from tidegate.perturb.hierarchy_and_flat import paper_skipped_levels
from tidegate.threshold.smooth_sensitivity import smooth_sensitivity


def integers(top: int) -> Lattice:
    return Lattice(Fraction(top), Fraction(1))


# -- NM-E: eq:eme_q --------------------------------------------------------------------------------


def test_the_penalty_of_the_papers_setting() -> None:
    """3m/(c·r·ε)·√(2(b−1)·log_b(r)³) with m = 65,536, c = 60, r = 2^20, ε = 0.1, b = 16:

    3·65,536/(60·1,048,576·0.1) = 196,608/6,291,456 = 0.03125; log_16 2^20 = 5, 5³ = 125;
    2·15·125 = 3,750, √3,750 = 61.2372…; the product is 1.913664…
    """
    stage = tg.threshold.NoisyMax(epsilon=0.1, bound=100)
    assert math.isclose(stage.penalty(), 0.03125 * 61.23724356957945, rel_tol=1e-12)
    # The stream's budget decides, not the threshold's own.
    half = tg.threshold.NoisyMax(epsilon=5, stream_epsilon=0.1, bound=100)
    assert half.penalty() == stage.penalty()
    assert math.isclose(
        tg.threshold.NoisyMax(epsilon=0.2, bound=100).penalty(), stage.penalty() / 2
    )


def test_scores_by_hand() -> None:
    """m = 4, r = 16, b = 16 (log = 1), ε = 1, c = 60: 3·4/(60·16)·√30 = 0.0125·5.4772… = 0.068465….

    Values 1, 3, 3, 5 in [0, 6]: above θ = 1…6 lie 3, 3, 1, 1, 0, 0 (a value at θ is not above it).
    """
    stage = tg.threshold.NoisyMax(epsilon=1, bound=6, holdout=4, horizon=16)
    values = np.array([3, 1, 5, 3])
    grid, scores, denominator = stage.scores(values, integers(6))
    assert grid.tolist() == [1, 2, 3, 4, 5, 6]
    penalty = 0.0125 * math.sqrt(30)
    expected = [
        -penalty * theta - above for theta, above in zip(grid, [3, 3, 1, 1, 0, 0], strict=True)
    ]
    np.testing.assert_allclose(scores / denominator, expected, rtol=1e-9)
    assert grid[np.argmax(scores)] == 5


def test_scores_follow_the_unit_of_the_data() -> None:
    """c = 60 is in the unit of the data: at resolution 1/10 the grid is finer, scores are equal."""
    stage = tg.threshold.NoisyMax(epsilon=1, bound=6, holdout=4, horizon=16)
    fine = Lattice(Fraction(6), Fraction(1, 10))
    grid, scores, denominator = stage.scores(np.array([30, 10, 50, 30]), fine)
    assert grid.size == 60
    coarse, expected, other = stage.scores(np.array([3, 1, 5, 3]), integers(6))
    np.testing.assert_array_equal(grid[9::10], 10 * coarse)
    np.testing.assert_allclose(scores[9::10] / denominator, expected / other, rtol=1e-9)


# -- skipped levels: eq:mse_guess ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "skipped"),
    # The slope −90·(5 − s)²/ε² + 2·ln 16·16^(2s)/36 of (b−1)(5 − s)³·2/ε² + 16^(2s)/36 at half
    # levels; s is rounded up where it is still negative:
    #   ε = .01: at 2.5 −5,625,000 + 161,514;  at 3.5 −2,025,000 + 41,347,584
    #   ε = .05: at 2.5   −225,000 + 161,514;  at 3.5    −81,000 + 41,347,584
    #   ε = .1:  at 1.5   −110,250 + 631;      at 2.5    −56,250 + 161,514
    #   ε = 1:   at 1.5     −1,103 + 631;      at 2.5       −563 + 161,514
    #   ε = 5:   at 0.5        −73 + 2.5;      at 1.5        −44 + 631
    [("0.01", 3), ("0.05", 3), ("0.1", 2), ("1", 2), ("5", 1)],
)
def test_skipped_levels(epsilon: str, skipped: int) -> None:
    assert paper_skipped_levels(Fraction(epsilon), 2**20, 16) == skipped
    assert tg.perturb.Hierarchy(epsilon=epsilon, horizon=2**20).block == 16**skipped


# -- smooth sensitivity ----------------------------------------------------------------------------


def by_definition(values: list[int], rank: int, top: int, decay: float) -> float:
    """max over k = 0…m+1 of e^(−βk)·max over t = 0…k+1 of V(P+t) − V(P+t−k−1), literally."""
    ordered = sorted(values)

    def at(index: int) -> int:
        return 0 if index < 1 else top if index > len(ordered) else ordered[index - 1]

    return max(
        math.exp(-decay * k) * max(at(rank + t) - at(rank + t - k - 1) for t in range(k + 2))
        for k in range(len(ordered) + 2)
    )


def test_smooth_sensitivity_by_hand() -> None:
    """Values 2, 3, 7 in [0, 10], rank 2, e^−β = ½: V = …0, 0 | 2, 3, 7 | 10, 10…

    k=0: t=0: V2−V1 = 1; t=1: V3−V2 = 4 → 4.
    k=1: V2−V0 = 3; V3−V1 = 5; V4−V2 = 7 → 7/2.  k=2: 3, 7, 8, 7 → 8/4.  k=3: ≤ 10/8.
    """
    assert smooth_sensitivity(np.array([2, 3, 7]), 2, 10, math.log(2)) == 4
    # Slower decay, e^−β = 0.9: k=1: 6.3; k=2: 0.81·8 = 6.48; k=3: 0.729·10 = 7.29 → the largest.
    found = smooth_sensitivity(np.array([2, 3, 7]), 2, 10, -math.log(0.9))
    assert math.isclose(found, 7.29, rel_tol=1e-12)


def test_the_authors_short_loop_would_be_seen() -> None:
    """Their t stops at k: of one value 0 in [0, 10], k = 0 sees V1 − V0 = 0, not V2 − V1 = 10."""
    assert smooth_sensitivity(np.array([0]), 1, 10, 1.0) == 10


@settings(max_examples=examples(300))
@given(
    st.lists(st.one_of(st.integers(0, 30), st.sampled_from([0, 5, 30])), min_size=1, max_size=25),
    st.floats(0, 1),
    st.floats(1e-3, 3),
)
def test_smooth_sensitivity_is_its_definition(
    values: list[int], place: float, decay: float
) -> None:
    rank = 1 + round(place * (len(values) - 1))
    found = smooth_sensitivity(np.sort(np.array(values)), rank, 30, decay)
    assert math.isclose(found, by_definition(values, rank, 30, decay), rel_tol=1e-12, abs_tol=1e-12)


@pytest.mark.parametrize("values", [[7], [0], [30], [4, 4], [0, 30], [30] * 9, [0] * 9, [5] * 9])
@pytest.mark.parametrize("decay", [1e-4, 0.05, 1.0])
def test_smooth_sensitivity_of_degenerate_data(values: list[int], decay: float) -> None:
    for rank in range(1, len(values) + 1):
        found = smooth_sensitivity(np.array(values), rank, 30, decay)
        assert math.isclose(found, by_definition(values, rank, 30, decay), rel_tol=1e-12)


def test_smooth_sensitivity_of_many_values() -> None:
    """The divide and conquer at a size where it recurses deeply."""
    random = np.random.default_rng(3)
    for decay in (0.001, 0.01, 0.1):
        values = np.sort(np.minimum(random.geometric(0.02, size=400), 900))
        found = smooth_sensitivity(values, 398, 1000, decay)
        assert math.isclose(found, by_definition(values.tolist(), 398, 1000, decay), rel_tol=1e-12)


# -- S-P and S-PAK ---------------------------------------------------------------------------------


def keystream() -> tg.randomness.Keystream:
    return tg.seeded(11).new_epoch().keystream("threshold", b"")


@pytest.mark.parametrize("failure", [None, "0.006"])
def test_the_smooth_quantile_formula(failure: str | None) -> None:
    """θ from the formula, with Z read from the same keystream."""
    values = np.random.default_rng(1).integers(0, 60, size=500)
    stage = tg.threshold.SmoothQuantile(
        epsilon=0.5,
        delta="1e-6",
        bound=100,
        holdout=500,
        percentile=99,
        failure=failure,
        clip=False,
    )
    z = float(float_laplace(keystream().at(), 1, 1.0)[0])
    beta = 0.5 / (2 * math.log(1e6))
    ordered = np.sort(values)
    spread = by_definition(values.tolist(), 495, 100, beta)  # rank ⌈0.99·500⌉
    a = 0.5 / 2
    if failure is None:
        theta = ordered[494] + spread / a * z
    else:
        g = math.log(1 / (2 * 0.006))  # P(Z > g) = e^−g/2 = 0.006
        kappa = 1 / (1 - (math.exp(beta) - 1) * g / a)
        theta = ordered[494] + kappa * spread / a * (z + g)
    assert stage.choose(values, integers(100), keystream()) == max(1, round(theta))
    assert stage.decay == pytest.approx(beta)


def test_the_constants_of_pak() -> None:
    """G⁻¹(1 − 0.3·0.02) = ln(1/0.012) = 4.4228…; δ = 1/n²; p = 99.575."""
    stage = tg.pak(epsilon=0.1, bound=100).threshold
    assert stage.failure == Fraction(6, 1000)
    assert stage.shift == pytest.approx(4.422848629194137)
    assert stage.delta == Fraction(1, 2**40)
    assert stage.percentile == Fraction(99575, 1000)
    # β = 0.1/(2·ln 2^40) = 0.1/55.4518 = 0.00180337; κ = 1/(1 − (e^β − 1)·4.42285/0.05) = 1.1899…
    assert stage.decay == pytest.approx(0.1 / 55.45177444479562)
    assert stage.stretch == pytest.approx(
        1 / (1 - 0.00180499386 * 4.422848629194137 / 0.05), rel=1e-6
    )


def test_clipping_only_clips() -> None:
    values = np.random.default_rng(1).integers(0, 60, size=200)
    for seed in range(40):
        stream = tg.seeded(seed).new_epoch().keystream("threshold", b"")
        common = {"epsilon": 0.2, "delta": "1e-6", "bound": 100, "holdout": 200}
        free = tg.threshold.SmoothQuantile(**common, clip=False).choose(
            values, integers(100), stream
        )
        clipped = tg.threshold.SmoothQuantile(**common).choose(values, integers(100), stream)
        assert clipped == min(max(free, 1), 100)
