"""Where too few values chose θ, the upper end is far: no confident wrong number."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tidegate.perturb.adaptive.refinement_trees import RefinementTrees
from tidegate.record.seen_by_choice import NO_EVIDENCE, seen_by_choice
from tidegate.record.unseen_share import NOTHING, UnseenValues
from tidegate.record.unseen_values import unseen_values
from tidegate.run.first_choice_and_climbs import chose_first
from tidegate.run.refinement_run import RefinementRun


def _released(values, epsilon, bound, seed, **settings):
    settings = {"horizon": len(values), **settings}
    release = tg.adaptive(epsilon, bound, **settings).start(tg.seeded(seed))
    release.push(values)
    release.finish()
    return release


def _run(release: tg.Release) -> RefinementRun:
    assert isinstance(release._run, RefinementRun)
    return release._run


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1])
def test_three_hundred_decimals_up_to_their_bound_are_not_cut_to_nothing(epsilon: float) -> None:
    values = np.round(np.random.default_rng(1).random(300), 3)
    for seed in range(4):
        answer = _released(values, epsilon, 1, seed, resolution="0.0001").query(0, 300)
        miss = max(answer.low - values.sum(), values.sum() - answer.high)
        assert answer.warning or miss < (answer.high - answer.low) / 2
        assert answer.threshold > 0.03  # it was 0.0007 to 0.04 in half of the runs


@pytest.mark.parametrize(("epsilon", "count"), [(1, 300), (3, 1000)])
def test_the_interval_of_values_that_are_mostly_zero_reaches_as_far_as_they_may_lie(
    epsilon: int, count: int
) -> None:
    random = np.random.default_rng(2)
    values = np.where(random.random(count) < 0.1, random.integers(1, 50, count), 0)
    for seed in range(4):
        answer = _released(values, epsilon, 50, seed).query(0, count)
        assert answer.low <= values.sum() <= answer.high
        assert not answer.capped
        assert answer.warning == ""
        assert answer.high <= 50 * count
    if count == 300:
        assert answer.threshold < 1  # the case that this is for
        assert answer.blind
        assert "the upper end is far" in str(answer)
        assert values.sum() > answer.estimate  # of a climb that was not at its end


def test_noise_does_not_pass_for_values_that_were_seen() -> None:
    random = np.random.default_rng([100, 300])
    values = np.where(random.random(300) < 0.1, np.round(random.random(300) * 2, 2), 0)
    for seed in range(100, 103):  # the noise of an open tree is as large as a full sum here
        answer = _released(values, 0.3, 2, seed, horizon=2**20).query(0, 300)
        assert answer.low <= values.sum() <= answer.high


def test_a_stream_that_is_long_enough_has_no_warning() -> None:
    values = np.random.default_rng(3).integers(0, 50, 3000)
    release = _released(values, 1, 100, 1)
    answer = release.query(0, 3000)
    assert answer.unseen == 0
    assert not answer.capped
    assert answer.warning == ""
    assert unseen_values(_run(release).segments) == [NOTHING] * len(_run(release).segments)


def test_the_bound_itself_hides_nothing() -> None:
    answer = _released(np.full(100, 5), 1, 5, 1).query(0, 100)
    assert answer.threshold == 5
    assert not answer.blind


def test_many_answers_say_which_of_them_are_blind() -> None:
    random = np.random.default_rng(2)
    values = np.where(random.random(300) < 0.1, random.integers(1, 50, 300), 0)
    release = _released(values, 1, 50, 1)
    answers = release.queries([0, 0], [0, 300])
    assert answers.blind.tolist() == [False, True]
    assert [answers[at].blind for at in range(2)] == [False, True]
    assert not answers.warnings
    assert "upper ends are far (1 of 2 ranges)" in repr(answers)
    assert "upper ends are far" not in repr(release.queries([0], [0]))
    again = tg.load_record(release.save_record()).queries([0, 0], [0, 300])
    assert again.blind.tolist() == [False, True]


def test_what_is_hidden_grows_with_a_range_and_never_beyond_its_values() -> None:
    hidden, sizes = UnseenValues(share=0.04, each=10.0), np.array([1, 100, 10_000])
    found = hidden.reach(np.zeros(3), sizes, 1.0)
    # 0.04 + 2·√0.04 = 0.44 values; 4 + 2·2; 400 + 2·20.
    np.testing.assert_allclose(found, [4.4, 80.0, 4400.0])
    # Sums of half a cap a value may come from half of the values; all of them are the most.
    np.testing.assert_allclose(
        hidden.reach(sizes / 2, sizes, 1.0)[1:], [641.42, 51_414.2], rtol=1e-5
    )
    np.testing.assert_allclose(hidden.reach(sizes * 2.0, sizes, 1.0), 10.0 * sizes)


def test_an_ordinary_stream_keeps_its_upper_end_where_one_that_is_mostly_zero_does_not() -> None:
    """Both have too few values to rule out that 3 in 100 lie at the bound; one of them hides it."""
    random = np.random.default_rng(5)
    for values, open_end in (
        (random.exponential(20, 4096), False),
        (np.where(random.random(4096) < 0.02, random.exponential(500, 4096), 0), True),
    ):
        answer = _released(np.minimum(np.rint(values), 2000), 0.3, 2000, 3).query(0, 4096)
        assert answer.blind is open_end
        assert answer.low <= values.sum() <= answer.high


def test_a_threshold_that_chance_has_lifted_has_not_seen_values_that_are_mostly_zero() -> None:
    """Zeros hardly count against a θ of 5 to 64 steps: ends lay at a hundredth of the sum."""
    held, caps = 0, []
    for seed in range(100, 124):
        random = np.random.default_rng([seed, 1024])
        values = np.where(random.random(1024) < 0.02, random.integers(1, 20_000, 1024), 0)
        answer = _released(values, 0.1, 20_000, seed).query(0, 1024)
        held += answer.low <= values.sum() <= answer.high
        caps.append(answer.threshold)
    assert sum(4 < cap <= 64 for cap in caps) >= 4  # the case that this is for
    assert held >= 23, held  # 94 of 96; it was 11 of 16


def test_a_choice_that_knows_more_and_falls_speaks_for_the_one_before_it() -> None:
    """The first θ had been taken for what values are at most: ends lay at 3 % of the sum."""
    lifted = 0
    for seed in (1, 3, 5, 13):
        random = np.random.default_rng([seed, 16_384])
        amounts = np.minimum(np.rint(random.lognormal(6, 1, 16_384)), 100_000)
        values = np.where(random.random(16_384) < 0.03, amounts, 0)
        release = _released(values, 0.1, 100_000, seed)
        for start, end in ((0, 16_384), (0, 1024), (8192, 16_384)):
            answer = release.query(start, end)
            assert answer.low <= values[start:end].sum() <= answer.high
        first, *_, last = (segment.threshold for segment in _run(release).segments)
        lifted += first > 4 * last
    assert lifted == 3


@pytest.mark.parametrize(("seed", "count"), [(0, 676), (3, 420), (6, 676)])
def test_a_threshold_that_has_released_nothing_yet_has_not_seen_enough(
    seed: int, count: int
) -> None:
    """Its choice ended with the last value, and fell: ends lay at a hundredth of the sum."""
    random = np.random.default_rng([seed, 1024])
    amounts = np.minimum(np.rint(random.gamma(1.5, 900, 1024)), 25_000)
    values = np.where(random.random(1024) < 0.04, amounts, 0)[:count]
    release = _released(values, 3, 25_000, seed, horizon=1024, resolution=1)
    assert _run(release).segments[-1].origin == count
    answer = release.query(0, count)
    assert answer.blind
    assert answer.low <= values.sum() <= answer.high


@pytest.mark.parametrize(("count", "epsilon"), [(1024, 3), (4096, 1), (16_384, 0.1)])
def test_ends_are_open_where_values_on_both_sides_of_0_are_mostly_zero(
    count: int, epsilon: float
) -> None:
    """Both ends stayed where they began: no interval of 12 held, with ends of a step or two."""
    for seed in range(4):
        random = np.random.default_rng([seed, count])
        sizes = np.where(random.random(count) < 0.03, np.rint(random.lognormal(6, 1, count)), 0)
        values = sizes * np.where(random.random(count) < 0.3, -1, 1)
        answer = _released(values, epsilon, 100_000, seed, lower=-100_000).query(0, count)
        assert answer.blind
        assert answer.low <= values.sum() <= answer.high


def test_an_ordinary_stream_on_both_sides_of_0_keeps_its_ends() -> None:
    for seed in range(4):
        values = np.rint(np.random.default_rng([seed, 9]).normal(40, 80, 4096))
        answer = _released(values, 1, 10_000, seed, lower=-10_000).query(0, 4096)
        assert not answer.blind
        assert answer.low <= values.sum() <= answer.high


def test_a_year_of_daily_counts_has_an_upper_end() -> None:
    """θ has left where it began by far more than chance lifts it: ordinary values did that."""
    held, ends = [], []
    for seed in range(12):
        random = np.random.default_rng([seed, 365])
        values = random.poisson(40 * random.gamma(4, 0.25, 365))
        answer = _released(values, 1, 2000, seed).query(0, 365)
        held.append(answer.low <= values.sum() <= answer.high)
        ends.append(answer.high / values.sum())
    assert sum(held) >= 11
    assert np.median(ends) < 3  # it was 60 in most runs


@pytest.mark.parametrize(("lower", "rises"), [(0, False), (-20, False), (0, True)])
def test_what_chose_a_threshold_can_be_read_off_the_record(lower: int, rises: bool) -> None:
    random = np.random.default_rng(4)
    release = tg.adaptive(8 if rises else 1, 1000, horizon=4096, lower=lower).start(tg.seeded(3))
    run, known = _run(release), {}
    ramp = random.exponential(np.linspace(3, 60, 4096)).astype(np.int64)
    values = ramp if rises else random.poisson(np.repeat([3, 300], 2048))
    for piece in np.split(values, 512):
        release.push(piece)
        if not release.warming:
            first = chose_first(release.pipeline, run.evidence, run.warm_up_start)
            known[run.number] = run.segments[-1], Fraction(run.evidence, 16), first
    stage = run._trees
    assert isinstance(stage, RefinementTrees)
    assert len(known) > 3
    before, found, kept = None, NO_EVIDENCE, 0
    assert [first for *_, first in known.values()].index(False) > 0
    for segment, evidence, first in known.values():
        # A phase that a risen level began has the θ, and the evidence, of the one before.
        kept += before is not None and segment.threshold == before.threshold
        found = seen_by_choice(before, segment, found)
        assert 0 <= found.known / stage.epsilon - evidence < Fraction(1, 16)
        assert found.first == first
        before = segment
    assert not rises or kept


@pytest.mark.parametrize("share", [0.01, 0.001, 0])
def test_a_hold_out_that_left_the_threshold_at_the_bottom_opens_ends(share: float) -> None:
    """Rare events, told nothing of their unit: the interval ended at a millionth of the sum."""
    values = (np.random.default_rng(1).random(20_480) < share).astype(np.int64)
    for seed in range(3):
        release = _released(values, 0.1, 1, seed, horizon=16_384, holdout=4096)
        assert release.threshold < 1e-4  # the case that this is for
        for start, end in ((0, 16_384), (5000, 6000)):
            answer = release.query(start, end)
            truth = values[4096:][start:end].sum()
            assert answer.low <= truth + 1e-3  # noise of a step or two
            assert truth <= answer.high <= end - start
            assert answer.blind
            assert "the upper end is far" in str(answer)


@pytest.mark.parametrize(("bound", "resolution"), [(1, 1), (1000, 1), (5, None)])
def test_a_hold_out_that_saw_enough_keeps_its_ends(bound: int, resolution: int | None) -> None:
    """Also where θ is one of the few lowest steps, and a step is a unit of the data."""
    values = np.minimum(np.random.default_rng(1).poisson(0.6, 20_480), bound)
    release = _released(values, 1, bound, 1, horizon=16_384, holdout=4096, resolution=resolution)
    assert release.threshold <= 5
    assert not release.query(0, 16_384).blind
