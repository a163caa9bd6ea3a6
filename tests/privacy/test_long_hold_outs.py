"""`ScaleFree` with a long hold-out: its exact loss, its scores by definition, its purpose."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.privacy.test_tail_quantile import keystream, law
from tidegate.lattice import Lattice
from tidegate.threshold import ScaleFree

Ints = NDArray[np.int64]
LONG = 1 << 15
# Few values that stand for a hold-out: scores know its announced length only.
SMALL = Lattice(Fraction(6), Fraction(1))
NONE: tuple[int, ...] = ()
# With ε = 1/64 a count below 64 is as good as 64.
CASES = [(Fraction(2), NONE), (Fraction(1, 64), (6,) * 65)]


def worst_loss(epsilon: Fraction, others: tuple[int, ...], stretched: float) -> float:
    """Over three values up to 6 beside the others, all replaced values and all outcomes."""
    stage = ScaleFree(epsilon=epsilon, bound=6, holdout=LONG)
    laws = {}
    for window in itertools.combinations_with_replacement(range(7), 3):
        _, scores, apart = stage.scores(np.array(window + others), SMALL)
        laws[window] = np.log(law(scores, apart, float(epsilon) * stretched))
    worst = 0.0
    for window, place, value in itertools.product(laws, range(3), range(7)):
        other = tuple(sorted((*window[:place], *window[place + 1 :], value)))
        worst = max(worst, float(np.abs(laws[window] - laws[other]).max()))
    return worst / float(epsilon)


@pytest.mark.parametrize(("epsilon", "others"), CASES)
def test_the_choice_costs_at_most_epsilon(epsilon: Fraction, others: tuple[int, ...]) -> None:
    assert 0.8 < worst_loss(epsilon, others, 1.0) <= 1 + 1e-9
    assert worst_loss(epsilon, others, 1.3) > 1


@pytest.mark.parametrize("epsilon", ["1/64", "1/7", "3"])
def test_one_value_moves_scores_apart_by_what_is_paid_for(epsilon: str) -> None:
    """Never by more, and by nearly all of it: else the price would be too high."""
    stage = ScaleFree(epsilon=epsilon, bound=10**6, holdout=LONG)
    lattice = Lattice(Fraction(10**6), Fraction(1))
    random = np.random.default_rng(1)
    largest, apart = 0, 1
    for _ in range(100):
        values = np.floor(np.exp(random.uniform(0, 14, size=300))).astype(np.int64)
        values[:200] = 10**6  # more above most candidates than the target
        before = stage.scores(values, lattice)[1]
        values[-1] = random.choice([0, 1, 10**6])
        _, after, apart = stage.scores(values, lattice)
        moved = after - before
        largest = max(largest, int(moved.max() - moved.min()))
        assert largest <= apart
    assert largest > 0.95 * apart


@pytest.mark.parametrize("bound", [200, 2**52])
def test_scores_by_definition(bound: int) -> None:
    """Against fractions, value by value, up to one step of the scores."""
    stage = ScaleFree(epsilon="1/50", bound=bound, holdout=LONG)
    values = np.random.default_rng(1).integers(0, bound + 1, size=300)
    grid, scores, apart = stage.scores(values, Lattice(Fraction(bound), Fraction(1)))
    steps = 1 << 20
    weight = Fraction(math.ceil(Fraction(30 * 50 * steps, LONG)), steps)
    assert apart == (1 + weight) * steps
    for theta, score in zip(grid.tolist(), scores.tolist(), strict=True):
        over = sum(
            Fraction(math.floor(min(1, Fraction(16 * max(v - theta, 0), theta)) * 256), 256)
            for v in values.tolist()
        )
        bulk = sum(Fraction(min(v, theta), theta) for v in values.tolist())
        expected = weight * bulk - max(over, 50) - 150 * Fraction(math.log(theta))
        assert abs(Fraction(score, steps) - expected) <= Fraction(2, steps)


def mean_log(values: Ints, stage: ScaleFree, lattice: Lattice) -> float:
    return float(
        np.mean([math.log(stage.choose(values, lattice, keystream(one))) for one in range(20)])
    )


@pytest.mark.parametrize(("tail", "ratio"), [("heavy", 1.3), ("light", 0.95)])
def test_the_bulk_tells_how_heavy_the_tail_is(tail: str, ratio: float) -> None:
    """Of a heavy tail θ is higher than without a look at the bulk, of a light one lower."""
    random = np.random.default_rng(5)
    drawn = random.pareto(1.2, LONG) * 20 if tail == "heavy" else random.normal(1000, 200, LONG)
    values = np.clip(drawn, 0, 10**6).astype(np.int64)
    lattice = Lattice(Fraction(10**6), Fraction(1))
    long = ScaleFree(epsilon="1/50", bound=10**6, holdout=LONG)
    short = ScaleFree(epsilon="1/50", bound=10**6, holdout=LONG - 1)
    factor = math.exp(mean_log(values, long, lattice) - mean_log(values, short, lattice))
    assert factor > ratio if ratio > 1 else factor < ratio
