"""When θ is chosen, from how much and for how long: public, and early whatever the horizon is."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import tidegate as tg
from tests.adaptive.test_refined_release import growing
from tests.laws.catalogue import bits
from tidegate.estimate.mixture.outgrown_cap import CapWatch
from tidegate.lattice import Lattice
from tidegate.run.refinement_shares_and_windows import (
    Refinement,
    first_length,
    later_length,
    warm_up_length,
)
from tidegate.threshold import TailQuantile


def test_its_length_comes_from_public_settings() -> None:
    assert warm_up_length(Fraction(1, 100), 2**20) == 10_944  # ⌈5·(n/ε²)^⅓⌉
    assert warm_up_length(Fraction(1, 1000), 1024) == 256  # at most a quarter of the horizon
    window = tg.adaptive(1, 100, horizon=2**16, unit=tg.units.Window(length=10))
    assert window.warm_up == first_length(Fraction(1, 10), 2**16) == 372
    assert window.guarantee.epsilon == 1
    # Nobody has to know how long a stream will be: the first answers come as early.
    assert tg.adaptive("0.1", 100).warm_up == tg.adaptive("0.1", 100, horizon=10**4).warm_up
    assert tg.adaptive(1, 100).warm_up == tg.adaptive(1, 100, horizon=4096).warm_up == 80
    assert first_length(Fraction(1, 100), 2**20) == 2400  # 24/ε
    lengths = [later_length(Fraction(1, 10), 2**20, at=at) for at in (0, 240, 10**4, 10**5, 10**7)]
    assert lengths == [372, 372, 1000, 2155, 2358]


def test_a_warm_up_that_is_longer_than_the_first_is_restored() -> None:
    """Its length follows from where it began, and that of a window's stretch from its opening."""
    pipeline = tg.adaptive(epsilon=8, bound=10_000)
    quiet = np.random.default_rng(2).exponential(5.0, size=1200).astype(np.int64)
    values, whole = np.concatenate((quiet, growing()[250:])), pipeline.start(tg.seeded(5))
    out, longest, warming = whole.push(values), 0, False
    run, found = pipeline.start(tg.seeded(5)), []
    for at in range(0, values.size, 7):
        found.append(run.push(values[at : at + 7]))
        run = pipeline.resume(run.snapshot(brief=at % 2 == 0))
        longest = longest if warming or not at else max(longest, run.warming)
        warming = run.warming > 0
    assert longest > pipeline.warm_up
    assert bits(np.concatenate(found)) == bits(out)
    assert run.phases == whole.phases


def test_a_stream_of_unknown_length_is_measured_from_early_on() -> None:
    """With a horizon of 2²⁰ by default, 1,000 values were all warm-up (ε = 0.1: 2,358)."""
    values = np.random.default_rng(3).gamma(2, 10, size=1000).astype(np.int64)
    errors = []
    for seed in range(8):
        release = tg.adaptive(1, 1000).start(tg.seeded(seed))
        release.push(values)
        errors.append(abs(release.query(200, 1000).estimate / values[200:].sum() - 1))
    assert np.median(errors) < 0.1


def test_a_choice_is_made_for_a_stretch_not_for_the_horizon() -> None:
    """What 80 values show is not extrapolated to a million: later choices will know more."""
    pipeline = tg.adaptive(1, 100)
    assert isinstance(pipeline.reselect, Refinement)
    stages = [
        pipeline.reselect.choice(
            pipeline.threshold, pipeline.perturber, 80, Fraction(3, 4), age=age
        )
        for age in (80, 10**9)
    ]
    assert [stage.horizon for stage in stages] == [1280, 2**20]
    assert float(stages[0].extrapolation) < 1.3 < 4 < float(stages[1].extrapolation)


def test_bursts_that_a_cap_does_not_cut_end_no_block_for_ever() -> None:
    """A mean that was judged not to be cut is no sign of an outgrown cap the next time."""

    def full(mean: float) -> bool:
        return watch.full_leaf(mean, 0.1, 105)

    watch = CapWatch()
    watch.settle(20.0, 105)
    assert full(70)
    watch.keep(70, 105, 20.0, 16)
    watch.judge(right=True)
    watch.settle(20.0, 105)
    assert not full(70)
    assert full(80)  # higher than any that was judged
    watch.keep(80, 105, 20.0, 16)
    watch.judge(right=True)
    assert full(95)  # most values lie at the cap
    watch.judge(right=False)
    assert full(70)


def test_after_a_full_cap_chance_hardly_raises_it_and_growth_does() -> None:
    """Candidates begin at the cap, so values can pay a steeper price than from one step on."""
    lattice, cap, epsilon = Lattice(Fraction(10_000), Fraction(1)), 340, Fraction(1, 20)
    stage = TailQuantile(
        epsilon=epsilon, bound=10_000, holdout=2400, horizon=16 * 2400, stream_epsilon=2 * epsilon
    )
    random = np.random.default_rng(1)
    burst, grown = random.poisson(200, 2400), random.exponential(700, 2400).astype(np.int64)

    def chosen(values: np.ndarray, climbing_from: int) -> np.ndarray:
        words = (tg.seeded(seed).new_epoch().keystream("test", b"") for seed in range(100))
        facts = {"at_least": cap, "positive": 1200, "climbing_from": climbing_from}
        return np.array([stage.choose(values, lattice, each, **facts) for each in words])

    assert (
        (chosen(burst, cap) > 1.6 * cap).mean()
        <= 0.06
        < 0.1
        < (chosen(burst, 1) > 1.6 * cap).mean()
    )
    right = np.quantile(grown, 1 - float(stage.wanted) / 2400)
    assert 0.8 * right < np.median(chosen(grown, cap)) < 1.25 * right
