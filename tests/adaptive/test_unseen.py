"""Where too few values chose θ, an answer says so: no confident wrong number."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tidegate.perturb.adaptive.refinement_trees import RefinementTrees
from tidegate.record.unseen import _evidence, unseen
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
        answer = _released(values, epsilon, 1, seed).query(0, 300)
        miss = max(answer.low - values.sum(), values.sum() - answer.high)
        assert answer.warning or miss < (answer.high - answer.low) / 2
        assert answer.threshold > 0.03  # it was 0.0007 to 0.04 in half of the runs


@pytest.mark.parametrize(("epsilon", "count"), [(1, 300), (3, 1000)])
def test_an_answer_about_values_that_are_mostly_zero_says_that_it_may_be_far_off(
    epsilon: int, count: int
) -> None:
    random = np.random.default_rng(2)
    values = np.where(random.random(count) < 0.1, random.integers(1, 50, count), 0)
    for seed in range(4):
        answer = _released(values, epsilon, 50, seed).query(0, count)
        held = answer.low <= values.sum() <= answer.high
        assert held or (answer.blind and answer.capped and "may be much larger" in str(answer))
    if count == 300:
        assert answer.threshold < 1  # the case that the warning is for
        assert not held


def test_noise_does_not_pass_for_values_that_were_seen() -> None:
    random = np.random.default_rng([100, 300])
    values = np.where(random.random(300) < 0.1, np.round(random.random(300) * 2, 2), 0)
    for seed in range(100, 103):  # the noise of an open tree is as large as a full sum here
        answer = _released(values, 0.3, 2, seed, horizon=2**20).query(0, 300)
        assert answer.blind or answer.low <= values.sum() <= answer.high


def test_a_stream_that_is_long_enough_has_no_warning() -> None:
    values = np.random.default_rng(3).integers(0, 50, 3000)
    release = _released(values, 1, 100, 1)
    answer = release.query(0, 3000)
    assert answer.unseen == 0
    assert not answer.capped
    assert answer.warning == ""
    assert unseen(_run(release).segments) == [0.0] * len(_run(release).segments)


def test_the_bound_itself_hides_nothing() -> None:
    answer = _released(np.full(100, 5), 0.1, 5, 1).query(0, 100)
    assert answer.threshold == 5
    assert not answer.blind


def test_many_answers_say_which_of_them_are_blind() -> None:
    random = np.random.default_rng(2)
    values = np.where(random.random(300) < 0.1, random.integers(1, 50, 300), 0)
    release = _released(values, 1, 50, 0)
    answers = release.queries([0, 0], [0, 300])
    assert answers.blind.tolist() == [False, True]
    assert [answers[at].capped for at in range(2)] == [False, True]
    again = tg.load_record(release.save_record()).queries([0, 0], [0, 300])
    assert again.blind.tolist() == [False, True]


@pytest.mark.parametrize("lower", [0, -20])
def test_what_chose_a_threshold_can_be_read_off_the_record(lower: int) -> None:
    random = np.random.default_rng(4)
    release = tg.adaptive(1, 1000, horizon=4096, lower=lower).start(tg.seeded(3))
    run, known = _run(release), {}
    for piece in np.split(random.poisson(np.repeat([3, 300], 2048)), 512):
        release.push(piece)
        if not release.warming:
            known[run.number] = run.segments[-1], Fraction(run.evidence, 16)
    stage = run._trees
    assert isinstance(stage, RefinementTrees)
    assert len(known) > 3
    before = None
    for segment, evidence in known.values():
        found = _evidence(stage, before, segment) / stage.epsilon
        assert 0 <= found - evidence < Fraction(1, 16)
        before = segment
