"""The default adaptive release: nothing is withheld, and what it publishes is set right."""

from __future__ import annotations

import hashlib
from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tests.adaptive.replayed_mechanisms import ReplayedMechanisms
from tests.depth import in_turn
from tests.laws.catalogue import bits, pushed_with_stops
from tidegate.perturb.adaptive import refinement_trees
from tidegate.run import refinement_run
from tidegate.settings import digest

HORIZON = 600
PIPELINE = tg.adaptive(epsilon=8, bound=10_000, horizon=HORIZON, resolution=1)


def growing(count: int = 900, seed: int = 1) -> np.ndarray:
    """A level that grows a hundredfold: caps fill, and new warm-ups begin."""
    random = np.random.default_rng(seed)
    level = np.where(np.arange(count) < 250, 5.0, 500.0)
    return np.minimum(random.exponential(level).astype(np.int64), 10_000)


@pytest.fixture(scope="module")
def whole() -> tuple[tg.Release, np.ndarray]:
    release = PIPELINE.start(tg.seeded(5))
    return release, release.push(growing())


def restarts(release: tg.Release) -> list[int]:
    """Where phases begin with a warm-up, after the first."""
    segments = [one for one in release.record.segments if one.measured]
    length = PIPELINE.warm_up
    return [one.origin for one in segments[1:] if one.blocks[0].layout.length == length]


def test_one_row_comes_out_for_each_row_that_goes_in(whole) -> None:
    release, out = whole
    values = growing()
    assert PIPELINE.holdout == release.holding == 0
    assert out.size == values.size == release.position == release.seen
    assert not out[: PIPELINE.warm_up - 1].any()  # a public prior
    # ε = 8: the running sum is right from the end of the warm-up on, up to noise and caps.
    assert abs(out[: PIPELINE.warm_up].sum() - values[: PIPELINE.warm_up].sum()) < 60
    assert abs(out.sum() / values.sum() - 1) < 0.1


def test_the_stream_has_every_kind_of_piece(whole) -> None:
    """What the other tests rely on: windows that choose again, and caps that fill."""
    release, _ = whole
    again = restarts(release)
    assert again
    assert any(250 < start < 330 for start in again)
    assert len(release.phases) > 1 + len(again)
    assert release.threshold > 20 * release.phases[0].threshold


def test_the_bits_are_pinned(whole) -> None:
    """On every processor. Another digest means other noise or forecasts: see CHANGELOG.md."""
    assert hashlib.sha256(whole[1].tobytes()).hexdigest()[:16] == "4f2e043be2ffcda2"


@pytest.mark.parametrize("seed", range(3))
def test_any_split_and_any_resume_give_the_same_bits(whole, seed: int) -> None:
    release, out = whole
    values = growing()
    run, found = pushed_with_stops(PIPELINE, values, seed, (4, 40, 200)[seed])
    assert bits(found) == bits(out)
    assert run.phases == release.phases
    single = PIPELINE.start(tg.seeded(5))
    assert bits([single.push(value) for value in values[:400].tolist()]) == bits(out[:400])


def test_everything_else_follows_from_what_was_released(whole, monkeypatch) -> None:
    """Zeros go in, and the mechanisms give what they gave before: the same bits come out."""
    release, out = whole
    mechanisms = ReplayedMechanisms(monkeypatch)
    assert bits(PIPELINE.start(tg.seeded(5)).push(growing())) == bits(out)
    mechanisms.replay()
    other = PIPELINE.start(tg.seeded(6))
    assert bits(other.push(np.zeros(out.size))) == bits(out)
    assert not mechanisms.left
    assert [phase.threshold for phase in other.phases] == [p.threshold for p in release.phases]


def test_answers_hold_inside_and_across_warm_ups() -> None:
    """95 % intervals over ranges that begin or lie in a warm-up; of values that θ does not cut."""
    pipeline = tg.adaptive(epsilon=1, bound=200, horizon=1024)
    inside = total = 0
    for seed in range(4):
        values = np.random.default_rng(seed).integers(20, 41, size=600)
        release = pipeline.start(tg.seeded(seed))
        release.push(values)
        sums = np.concatenate(([0], np.cumsum(values)))
        starts = np.array([0, 0, 5, 10, 20, 0, 30])
        ends = np.array([20, pipeline.warm_up, 45, 50, 300, 600, 130])
        answers = release.queries(starts, ends)
        truth = sums[ends] - sums[starts]
        if release.threshold >= 41:
            inside += int(((answers.low <= truth) & (truth <= answers.high)).sum())
            total += starts.size
    assert total >= 14
    assert inside >= 0.85 * total


def test_an_answer_speaks_of_the_caps_of_its_range(whole) -> None:
    release, _ = whole
    early, late = release.query(0, 40), release.query(700, 900)
    assert early.threshold == release.phases[0].threshold
    assert late.threshold > 10 * early.threshold
    both = release.query(0, 900)
    assert both.threshold <= early.threshold
    assert both.highest >= late.threshold
    assert f"capped at {both.threshold:g} to {both.highest:g}" in str(both)
    # No sum of capped values can exceed what the text says.
    assert late.estimate <= 200 * late.highest


def test_nothing_can_be_asked_before_anything_is_measured() -> None:
    release = PIPELINE.start(tg.seeded(1))
    release.push([3] * 10)
    assert (release.warming, release.threshold) == (PIPELINE.warm_up - 10, None)
    with pytest.raises(tg.TidegateError, match=r"warm-up needs \d+ more values"):
        release.query(0, 10)
    assert "warming up" in repr(release)


