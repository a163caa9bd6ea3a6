"""`TailQuantile`: the exact privacy loss of tiny windows, the law of the choice, and its aim."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tidegate as tg
from tests.privacy.scores import check_scores
from tidegate.lattice import Lattice
from tidegate.randomness import Keystream
from tidegate.threshold import TailQuantile
from tidegate.threshold.choices_of_many_streams import counts_above_of_streams
from tidegate.threshold.tail_quantile import PARTS

Ints = NDArray[np.int64]
UNIT = Fraction(1)


def keystream(seed: int) -> Keystream:
    return tg.seeded(seed).new_epoch().keystream("threshold", b"")


def scored(
    stage: TailQuantile, values: Ints, lattice: Lattice, at_least: int = 1
) -> tuple[Ints, Ints, int]:
    return stage.scores(stage.above(values, lattice), lattice, at_least)


def law(scores: Ints, denominator: int, rate: float) -> list[float]:
    """Permute-and-flip: P(i) = p_i·∫₀¹ Π_{j≠i} (1 − p_j·t) dt, the integral of a polynomial."""
    best = int(scores.max())
    return _law(tuple(math.exp(-rate * (best - int(one)) / denominator) for one in scores))


@cache  # many windows give the same scores
def _law(accept: tuple[float, ...]) -> list[float]:
    found = []
    for chosen, chance in enumerate(accept):
        product = np.ones(1)
        for other, its in enumerate(accept):
            if other != chosen:
                product = np.convolve(product, (1.0, -its))
        found.append(chance * float((product / np.arange(1, product.size + 1)).sum()))
    return found


def worst_loss_of_windows(
    stage: TailQuantile,
    lattice: Lattice,
    values: Sequence[int],
    rate: float,
    **facts: Any,
) -> float:
    """Over all windows of three of these values, all replaced values and all outcomes."""
    laws = {}
    for window in itertools.combinations_with_replacement(values, 3):
        above = stage.above(np.array(window), lattice)
        _, scores, denominator = stage.scores(above, lattice, **facts)
        laws[window] = law(scores, denominator, rate)
    worst = 0.0
    for window, before in laws.items():
        for place, value in itertools.product(range(3), values):
            other = tuple(sorted((*window[:place], *window[place + 1 :], value)))
            for one, two in zip(before, laws[other], strict=True):
                worst = max(worst, abs(math.log(one / two)))
    return worst


def worst_loss(
    stage: TailQuantile, rate: float, at_least: int, positive: int | None = None
) -> float:
    """Over all windows of three values up to 6, all replaced values and all outcomes."""
    lattice, facts = Lattice(stage.bound, UNIT), {"at_least": at_least, "positive": positive}
    return worst_loss_of_windows(stage, lattice, range(7), rate, **facts)


# Targets of 0.3, of 3/4 (the most that three values allow), and candidates above a floor.
STAGES = [
    (TailQuantile(epsilon=10, bound=6, holdout=3, horizon=1000), 1),
    (TailQuantile(epsilon=3, bound=6, holdout=3, horizon=3), 1),
    (TailQuantile(epsilon="1/2", bound=6, holdout=3, horizon=3, stream_epsilon=100), 1),
    (TailQuantile(epsilon=3, bound=6, holdout=3, horizon=3), 2),
]


@pytest.mark.parametrize("positive", [None, 0, 3, 100])
@pytest.mark.parametrize(("stage", "at_least"), STAGES)
def test_the_loss_is_at_most_epsilon(
    stage: TailQuantile, at_least: int, positive: int | None
) -> None:
    epsilon = float(stage.guarantee.epsilon)
    loss = worst_loss(stage, epsilon, at_least, positive)
    assert loss <= epsilon * (1 + 1e-9)
    assert loss > 0.6 * epsilon  # not paid for in vain
    # A selection at a rate that is 30 % too high would be noticed where the loss is used up.
    if loss > 0.8 * epsilon:
        assert worst_loss(stage, 1.3 * epsilon, at_least, positive) > epsilon


def test_scores_are_monotone_with_sensitivity_one() -> None:
    lattice = Lattice(Fraction(200), UNIT)
    stage = TailQuantile(epsilon="1/3", bound=200, holdout=50, horizon=500)
    check_scores(lambda values: scored(stage, values, lattice), rounds=60)


@pytest.mark.parametrize(("actual", "fits"), [("2", True), ("2.6", False)])
def test_the_choice_has_the_law_of_its_epsilon(actual: str, fits: bool) -> None:
    """χ² of 1,500 choices against the law at ε = 2; a rate that is 30 % too high does not fit."""
    lattice = Lattice(Fraction(4), UNIT)
    settings = {"bound": 4, "holdout": 4, "horizon": 4, "stream_epsilon": 2}
    claimed = TailQuantile(epsilon=2, **settings)
    values = np.array([0, 1, 2, 4])
    grid, scores, denominator = scored(claimed, values, lattice)
    expected = 1500 * np.array(law(scores, denominator, 2.0))
    used = TailQuantile(epsilon=actual, **settings)
    assert used.target == claimed.target  # only the rate differs
    assert used.extrapolation == 1
    chosen = [used.choose(values, lattice, keystream(seed)) for seed in range(1500)]
    found = np.bincount(np.searchsorted(grid, chosen), minlength=grid.size)
    distance = float(((found - expected) ** 2 / expected).sum())
    assert (distance < 20.0) == fits  # 3 degrees of freedom: 1 in 6,000 beyond 20


def test_it_finds_the_quantile_it_aims_at() -> None:
    """25/ε of the horizon: the 500th largest of 5,000 values where all of them can be seen."""
    values = np.random.default_rng(2).permutation(np.arange(1, 5001) * 20)
    stage = TailQuantile(epsilon=1, bound=10**6, holdout=5000, horizon=5000, stream_epsilon="1/20")
    assert (stage.target, stage.extrapolation) == (500, 1)
    lattice = Lattice(Fraction(10**6), UNIT)
    chosen = [stage.choose(values, lattice, keystream(seed)) for seed in range(20)]
    # 90,000, less a sixteenth (values hardly above count in part), up to a step of the grid.
    assert 90_000 * 15 / 16 / 1.25 < min(chosen) <= max(chosen) < 90_000 * 1.25


@pytest.mark.parametrize("bound", [10**4, 10**10])
def test_little_to_go_by_gives_the_scale_and_no_absurd_threshold(bound: int) -> None:
    """256 values at ε = 0.075: today's rule takes θ = 1; an empty range up to 10^10 is no trap."""
    values = np.random.default_rng(3).geometric(1 / 30, size=256)
    stage = TailQuantile(
        epsilon="0.075", bound=bound, holdout=256, horizon=1024, stream_epsilon="0.1"
    )
    lattice = Lattice(Fraction(bound), UNIT)
    chosen = np.array([stage.choose(values, lattice, keystream(seed)) for seed in range(60)])
    assert np.median(chosen) >= 8
    assert np.quantile(chosen, 0.9) <= 30 * 10
    assert chosen.max() <= 30 * 300


