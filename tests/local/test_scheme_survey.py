"""The default survey as a whole: rounds, privacy, and a threshold that is near the best."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tidegate.local.questions import TailQuestion
from tidegate.local.survey import SurveyTally
from tidegate.local.tail.survey_size import survey_of_hold_out
from tidegate.local.tail.tail_survey import TailSurvey

HORIZON = 2**18
SURVEY = TailSurvey(
    epsilon=Fraction(1),
    stream_epsilon=Fraction(1),
    variance=4.0,
    top=1000,
    rounds=survey_of_hold_out(20_003, 12_001, HORIZON),
)


def _asked(survey, values):
    """All rounds, answered by the values one after the other."""
    words = tg.seeded(3).new_epoch().keystream("test", b"").at()
    tallies, position = [], 0
    while (asked := survey.next_round(tallies)) is not None:
        devices = values[position : position + asked.participants]
        position += asked.participants
        counts = []
        for index, question in enumerate(asked.questions):
            reports = question.answers(devices[index :: len(asked.questions)], words)
            counts.append(tuple(np.bincount(reports, minlength=2).tolist()))
        tallies.append(SurveyTally(questions=asked.questions, counts=tuple(counts)))
    return tallies


@pytest.fixture(scope="module")
def tallies():
    values = np.random.default_rng(1).exponential(10.0, size=40_000)
    return _asked(SURVEY, np.rint(values).astype(np.int64))


def test_rounds_use_all_devices_and_no_more(tallies):
    counts = [sum(sum(row) for row in tally.counts) for tally in tallies]
    assert len(counts) == 11
    assert sum(counts[:5]) == 20_003
    assert sum(counts[5:]) == 12_001
    assert max(counts[:5]) - min(counts[:5]) <= 1


def test_the_same_tallies_give_the_same_questions_and_decision(tallies):
    again = replace(SURVEY)
    for number in range(11):
        assert again.next_round(tallies[:number]).questions == tallies[number].questions
    assert again.decide(tallies) == SURVEY.decide(tallies)


def test_every_question_costs_epsilon_and_lies_within_the_bound(tallies):
    for tally in tallies:
        for question in tally.questions:
            assert isinstance(question, TailQuestion)
            assert 0 < question.level <= SURVEY.top
            question.check(SURVEY.epsilon)
            with pytest.raises(tg.RefusedError):
                question.check(SURVEY.epsilon * Fraction(99, 100))


def test_the_ladder_climbs_to_the_levels_of_its_shares(tallies):
    levels = np.array([question.level for question in tallies[-1].questions])
    wanted = -10 * np.log(SURVEY.shares(1))  # of the exponential distribution
    assert levels == pytest.approx(wanted, rel=0.25)


def test_the_threshold_costs_little_more_than_the_best_one(tallies):
    decision = SURVEY.decide(tallies)
    excess = 10 * np.exp(-decision.threshold / 10)

    def error(theta, missed):
        noise = HORIZON / 3 * SURVEY.variance * theta**2 / 4
        return noise + HORIZON**2 / 6 * missed**2

    thetas = np.arange(1, 300)
    best = error(thetas, 10 * np.exp(-thetas / 10)).min()
    assert error(decision.threshold, excess - decision.offset) < 1.5 * best
    assert 0 < decision.offset < excess
    assert decision.low <= decision.threshold <= decision.high
    assert not decision.mostly_prior


def test_a_busy_round_does_not_outvote_the_others(tallies):
    """One round that met values three times as large: the threshold moves, but not by much."""
    busy = list(tallies)
    question = tallies[2].questions[0]
    share = np.exp(-question.level / 30)
    count = sum(tallies[2].counts[0])
    lie = question.lie / 2**32
    ones = round(count * (lie + (1 - 2 * lie) * share))
    counts = ((count - ones, ones), *tallies[2].counts[1:])
    busy[2] = SurveyTally(questions=tallies[2].questions, counts=counts)
    calm, moved = SURVEY.decide(tallies).threshold, SURVEY.decide(busy).threshold
    assert calm / 1.4 < moved < calm * 1.4


def test_a_bound_of_one_step_and_tiny_holdouts_work():
    tiny = replace(SURVEY, top=1, rounds=survey_of_hold_out(100, 0, HORIZON))
    tallies = _asked(tiny, np.ones(100, dtype=np.int64))
    assert tiny.decide(tallies).threshold == 1
    assert len(tallies) == 5


@pytest.mark.parametrize("value", [0, 1000])
def test_constant_streams_work(value):
    decision = SURVEY.decide(_asked(SURVEY, np.full(40_000, value)))
    assert 1 <= decision.threshold <= 1000
    if value:
        assert decision.threshold > 700


@pytest.mark.parametrize("epsilon", [0.5, 1])
def test_between_zeros_and_a_tail_the_slope_may_be_next_to_nothing(epsilon):
    """Nine zeros in ten: what is no zero is above the top rung already, and falls much later."""
    topl = tg.topl(epsilon, 100_000, holdout=65_536)
    random = np.random.default_rng(2)
    drawn = np.where(random.random(140_000) < 0.9, 0, random.lognormal(5, 1, 140_000))
    values = np.rint(np.minimum(drawn, 100_000)).astype(np.int64)
    decision = topl.survey.decide(_asked(topl.survey, values))

    def error(theta, added=0.0):
        missed = np.maximum(values - theta, 0).mean() - added
        noise = topl.horizon / 3 * topl.survey.variance * theta**2 / 4
        return noise + topl.horizon**2 / 6 * missed**2

    best = min(error(theta) for theta in np.geomspace(50, 5000, 60))
    assert error(decision.threshold, decision.offset) < 8 * best
