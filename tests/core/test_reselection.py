"""Choosing the threshold again: when, on which values, at what cost, and whether it helps."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate as tg
from tests.depth import examples, in_turn
from tidegate import perturb, threshold
from tidegate.errors import SettingError
from tidegate.guarantee import parallel, sequential
from tidegate.randomness import Epoch
from tidegate.run.threshold_schedule_and_reselection import Reselection


def selector(window, epsilon=1, bound=1000):
    return threshold.NoisyMax(epsilon=epsilon, bound=bound, holdout=window, horizon=4096)


def watch(monkeypatch):
    """Note every choice: which raw values, at which ε."""
    seen = []
    original = threshold.NoisyMax.choose

    def choose(self, held, lattice, keystream):
        seen.append((self.epsilon, held.copy()))
        return original(self, held, lattice, keystream)

    monkeypatch.setattr(threshold.NoisyMax, "choose", choose)
    return seen


def tops(**settings):
    base = {"epsilon": 1, "bound": 5000, "holdout": 60, "horizon": 1024, "fanout": 4, "skipped": 1}
    return tg.tops(**{**base, **settings})


# -- the schedule ----------------------------------------------------------------------------------


@given(
    window=st.integers(1, 200),
    extra=st.integers(0, 500),
    first=st.none() | st.integers(0, 700),
    blocking=st.booleans(),
    block=st.sampled_from([1, 2, 16, 256]),
)
def test_windows_are_disjoint_and_known_beforehand(window, extra, first, blocking, block):
    again = Reselection(
        threshold=selector(window),
        first=None if first is None else window + first,
        every=window + extra,
        blocking=blocking,
    )
    end = 0
    for number in range(6):
        opening, switch = again.opening(number, block), again.switch(number, block)
        assert opening >= end  # a value enters at most one selection
        assert switch - opening >= window
        assert switch % block == 0
        assert not blocking or opening % block == 0
        end = switch


def test_only_the_first():
    again = Reselection(threshold=selector(10), first=25)
    assert again.switch(0, 1) == 25
    assert again.switch(1, 1) is None
    assert again.opening(1, 1) is None


@pytest.mark.parametrize(
    "settings", [{}, {"every": 9}, {"first": 9, "every": 20}, {"every": 0}, {"every": 1.5}]
)
def test_windows_that_would_overlap_are_refused(settings):
    with pytest.raises(SettingError):
        Reselection(threshold=selector(10), **settings)


def test_a_threshold_without_a_hold_out_cannot_be_chosen_again():
    with pytest.raises(SettingError):
        Reselection(threshold=threshold.Fixed(3), every=10)


@pytest.mark.parametrize("share", [None, "1/4"])
def test_every_value_enters_at_most_one_selection(monkeypatch, share):
    seen = watch(monkeypatch)
    pipeline = tops(rethreshold_every=200, rethreshold_share=share)
    values = np.arange(1, 1061)  # every value tells its position
    release = pipeline.start(tg.seeded(1))
    for start in range(0, values.size, 37):
        release.push(values[start : start + 37])
    assert [held.size for _, held in seen] == [60] * 6
    everything = np.concatenate([held for _, held in seen])
    assert len(set(everything.tolist())) == everything.size
    for number, (_, held) in enumerate(seen[1:], start=1):
        assert (held * pipeline.lattice.step).tolist() == list(
            range(200 * number + 1, 200 * number + 61)
        )


@pytest.mark.parametrize("share", [None, "1/4"])
def test_data_does_not_move_the_schedule(share):
    pipeline = tops(rethreshold_every=200, rethreshold_share=share)
    starts = []
    for values in (np.zeros(1000), np.full(1000, 5000), np.arange(1000)):
        release = pipeline.start()
        release.push(values)
        starts.append([phase.start for phase in release.phases])
    assert starts[0] == starts[1] == starts[2] == [0, 200, 400, 600, 800]


def test_blocked_values_reach_the_selection_only(monkeypatch):
    """Whatever a blocked value is, what is published up to the switch is the same."""
    watch(monkeypatch)
    pipeline = tops(rethreshold_every=200)
    values = np.random.default_rng(1).integers(0, 1000, 260)
    other = values.copy()
    other[60 + 140 : 60 + 200] = 5000  # the window before the first switch
    one, two = (pipeline.start(tg.seeded(3)).push(stream) for stream in (values, other))
    assert one.tobytes() == two.tobytes()


# -- laws ------------------------------------------------------------------------------------------

SHAPES = {
    "shared": {"rethreshold_every": 130, "rethreshold_share": "0.3"},
    "blocked": {"rethreshold_every": 130},
    "back to back": {"rethreshold_every": 60},
    "early": {"start_early": 10},
    "early, again": {"start_early": 10, "rethreshold_every": 150, "rethreshold_share": "1/2"},
    "non-negative": {"rethreshold_every": 130, "non_negative": True, "epsilon": "0.05"},
}


@pytest.mark.parametrize("name", SHAPES)
def test_chunks_do_not_matter(name):
    pipeline = tops(**SHAPES[name])
    values = np.random.default_rng(2).integers(0, 3000, 600)
    whole = pipeline.start(tg.seeded(5)).push(values)

    @settings(max_examples=examples(20))
    @given(cuts=st.lists(st.integers(0, 600), max_size=10).map(sorted))
    def check(cuts):
        release = pipeline.start(tg.seeded(5))
        pieces = [release.push(part) for part in np.split(values, cuts)]
        assert np.concatenate(pieces).tobytes() == whole.tobytes()

    check()


@pytest.mark.parametrize("name", SHAPES)
def test_one_at_a_time_is_the_same(name):
    pipeline = tops(**SHAPES[name])
    values = np.random.default_rng(2).integers(0, 3000, 600)
    whole = pipeline.start(tg.seeded(5)).push(values)
    release = pipeline.start(tg.seeded(5))
    singles = [release.push(int(value)) for value in values]
    assert [value for value in singles if value is not None] == whole.tolist()


@pytest.mark.parametrize(("name", "brief"), in_turn(product(SHAPES, [False, True]), 0, of=3))
def test_resuming_anywhere_around_a_window_changes_nothing(name, brief):
    pipeline = tops(**SHAPES[name])
    values = np.random.default_rng(2).integers(0, 3000, 600)
    whole = pipeline.start(tg.seeded(5)).push(values)
    release, out = pipeline.start(tg.seeded(5)), []
    for start in range(0, 600, 7):
        out.append(release.push(values[start : start + 7]))
        release = pipeline.resume(release.snapshot(brief=brief))
    assert np.concatenate(out).tobytes() == whole.tobytes()


# -- cost ------------------------------------------------------------------------------------------

budgets = st.fractions(Fraction(1, 100), 10, max_denominator=100)


@given(stream=budgets, again=budgets, start=budgets, blocking=st.booleans())
def test_the_guarantee_is_derived(stream, again, start, blocking):
    pipeline = tg.Pipeline(
        threshold=selector(20, start),
        perturber=perturb.Hierarchy(epsilon=stream, horizon=64, fanout=4),
        reselect=Reselection(threshold=selector(30, again), every=50, blocking=blocking),
    )
    inner = max(stream, again) if blocking else stream + again
    assert pipeline.guarantee.epsilon == max(start, inner)
    compose = parallel if blocking else sequential
    parts = compose(pipeline.perturber.guarantee, pipeline.reselect.threshold.guarantee)
    assert pipeline.guarantee == parallel(pipeline.threshold.guarantee, parts)


@given(epsilon=budgets, share=st.fractions("1/100", "99/100", max_denominator=100))
def test_a_share_comes_out_of_the_budget(epsilon, share):
    pipeline = tops(epsilon=epsilon, rethreshold_every=200, rethreshold_share=share)
    assert pipeline.guarantee.epsilon == epsilon
    assert pipeline.perturber.epsilon == epsilon * (1 - share)
    assert pipeline.reselect.threshold.epsilon == epsilon * share


@pytest.mark.parametrize(
    "settings", [{"rethreshold_share": "0.5"}, {"rethreshold_share": 0}, {"rethreshold_share": 1}]
)
def test_senseless_shares_are_refused(settings):
    with pytest.raises(SettingError):
        tops(**settings)
    if settings["rethreshold_share"] in (0, 1):
        with pytest.raises(SettingError):
            tops(rethreshold_every=200, **settings)


def test_the_selection_of_a_later_phase_has_its_share_of_epsilon(monkeypatch):
    """Statistically: how often the two streams' choices fall apart fits ε·share, not ε.

    A window of 40 values at one of two levels; the chance of choosing above 50 is compared between
    streams that differ in one value, and so is the spread of choices with the budget.
    """
    seen = watch(monkeypatch)
    share, epsilon = Fraction(1, 100), 4

    def choices(**settings):
        pipeline = tops(epsilon=epsilon, bound=200, holdout=40, **settings)
        values = np.full(40 + 200, 50)
        found = []
        for seed in range(120):
            release = pipeline.start(tg.seeded(seed))
            release.push(values)
            found.append([phase.threshold for phase in release.phases])
        return np.array(found)

    shared = choices(rethreshold_every=100, rethreshold_share=share)
    assert {budget for budget, _ in seen} == {epsilon, epsilon * share}
    with_all, with_share = shared[:, 0], shared[:, 1]
    assert np.std(with_share) > 2 * np.std(with_all)  # a hundredth of the budget shows
    blocked = choices(rethreshold_every=100)
    assert np.std(blocked[:, 1]) < 2 * np.std(with_all) + 1


# -- noise -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [None, "1/4"])
def test_every_phase_has_an_epoch_and_noise_of_its_own(share):
    pipeline = tg.Pipeline(
        threshold=selector(1, bound=1),
        perturber=perturb.Hierarchy(epsilon=1, horizon=500, fanout=4, skipped=0),
        reselect=Reselection(threshold=selector(1, bound=1), every=500, blocking=share is None),
    )
    release = pipeline.start()
    out = release.push(np.zeros(1 + 4000))
    epochs = [phase.epoch for phase in release.phases]
    assert len(set(epochs)) == len(epochs) == 9
    assert epochs[0] == release.epoch
    noise = out[:4000].reshape(8, 500)[:, :499]
    correlation = np.corrcoef(noise) - np.eye(8)
    assert np.abs(correlation).max() < 5 / np.sqrt(499)


def test_epochs_of_phases_are_derived_and_unrelated():
    epoch = Epoch(bytes(32), bytes(16))
    ids = {epoch.child(number).id for number in range(1, 1000)} | {epoch.id}
    assert len(ids) == 1000
    assert Epoch(bytes(32), b"1" * 16).child(1).id != epoch.child(1).id
    assert Epoch(b"1" * 32, bytes(16)).child(1).id != epoch.child(1).id


# -- queries ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [None, "1/5"])
def test_ranges_across_phases_and_gaps_are_covered(share):
    rng = np.random.default_rng(7)
    pipeline = tops(
        epsilon=2, bound=400, holdout=200, rethreshold_every=1000, rethreshold_share=share
    )
    hits, total, sizes = 0, 0, []
    for seed in range(12):
        values = rng.integers(40, 60, 200 + 5000)
        release = pipeline.start(tg.seeded(100 + seed))
        out = release.push(values)
        starts = rng.integers(0, 4000, 60)
        ends = starts + rng.integers(1, 1000, 60)
        answers = release.queries(starts, ends, 0.95)
        truth = np.concatenate(([0], np.cumsum(values[200:])))
        wanted = truth[ends] - truth[starts]
        hits += int(((answers.low <= wanted) & (wanted <= answers.high)).sum())
        total += 60
        sizes.append(np.mean(answers.high - answers.low))
        whole = release.query(0, out.size)
        assert abs(whole.estimate - out.sum()) < 1e-6 * abs(out.sum()) + 1e-3
    assert hits / total > 0.9
    assert np.mean(sizes) < 60_000  # and not by saying nothing


def test_a_gap_says_that_it_does_not_know():
    pipeline = tops(rethreshold_every=200)
    release = pipeline.start()
    release.push(np.full(60 + 400, 100))
    inside, outside = release.query(140, 200), release.query(0, 60)
    assert inside.noise_error == 0
    assert inside.prediction_error > outside.prediction_error
    published = release.query(150, 151).estimate
    assert release.query(140, 200).estimate == pytest.approx(60 * published)


# -- does it help? ---------------------------------------------------------------------------------


def jump_error(pipeline, values, start, seed):
    release = pipeline.start(tg.seeded(seed))
    release.push(values)
    truth = np.concatenate(([0], np.cumsum(values[pipeline.threshold.holdout :])))
    starts = start + np.random.default_rng(0).integers(0, 4000, 200)
    ends = starts + 1024
    answers = release.queries(starts, ends).estimate
    return np.mean(np.square(answers - (truth[ends] - truth[starts])))


@pytest.mark.parametrize("share", [None, "1/4"])
def test_a_tenfold_jump_is_followed(share):
    """Error after choosing again is within 2× (in RMSE) of a fresh start on the new scale."""
    settings = {
        "epsilon": 1, "bound": 20_000, "holdout": 2048, "horizon": 2**14, "fanout": 16,
        "skipped": None,
    }  # fmt: skip
    rng = np.random.default_rng(4)
    before = rng.exponential(100, 2048 + 8192)
    after = rng.exponential(1000, 8192 + 8192)
    values = np.concatenate((before, after))
    again = tops(**settings, rethreshold_every=8192, rethreshold_share=share)
    never, fresh = tops(**settings), tops(**settings)
    new_start = rng.exponential(1000, 2048 + 8192)
    errors = {
        # Positions from 16384 on: the switch there saw the new scale only.
        "again": np.mean([jump_error(again, values, 16_384, seed) for seed in range(12)]),
        "never": np.mean([jump_error(never, values, 16_384, seed) for seed in range(4)]),
        "fresh": np.mean([jump_error(fresh, new_start, 2_000, seed) for seed in range(12)]),
    }
    assert errors["again"] < 4 * errors["fresh"], errors  # squares: 2× in RMSE
    assert errors["never"] > 8 * errors["again"], errors


def test_starting_early_releases_early_and_refines():
    pipeline = tops(start_early=10, holdout=500, rethreshold_share="1/5", epsilon=20)
    assert pipeline.threshold.holdout == 10
    release = pipeline.start(tg.seeded(1))
    assert release.push(np.full(11, 30)).size == 1
    release.push(np.full(600, 30))
    assert [phase.start for phase in release.phases] == [0, 500]
    assert pipeline.guarantee.epsilon == 20
    early = [
        abs(np.log(phase.threshold / 30))
        for seed in range(20)
        for phase in [_phases(tops(start_early=2, holdout=500, epsilon="0.2"), seed)[0]]
    ]
    refined = [
        abs(np.log(phase.threshold / 30))
        for seed in range(20)
        for phase in [_phases(tops(start_early=2, holdout=500, epsilon=20), seed)[1]]
    ]
    assert np.median(refined) < np.median(early)


def _phases(pipeline, seed):
    release = pipeline.start(tg.seeded(seed))
    release.push(np.full(600, 30))
    return release.phases