def test_values_of_a_later_warm_up_are_answered_widely(whole) -> None:
    release = PIPELINE.start(tg.seeded(5))
    start = restarts(whole[0])[0]
    values = growing()
    release.push(values[: start + 3])
    assert release.warming == PIPELINE.warm_up - 3
    cap = release.query(0, start).highest
    answer = release.query(start, start + 3)
    assert answer.high - answer.low > 2 * 3 * cap
    release.push(values[start + 3 :])
    assert release.query(0, 900) == whole[0].query(0, 900)


def test_a_stream_that_ends_in_its_warm_up_is_measured() -> None:
    pipeline = tg.adaptive(epsilon=1, bound=1000, horizon=4096)
    values = np.full(40, 30)
    release = pipeline.start(tg.seeded(2))
    assert not release.push(values).any()
    release.finish()
    assert (release.warming, release.position) == (0, 40)
    answer = release.query(0, 40)
    assert answer.low <= np.minimum(values, release.threshold).sum() <= answer.high
    # If more follows after all, the next rows make up for it.
    follows = release.push(np.full(400, 30))
    expected = np.minimum(30, release.threshold) * 440
    assert abs(follows.sum() - expected) < 6 * release.query(0, 440).standard_error
    release.finish()  # does nothing now
    fresh = pipeline.start()
    fresh.finish()  # nothing has come
    assert fresh.threshold is None


def test_a_fork_in_a_warm_up_begins_its_own() -> None:
    release = PIPELINE.start()
    release.push([3] * 10)
    branch = release.fork()
    assert branch.warming == PIPELINE.warm_up
    assert branch.guarantee.epsilon == 16
    branch.push([3] * 300)
    assert (release.threshold, branch.position) == (None, 310)
    release.push([3] * 300)
    later = release.fork()
    assert later.threshold == release.threshold
    later.push([3] * 10)
    assert later.query(310, 320).end == 320


def test_the_papers_form_keeps_its_settings_and_its_noise() -> None:
    """Digests as they were before the warm-up was released."""
    plain = tg.adaptive(epsilon="1/10", bound=1657, holdout=65_536, resolution=1)
    assert plain.reselect is None
    assert plain == tg.Pipeline.from_settings(plain.settings())
    assert digest(plain.settings()).hex()[:16] == "0f6e015bf6becf5c"
    assert plain.noise_identity(100).hex()[:16] == "15bb771d8ccc1fab"


def test_every_length_has_the_costs_of_the_nearest() -> None:
    trees = PIPELINE.measurer
    assert isinstance(trees, refinement_trees.RefinementTrees)
    lengths = {
        refinement_trees.refinement_block_length(HORIZON, age, age)
        for age in range(12, 3 * HORIZON)
    }
    assert max(lengths) <= 2 * HORIZON // 16
    for length in lengths:
        numbers = trees.every_layout(length, 100, PIPELINE.ceiling)
        first, options = trees.group(Fraction(3, 4), length, 100, PIPELINE.ceiling)
        assert numbers[first : first + len(options)] == options


def test_a_users_values_count_within_each_horizon_from_the_first_value_on() -> None:
    """Those beyond the limit are 0 in their place, in the warm-up too: the same bits as zeros."""
    settings = {"epsilon": 8, "bound": 40, "horizon": 60}
    pipeline = tg.adaptive(**settings, unit=tg.units.UserHorizon(most=2))
    random = np.random.default_rng(4)
    values, users = random.integers(1, 40, size=150), random.integers(0, 12, size=150).astype(str)
    counts: dict[tuple[int, str], int] = {}
    zeroed = values.copy()
    for at, user in enumerate(users.tolist()):
        counts[at // 60, user] = counts.get((at // 60, user), 0) + 1
        if counts[at // 60, user] > 2:
            zeroed[at] = 0
    assert not np.array_equal(values, zeroed)
    found = pipeline.start(tg.seeded(3)).push(values, users)
    nobody_twice = [str(number) for number in range(150)]
    assert bits(found) == bits(pipeline.start(tg.seeded(3)).push(zeroed, nobody_twice))
    assert pipeline.guarantee.epsilon == 8


def test_a_warm_up_that_could_not_be_finished_is_refused(monkeypatch) -> None:
    release = PIPELINE.start()
    release.push([1, 2, 3])

    def broken(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr(refinement_run, "noisy_sum", broken)
    with pytest.raises(MemoryError):
        release.finish()
    monkeypatch.undo()
    with pytest.raises(tg.TidegateError):  # θ was chosen: the same noise must not choose again
        release.push([4])


def test_a_stream_that_ends_in_a_later_warm_up_is_measured_to_its_end(whole) -> None:
    release = PIPELINE.start(tg.seeded(5))
    start = restarts(whole[0])[0]
    release.push(growing()[: start + 4])
    release.finish()
    assert release.warming == 0
    assert all(segment.measured for segment in release.record.segments)
    resumed = PIPELINE.resume(release.snapshot())
    assert bits(resumed.push(growing()[start + 4 :])) == bits(release.push(growing()[start + 4 :]))
    assert release.query(0, 900).end == 900


@pytest.mark.parametrize(
    ("bound", "epsilon"), in_turn([("12.5", "0.1"), ("12.5", "0.3"), ("100", "0.2")], 0)
)
def test_short_streams_of_decimals_do_not_end_at_one_step(bound: str, epsilon: str) -> None:
    """θ fell to one lattice step in eight of eight runs: 0.01 of the truth, and sure of it."""
    values = np.random.default_rng(0).normal(2, 1.2, 500).clip(min=0)
    pipeline = tg.adaptive(epsilon, bound, horizon=500)
    missed = 0
    for seed in range(8):
        release = pipeline.start(tg.seeded(seed))
        release.push(values)
        answer = release.query(0, 500)
        half = (answer.high - answer.low) / 2
        missed += abs(answer.estimate - values.sum()) > 2 * half + values.sum() / 20
    assert missed <= 2
