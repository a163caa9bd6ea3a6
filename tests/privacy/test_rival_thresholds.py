"""Thresholds of the literature: what they cost, computed exactly, and whether they draw that."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import tidegate as tg
from tidegate.errors import SettingError
from tidegate.lattice import Lattice
from tidegate.threshold import above_threshold, gaussian_quantile, log_histogram
from tidegate.threshold.smooth_sensitivity import smooth_sensitivity

RUNS = 2500
REACH = 400  # of a discrete Laplace law of scale 2: beyond, less than e^-200


class OneSource:
    """A keystream whose every reader goes on where the last one stopped: independent draws."""

    def __init__(self, seed: int) -> None:
        self._words = tg.seeded(seed).new_epoch().keystream("threshold", b"").at()

    def at(self) -> Any:
        return self._words


def drawn(stage: Any, values: list[int], seed: int, runs: int = RUNS) -> np.ndarray:
    lattice, source = Lattice(stage.bound, Fraction(1)), OneSource(seed)
    held = np.array(values, dtype=np.int64)
    return np.array([stage.choose(held, lattice, source) for _ in range(runs)])


def laplace_law(scale: float) -> tuple[np.ndarray, np.ndarray]:
    """The probabilities of −REACH … REACH, and P(X ≥ k) for the same k."""
    law = np.exp(-np.abs(np.arange(-REACH, REACH + 1)) / scale)
    law /= law.sum()
    return law, law[::-1].cumsum()[::-1]


def stopping_law(counts: list[int], target: int, epsilon: float) -> np.ndarray:
    """P(AboveThreshold stops at candidate i), and last: that it never does."""
    law, above = laplace_law(2 / epsilon)
    going = law.copy()  # P(ρ and every candidate so far was passed over)
    found = []
    for count in counts:
        least = np.clip(np.arange(-REACH, REACH + 1) + target - count + REACH, 0, 2 * REACH)
        found.append(float(going @ above[least]))
        going = going * (1 - above[least])
    return np.array([*found, going.sum()])


def highest_bin_law(counts: list[int], limit: int, epsilon: float) -> np.ndarray:
    """P(the highest bin that counts is i); the rest of the probability is that none does."""
    above = laplace_law(2 / epsilon)[1]
    over = np.array([above[limit + 1 - count + REACH] for count in counts])
    return np.array([share * np.prod(1 - over[i + 1 :]) for i, share in enumerate(over)])


def below(values: tuple[int, ...], ends: tuple[int, ...]) -> list[int]:
    return [sum(value <= end for value in values) for end in ends]


def test_above_threshold_costs_at_most_epsilon_and_nearly_all_of_it() -> None:
    """All neighbours of four values of {0, …, 3}: the law is exact, so the loss is."""
    ends, worst = (1, 2, 3), 0.0
    for values in itertools.product(range(4), repeat=4):
        first = stopping_law(below(values, ends), 4, 1.0)
        for replaced in range(4):
            other = stopping_law(below((replaced, *values[1:]), ends), 4, 1.0)
            worst = max(worst, float(np.abs(np.log(first / other)).max()))
    assert worst <= 1
    assert worst > 0.5
    # After many candidates at the target, nearly the whole of ε: the one value that lies between
    # the last two candidates is replaced by 0.
    before, after = (stopping_law([count] * 3000 + [61], 60, 1.0) for count in (60, 61))
    assert 0.95 < np.abs(np.log(before / after)).max() < 1 + 1e-12


VALUES = [0, 1, 1, 2, 2, 3, 3, 3]
ABOVE = tg.threshold.AboveThreshold(epsilon=1, bound=3, holdout=8, percentile=75)


def above_threshold_fit(epsilon: float, draws: np.ndarray) -> float:
    """How well draws fit the exact law at this ε: the p-value of a χ² test."""
    law = stopping_law(below(tuple(VALUES), (1, 2, 3)), 6, epsilon)
    expected = np.array([law[0], law[1], law[2] + law[3]])  # not reached: the bound
    seen = np.array([np.count_nonzero(draws == theta) for theta in (1, 2, 3)])
    return float(stats.chisquare(seen, expected / expected.sum() * seen.sum()).pvalue)


def test_above_threshold_draws_its_law(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = drawn(ABOVE, VALUES, 1)
    assert above_threshold_fit(1.0, draws) > 1e-3
    assert above_threshold_fit(1.3, draws) < 1e-3
    right = above_threshold.discrete_laplace
    planted = lambda words, count, scale: right(words, count, scale / Fraction(13, 10))  # noqa: E731
    monkeypatch.setattr(above_threshold, "discrete_laplace", planted)
    assert above_threshold_fit(1.0, drawn(ABOVE, VALUES, 1)) < 1e-3


HISTOGRAM = tg.threshold.LogHistogram(epsilon=1, bound=3, holdout=12, ratio=2, failure="0.1")
FULL = [0] * 6 + [2] * 5 + [3]


def histogram_fit(epsilon: float, draws: np.ndarray) -> float:
    """The χ² test of the highest bin that counts, where one does: bins {0, 1}, {2}, {3}."""
    limit = HISTOGRAM.limit(3)
    law = highest_bin_law([6, 5, 1], limit, epsilon)
    # If none counts, the fullest is taken: nearly never the last bin with its single value.
    share = np.count_nonzero(draws == 3)
    return float(stats.binomtest(share, draws.size, law[2] + _empty_but_fullest(limit)).pvalue)


def _empty_but_fullest(limit: int) -> float:
    """P(no bin counts and the last is the fullest), by enumeration; ties go to earlier bins."""
    law = laplace_law(2.0)[0]
    reach = np.arange(-REACH, REACH + 1)
    below_or_at = np.append(0.0, law.cumsum())
    total = 0.0
    for noise, chance in zip(reach.tolist(), law.tolist(), strict=True):
        count = 1 + noise
        if count <= limit:
            others = [below_or_at[np.clip(count - one + REACH, 0, 2 * REACH + 1)] for one in (6, 5)]
            total += chance * others[0] * others[1]
    return float(total)


def test_log_histogram_draws_its_law(monkeypatch: pytest.MonkeyPatch) -> None:
    assert HISTOGRAM.limit(3) == math.ceil(2 * math.log(15))
    draws = drawn(HISTOGRAM, FULL, 2, 4_000)
    assert histogram_fit(1.0, draws) > 1e-3
    right = log_histogram.discrete_laplace
    planted = lambda words, count, scale: right(words, count, scale / Fraction(13, 10))  # noqa: E731
    monkeypatch.setattr(log_histogram, "discrete_laplace", planted)
    assert histogram_fit(1.0, drawn(HISTOGRAM, FULL, 2, 4_000)) < 1e-3


def test_a_replaced_value_moves_two_bins_by_one_each() -> None:
    """The sensitivity 2 that the scale 2/ε rests on, by hand: no more, and no less."""
    counts = np.bincount(np.searchsorted([1, 2, 4], [0, 1, 2, 3, 4]), minlength=3)
    assert counts.tolist() == [2, 1, 2]
    moved = np.bincount(np.searchsorted([1, 2, 4], [4, 1, 2, 3, 4]), minlength=3)
    assert np.abs(moved - counts).sum() == 2


def test_cauchy_noise_costs_a_plus_beta() -> None:
    """The densities themselves, for shifts up to a and stretches up to e^β: at most e^ε."""
    z = np.linspace(-60, 60, 40_001)
    worst = 0.0
    for shift, stretch in itertools.product((-0.5, 0.0, 0.5), (-0.5, 0.0, 0.5)):
        log_first = -np.log1p(z**2)
        moved = (z - shift) * math.exp(stretch)
        log_second = stretch - np.log1p(moved**2)
        worst = max(worst, float(np.abs(log_first - log_second).max()))
    assert 0.75 < worst <= 1.0
    assert tg.threshold.CauchyQuantile(epsilon=1, bound=9).decay == 0.5


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_gaussian_noise_costs_epsilon_and_delta(epsilon: float) -> None:
    """∫ (f − e^ε·g)⁺ by numbers, at the largest shift and stretch: at most δ, and not far below."""
    delta = 1e-5
    stage = tg.threshold.GaussianQuantile(epsilon=epsilon, delta=delta, bound=9)
    z = np.linspace(-40, 40, 800_001)
    first = stats.norm.pdf(z)
    worst = 0.0
    for stretch in (-stage.decay, stage.decay):
        second = stats.norm.pdf(z, loc=stage.shift, scale=math.exp(stretch))
        excess = np.maximum(first - math.exp(epsilon) * second, 0)
        worst = max(worst, float(excess.sum() * (z[1] - z[0])))
    assert worst <= delta
    assert gaussian_quantile.gaussian_shift_failure(epsilon / 2, stage.shift) == pytest.approx(
        delta / 2
    )
    nissim = epsilon / (5 * math.sqrt(2 * math.log(2 / delta)))
    assert stage.shift > 1.5 * nissim  # less noise than the constants of the paper


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("delta", [1e-6, 1e-12, 1e-15, 1e-20])
def test_a_tiny_delta_is_kept(epsilon: float, delta: float) -> None:
    """δ of the largest shift and stretch, with tails from logarithms: at most what is claimed."""
    stage = tg.threshold.GaussianQuantile(epsilon=epsilon, delta=delta, bound=9)
    half, a, beta = epsilon / 2, stage.shift, stage.decay
    first = stats.norm.logsf(half / a - a / 2)
    second = half + stats.norm.logsf(half / a + a / 2)
    shift = -math.exp(first) * math.expm1(second - first)
    limit = math.sqrt((epsilon + 2 * beta) / math.expm1(2 * beta))
    stretch = 2 * math.exp(half + stats.norm.logsf(limit))
    assert shift + stretch <= delta * (1 + 1e-9)
    assert shift + stretch > 0.99 * delta or beta == half
    assert stretch <= delta / 2 * (1 + 1e-9)
    # What the sampler cannot reach: by how much a neighbour's noise ends earlier.
    end = 13.1 * math.exp(-beta) - a
    assert 2 * stats.norm.sf(end) < delta / 2


def test_normal_noise_reaches_far_and_is_even() -> None:
    class Words:
        bits = 64

        def __init__(self, *words: int) -> None:
            self.words = words

        def take(self, count: int) -> np.ndarray:
            return np.array(self.words[:count], dtype=np.uint64)

    far = 13.0 < gaussian_quantile.gaussian_draw(Words(1, 0)) < 13.2
    assert far
    assert gaussian_quantile.gaussian_draw(Words(0, 0)) == -gaussian_quantile.gaussian_draw(
        Words(1, 0)
    )
    middle = [
        gaussian_quantile.gaussian_draw(Words(2**64 - 1 - sign, 2**64 - 1)) for sign in (0, 1)
    ]
    assert middle == pytest.approx([0, 0], abs=1e-15)
    quarter = gaussian_quantile.gaussian_draw(Words(2**63 + 1, 0))  # a share of ¼
    assert quarter == pytest.approx(stats.norm.isf(0.25))


def test_a_delta_beyond_the_tails_is_refused() -> None:
    with pytest.raises(SettingError, match="delta: must be at least 1e-20"):
        tg.threshold.GaussianQuantile(epsilon=1, delta="1e-21", bound=9)


@pytest.mark.parametrize(
    ("stage", "law"),
    [
        (tg.threshold.CauchyQuantile(epsilon=1, bound=10**6, percentile=50), stats.cauchy),
        (
            tg.threshold.GaussianQuantile(epsilon=1, delta="1e-5", bound=10**6, percentile=50),
            stats.norm,
        ),
    ],
    ids=["Cauchy", "Gaussian"],
)
def test_smooth_noise_has_the_scale_that_is_claimed(stage: Any, law: Any) -> None:
    values = (np.arange(301) * 10 + 500_000 - 1500).tolist()
    spread = smooth_sensitivity(np.array(values), 151, 10**6, stage.decay)
    scale = spread / getattr(stage, "shift", stage.decay)
    noise = (drawn(stage, values, 3, 900) - 500_000) / scale
    inner = np.abs(noise) < 400_000 / scale  # what was not clipped
    assert inner.mean() > 0.95
    for factor, fits in ((1.0, True), (0.7, False), (1.3, False)):
        inside = 2 * law.cdf(400_000 / scale / factor) - 1  # sizes, given that none was clipped
        shares = (2 * law.cdf(np.abs(noise[inner]) / factor) - 1) / inside
        test = stats.kstest(shares, "uniform")
        assert (test.pvalue > 1e-3) == fits


def test_far_too_large_a_bound_costs_nothing() -> None:
    """A bound of 10^15 for values below 1,000: θ stays where the quantile is."""
    values = np.minimum(np.random.default_rng(0).geometric(0.02, size=4000), 900).tolist()
    quantile = float(np.quantile(values, 0.95))
    above = tg.threshold.AboveThreshold(epsilon=1, bound=10**15, holdout=4000, percentile=95)
    assert np.abs(drawn(above, values, 4, 50) / quantile - 1).max() < 0.15
    histogram = tg.threshold.LogHistogram(epsilon=1, bound=10**15, holdout=4000)
    assert set(drawn(histogram, values, 5, 50).tolist()) <= {256, 512}
