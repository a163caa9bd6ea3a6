"""When θ is chosen, from how much and for how long: public, and early whatever the horizon is."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tests.adaptive.test_refined_release import growing
from tests.depth import depth
from tests.laws.catalogue import alike_when_split, bits
from tidegate.estimate.mixture.outgrown_cap import CapWatch, FloorWatch, level_has_moved
from tidegate.lattice import Lattice
from tidegate.run.refinement_schedule import Refinement
from tidegate.run.selection_counts import SelectionCounts
from tidegate.run.two_sided_caps import Ends
from tidegate.run.warm_up_length import first_length, later_length, warm_up_length
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


def ramp(count: int = 4096, seed: int = 1) -> np.ndarray:
    """A level that rises twentyfold, and no leaf that fills its cap."""
    random = np.random.default_rng(seed)
    return random.exponential(np.linspace(5, 100, count)).astype(np.int64)


def seasonal(count: int = 8192, seed: int = 1) -> np.ndarray:
    """Use less what the sun gives: below 0 in winter, when ends are chosen; wide in summer."""
    random, hour = np.random.default_rng(seed), np.arange(count)
    sun = np.sin(np.pi * hour / count) ** 6 * np.maximum(0.0, np.sin(2 * np.pi * hour / 96))
    return 20 * sun * random.beta(4, 2, count) - 3 - random.gamma(2, 0.5, count)


def test_a_window_opens_late_where_the_level_has_risen() -> None:
    refinement, facts = Refinement(), {"at": 2048, "warm_up_start": 0, "evidence": 16 * 128}
    # Half of what the last choice knew: 64 = 256/4, whole blocks of a sixteenth of the horizon.
    assert refinement.window_again(4096, **facts) == (256, Fraction(1, 4))
    assert refinement.window_again(4096, **{**facts, "at": 3328}) == (256, Fraction(1, 4))
    assert refinement.window_again(4096, **{**facts, "at": 3329}) is None  # the last eighth
    assert refinement.window_again(4096, **{**facts, "at": 4096}) == (256, Fraction(1, 4))
    assert Refinement(windows=False).window_again(4096, **facts) is None


@pytest.mark.parametrize("seed", range(4))
def test_the_threshold_follows_a_level_that_rises(seed: int) -> None:
    """The last window of the schedule ends in the first third: θ would stay as it is there."""
    release = tg.adaptive(2, 10_000, horizon=4096).start(tg.seeded(seed))
    release.push(ramp())
    late = [phase for phase in release.phases if phase.start > 4096 / 3]
    assert len(late) > 1
    thresholds = [phase.threshold for phase in release.phases]
    assert release.threshold == thresholds[-1] > 1.5 * thresholds[-len(late) - 1]
    assert thresholds[-len(late) :] == sorted(thresholds[-len(late) :])  # it is only raised


def test_a_level_that_stays_opens_no_window() -> None:
    values = np.random.default_rng(2).exponential(50, size=4096).astype(np.int64)
    for seed in range(8):
        release = tg.adaptive(3, 10_000, horizon=4096).start(tg.seeded(seed))
        release.push(values)
        assert all(phase.start < 4096 / 3 + 256 for phase in release.phases)


def test_both_ends_follow_a_level_that_moves() -> None:
    """They were chosen in winter and stayed: totals missed the truth by a quarter, often."""
    values, late = seasonal(), 0
    for seed in range(13, 21):
        release = tg.adaptive(3, 100, lower=-100, horizon=8192).start(tg.seeded(seed))
        release.push(values)
        answer = release.query(0, 8192)
        assert answer.low <= values.sum() <= answer.high
        assert answer.estimate == pytest.approx(values.sum(), rel=0.1)
        assert release.threshold > 10  # the sun gives up to 20, less what is used
        late += sum(phase.start > 8192 / 3 for phase in release.phases)
    assert late >= 16  # several times in each


@pytest.mark.parametrize(
    ("level", "moved"), [(-8, False), (-4, False), (-2, True), (-12, False), (-15, True), (9, True)]
)
def test_how_far_a_level_moves_counts_where_values_lie_below_zero(level, moved) -> None:
    watch, floor = CapWatch(), FloorWatch()
    watch.settle(-8, 40)
    floor.settle(8, 40)  # negated: the level was −8; a sixteenth of what lies between is 5
    assert level_has_moved(watch, floor, level, 0.0) is moved
    assert not level_has_moved(watch, floor, level, 20.0)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("seed", range(depth(1, 2)))
def test_windows_that_open_late_are_the_same_for_any_split_and_resume(
    seed: int, signed: bool
) -> None:
    pipeline, values = tg.adaptive(3, 10_000, horizon=4096), ramp()
    if signed:
        pipeline, values = tg.adaptive(3, 100, lower=-100, horizon=4096), seasonal(4096)
    whole = alike_when_split(pipeline, values, seed)
    assert sum(phase.start > 4096 / 3 for phase in whole.phases) > 1


def test_where_a_threshold_can_only_rise_chance_hardly_raises_it() -> None:
    """200 choices from 2,048 values of a level that has not changed: θ stays within a step."""
    lattice, present = Lattice(Fraction(10_000), Fraction(1)), 400
    stage = TailQuantile(
        epsilon=Fraction(1, 40), bound=10_000, holdout=2048, horizon=16_384, stream_epsilon="1/10"
    )
    values = np.random.default_rng(3).exponential(50, size=2048).astype(np.int64)
    found = []
    for seed in range(200):
        counts = SelectionCounts(stage, Fraction(1, 4), lattice)
        counts.add(values)
        epoch = tg.seeded(seed).new_epoch()
        ends = counts.chosen(
            lambda purpose, epoch=epoch: epoch.keystream(purpose, b""),
            at_least=Ends(present, 1),
            before=Ends(present),
            positive=0.1,
        )
        found.append(ends.above)
    assert min(found) >= present * 0.99
    assert np.mean(np.array(found) > 2 * present) < 0.05


def test_a_cap_is_not_kept_because_of_what_a_silence_chose() -> None:
    """θ chosen where nearly all was silent knows little of what follows, however long it was."""
    random, kept = np.random.default_rng(1), 0
    values = np.where(np.arange(16_384) < 3277, 0, random.exponential(150, size=16_384))
    for seed in range(6):
        release = tg.adaptive(1, 100_000, horizon=16_384).start(tg.seeded(seed))
        release.push(values.astype(np.int64))
        kept += release.threshold < 500
    assert kept <= 1


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