def test_few_values_above_zero_pay_for_the_climb_if_it_is_known_how_many() -> None:
    """A tenth are 1, in steps of 1/100,000: told so, θ climbs to them."""
    lattice = Lattice(Fraction(5), Fraction(1, 100_000))
    values = np.where(np.arange(4000) % 10 == 0, 100_000, 0)
    stage = TailQuantile(epsilon="1/10", bound=5, holdout=4000, horizon=8000)
    above = stage.above(values, lattice)

    def chosen(positive: int | None) -> list[int]:
        return [
            stage.choose_from(above, lattice, keystream(seed), positive=positive)
            for seed in range(20)
        ]

    assert np.mean(np.array(chosen(400)) > 50_000) > 0.9
    assert np.mean(np.array(chosen(4000)) > 50_000) < 0.1  # as if all could pay: a steep price


def test_a_full_cap_is_not_chosen_again() -> None:
    stage = TailQuantile(epsilon="1/10", bound=1000, holdout=100, horizon=1000)
    lattice = Lattice(Fraction(1000), UNIT)
    values = np.zeros(100, dtype=np.int64)
    assert stage.choose(values, lattice, keystream(1)) < 64
    for seed in range(20):
        assert stage.choose(values, lattice, keystream(seed), at_least=64) >= 64


@pytest.mark.parametrize("unit", [Fraction(1, 1000), Fraction(7), Fraction(10**6)])
def test_the_choice_is_free_of_the_unit(unit: Fraction) -> None:
    values = np.random.default_rng(2).geometric(0.05, size=500)
    plain, other = Lattice(Fraction(500), UNIT), Lattice(500 * unit, unit)
    stage = TailQuantile(epsilon="1/5", bound=500, holdout=500, horizon=5000)
    scaled = TailQuantile(epsilon="1/5", bound=500 * unit, holdout=500, horizon=5000)
    expected = scored(stage, values, plain)
    found = scored(scaled, other.units(other.numbers(values * float(unit))), other)
    for one, two in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("bound", [200, 2**52, 2**53 - 1])
def test_counts_are_exact_and_add_up(bound: int) -> None:
    """Against fractions, value by value; and piece by piece, as a window that keeps no values.

    Caught: far above 2**52, what windows and many streams count wrapped round, so one value moved
    a score by up to 8 and not 1.
    """
    lattice = Lattice(Fraction(bound), UNIT)
    stage = TailQuantile(epsilon="1/3", bound=bound, holdout=50, horizon=500)
    values = np.random.default_rng(1).integers(0, bound + 1, size=50)
    above = stage.above(values, lattice)
    for theta, part in zip(stage.candidates(lattice).tolist(), above.tolist(), strict=True):
        terms = [16 * max(Fraction(v - theta, theta), Fraction(0)) for v in values.tolist()]
        assert part == sum(math.floor(256 * min(Fraction(1), term)) for term in terms)
    pieces = stage.above(values[:17], lattice) + stage.above(values[17:], lattice)
    np.testing.assert_array_equal(pieces, above)
    rows = counts_above_of_streams(values[:, np.newaxis], stage.candidates(lattice))
    np.testing.assert_array_equal(rows.sum(axis=0), above)
    assert rows.min() >= 0
    assert rows.max() <= PARTS
    chosen = stage.choose_from(pieces, lattice, keystream(5))
    assert chosen == stage.choose(values, lattice, keystream(5))
