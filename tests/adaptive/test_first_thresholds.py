"""Where θ may begin, and rows of a warm-up that was finished early."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tidegate.lattice import Lattice
from tidegate.run.refinement_schedule import Refinement
from tidegate.run.warm_up_length import later_length
from tidegate.threshold import TailQuantile
from tidegate.threshold.least_threshold import (
    least_threshold,
    lifted_threshold,
    threshold_has_fallen,
)


def test_the_least_threshold_is_public_and_fades_with_what_is_known() -> None:
    lattice = Lattice(Fraction(1000), Fraction(1))
    least = [
        least_threshold(TailQuantile(epsilon=1, bound=1000, holdout=count, horizon=2048), lattice)
        for count in (1, 9, 10, 20, 100)
    ]
    # 1000/exp((9 − 9/4 − 5)/3); from 10 on the bulk of the values is looked for, at any height.
    assert least == [1000, 558, 1, 1, 1]
    far = Lattice(Fraction(10**6), Fraction(1))
    few = TailQuantile(epsilon=1, bound=10**6, holdout=9, horizon=1000)
    assert least_threshold(few, far) == 16  # of 558,035: whole numbers are a unit of the data


def test_the_least_threshold_leaves_more_than_noise_of_a_short_stream() -> None:
    """1000·ε·n/2048: what the bound itself would drown is not where θ begins."""
    lattice = Lattice(Fraction(1000), Fraction(1))
    stages = [
        TailQuantile(epsilon=share, bound=1000, holdout=2, horizon=length, stream_epsilon="1/600")
        for share, length in (("1/800", 20_000), ("1/800", 200), ("1/1200", 20_000))
    ]
    assert [least_threshold(stage, lattice) for stage in stages] == [16, 1, 16]


@pytest.mark.parametrize("bound", [500, 2000])
def test_a_window_with_little_budget_is_not_published_as_noise(bound: int) -> None:
    """20,000 values and ε = 0.1 for any 60: no worse than zeros, and the interval holds."""
    values = np.random.default_rng(bound).poisson(bound / 100, 20_000)
    squares = []
    for seed in range(3):
        window = tg.units.Window(length=60)
        release = tg.adaptive(0.1, bound, horizon=20_000, unit=window).start(tg.seeded(seed))
        release.push(values)
        answer = release.query(0, 20_000)
        assert answer.low <= values.sum() <= answer.high
        squares.append((answer.estimate / values.sum() - 1) ** 2)
    assert np.median(squares) < 1  # several hundred with θ at the bound


def test_values_that_are_mostly_zero_lift_a_later_threshold_once_they_can_be_seen() -> None:
    stage = TailQuantile(epsilon=1, bound=1000, holdout=1000, horizon=4000, stream_epsilon=1)
    assert stage.target == Fraction(25, 4)  # 25 values: 13.75/2 e-folds, too few to lift it
    assert lifted_threshold(stage, Lattice(Fraction(10**4), Fraction(1)), 25) == 1
    assert (
        lifted_threshold(stage, Lattice(Fraction(10**4), Fraction(1)), 26) == 6
    )  # 10⁴/exp(14.75/2)
    assert lifted_threshold(stage, Lattice(Fraction(10**6), Fraction(1)), 26) == 16
    # A θ that has fallen: half an e-fold is enough. 10⁴/exp((13 − 6.25 − 5)/2)
    assert lifted_threshold(stage, Lattice(Fraction(10**4), Fraction(1)), 12, fallen=True) == 1
    assert lifted_threshold(stage, Lattice(Fraction(10**4), Fraction(1)), 13, fallen=True) == 4168


def test_a_threshold_that_stayed_where_it_began_has_fallen_and_gets_more_time() -> None:
    # It begins at 1000/exp((20 − 3 − 5)/3) = 18.
    assert [threshold_has_fallen(theta, 1000, Fraction(20)) for theta in (18, 72, 73)] == [
        True,
        True,
        False,
    ]
    # A first choice that looked for the bulk could have stayed at one step.
    assert [threshold_has_fallen(theta, 1000, Fraction(20), first=True) for theta in (4, 5)] == [
        True,
        False,
    ]
    assert threshold_has_fallen(1000, 1000, Fraction(8), first=True)  # it knew too little for that
    facts = {"at": 1000, "first": 100, "warm_up_start": 0, "evidence": 16 * 100}
    assert Refinement().window(3000, **facts) is None  # 800 values more are beyond a third
    assert Refinement().window(3000, **facts, fallen=1) == (935, Fraction(1, 4))
    # Most values are 0: half of ε, since sums that are cut to nothing need none of it.
    assert Refinement().window(3000, **facts, fallen=2) == (561, Fraction(1, 2))


@pytest.mark.parametrize("seed", range(2))
def test_a_stream_of_mostly_zeros_finds_its_threshold_late(seed: int) -> None:
    random = np.random.default_rng(5)
    values = np.where(random.random(3000) < 0.05, random.integers(20, 50, 3000), 0)
    release = tg.adaptive(3, 50, horizon=3000).start(tg.seeded(seed))
    release.push(values[:500])
    again = release.pipeline.resume(release.snapshot(brief=True))
    rest = release.push(values[500:])
    assert np.array_equal(again.push(values[500:]), rest)
    first, *_, last = release.phases
    assert first.threshold < 1
    assert last.threshold >= 20


def test_rows_of_a_later_warm_up_that_was_finished_are_published_once() -> None:
    values = np.repeat([100, 400], 600)
    release = tg.adaptive(30, 1000, horizon=1200).start(tg.seeded(1))
    out = [*release.push(values[:600])]
    while release.warming != later_length(Fraction(30), 1200, at=len(out)) - 5:
        out.append(release.push(400))
        assert len(out) < 700
    placeholders = sum(out[-5:])
    assert placeholders > 400  # forecasts of the level before
    release.finish()
    out += [*release.push(values[len(out) :])]
    sums = sum(segment.leaves.total for segment in release.record.segments)
    assert abs(sum(out) - sums * release.pipeline.lattice.step) < placeholders / 4
