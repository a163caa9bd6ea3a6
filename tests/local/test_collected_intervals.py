"""Range sums over reports: unbiased, with intervals as wide as the reports' noise."""

from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tidegate.local.mechanisms import hybrid, optimal, stochastic_rounding
from tidegate.local.questions import TailQuestion
from tidegate.local.server_collection import ServerCollection
from tidegate.local.survey import GivenThresholdSurvey, SurveyDecision, SurveyRound

RUNS = 500
LENGTH = 2000
VALUES = tg.synthetic.baskets(LENGTH)
THRESHOLD = 25
TRUTH = np.minimum(VALUES, THRESHOLD)


class AskedAll:
    """A survey that keeps asking through all of the stream."""

    def next_round(self, tallies):
        question = TailQuestion.at(20.0, Fraction(1), dither=1.0)
        return SurveyRound(questions=(question,), participants=RUNS * LENGTH, in_stream=True)

    def decide(self, tallies):
        return SurveyDecision(threshold=THRESHOLD, offset=0.0, low=20.0, high=30.0)


def _answers(survey, mechanism, epsilon, start, end):
    """The same values come again and again: one range of each time."""
    words = tg.seeded(5).new_epoch().keystream("test", b"").at()
    collection = ServerCollection(
        survey=survey,
        reporter=lambda threshold: mechanism(threshold, epsilon),
        threshold_epsilon=Fraction(1),
        epsilon=epsilon,
        capacity=RUNS * LENGTH,  # every position is a mark
    )
    values = np.tile(VALUES, RUNS)
    slots = np.arange(values.size) % len(collection.slots)
    reports = np.zeros(values.size, dtype=np.int64)
    for index, slot in enumerate(collection.slots):
        reports[slots == index] = slot.question.answers(values[slots == index], words)
    collection.receive(slots, reports)
    times = np.arange(RUNS) * LENGTH
    return collection.queries(times + start, times + end)


@pytest.mark.parametrize(
    ("survey", "mechanism", "epsilon"),
    [
        (GivenThresholdSurvey(THRESHOLD), stochastic_rounding, Fraction(1, 5)),
        (GivenThresholdSurvey(THRESHOLD), stochastic_rounding, Fraction(2)),
        (GivenThresholdSurvey(THRESHOLD), hybrid, Fraction(2)),
        (AskedAll(), stochastic_rounding, Fraction(1)),
    ],
    ids=["SR 0.2", "SR 2", "HM 2", "every second device asked otherwise"],
)
def test_intervals_cover_and_state_noise_and_spread(survey, mechanism, epsilon):
    start, end = 200, 1700
    answers = _answers(survey, mechanism, epsilon, start, end)
    truth = TRUTH[start:end]
    errors = answers.estimate - truth.sum()
    stated = np.square(answers.noise_error).mean()
    assert abs(errors.mean()) < 4 * np.sqrt(stated / RUNS) + _represented(survey, truth)
    noise = (THRESHOLD / 2) ** 2 * mechanism(THRESHOLD, epsilon).variance(2 * truth / THRESHOLD - 1)
    spread = np.square(truth - truth.mean())
    # Devices asked otherwise are represented by the one before: those count 2², and they not.
    weights = (
        np.ones(truth.size) if isinstance(survey, GivenThresholdSurvey) else np.array([4, 0] * 750)
    )
    assert errors.var() == pytest.approx(weights @ noise, rel=0.2)  # 500 runs know it to 6 %
    assert stated == pytest.approx(weights @ (noise + spread), rel=0.06)
    covered = np.mean((answers.low <= truth.sum()) & (truth.sum() <= answers.high))
    assert 0.92 < covered < 0.99


def _represented(survey, truth):
    """What it costs, this time, that the neighbour stands for devices that are asked otherwise."""
    return (
        0.0 if isinstance(survey, GivenThresholdSurvey) else abs(2 * truth[::2].sum() - truth.sum())
    )


def test_a_handful_of_reports_gets_the_worst_case():
    question = stochastic_rounding(THRESHOLD, Fraction(1))
    collection = ServerCollection(
        survey=GivenThresholdSurvey(THRESHOLD),
        reporter=question.at,
        threshold_epsilon=Fraction(1),
        epsilon=Fraction(1),
    )
    collection.receive(np.zeros(4, dtype=np.int64), np.ones(4, dtype=np.int64))  # no spread at all
    worst = 4 * (THRESHOLD / 2) ** 2 * float(question.variance(np.zeros(1))[0])
    assert collection.query(0, 4).noise_error ** 2 == pytest.approx(worst * 64 / 68)


def test_what_truncation_is_expected_to_take_is_added_and_low_reaches_down_by_it():
    class Offset(GivenThresholdSurvey):
        def decide(self, tallies):
            return SurveyDecision(threshold=THRESHOLD, offset=0.5, low=20.0, high=30.0)

    plain, raised = (
        ServerCollection(
            survey=survey,
            reporter=lambda threshold: stochastic_rounding(threshold, Fraction(1)),
            threshold_epsilon=Fraction(1),
            epsilon=Fraction(1),
        )
        for survey in (GivenThresholdSurvey(THRESHOLD), Offset(THRESHOLD))
    )
    reports = np.arange(1000) % 2
    for collection in (plain, raised):
        collection.receive(np.zeros(1000, dtype=np.int64), reports)
    one, other = plain.query(100, 900), raised.query(100, 900)
    assert other.estimate == pytest.approx(one.estimate + 400)
    assert other.low == pytest.approx(one.low)
    assert other.high == pytest.approx(one.high + 400)


def test_between_marks_the_interval_is_wider():
    collection = ServerCollection(
        survey=GivenThresholdSurvey(THRESHOLD),
        reporter=lambda threshold: stochastic_rounding(threshold, Fraction(5)),
        threshold_epsilon=Fraction(1),
        epsilon=Fraction(5),
        capacity=8,
    )
    words = tg.seeded(6).new_epoch().keystream("test", b"").at()
    reports = collection.slots[0].question.answers(VALUES, words)
    collection.receive(np.zeros(LENGTH, dtype=np.int64), reports)
    assert collection.collected.sums.spacing == 256
    assert collection.query(256, 512).prediction_error == 0
    cut = collection.query(256 + 128, 512 + 128)
    assert cut.prediction_error > THRESHOLD * 2
    assert cut.low < TRUTH[256 + 128 : 512 + 128].sum() < cut.high


@pytest.mark.parametrize(
    ("starts", "ends"), [([5], [4]), ([-1], [4]), ([0], [11]), ([0, 1], [2]), ([0.5], [2])]
)
def test_wrong_ranges_are_refused(starts, ends):
    collection = ServerCollection(
        survey=GivenThresholdSurvey(THRESHOLD),
        reporter=lambda threshold: stochastic_rounding(threshold, Fraction(1)),
        threshold_epsilon=Fraction(1),
        epsilon=Fraction(1),
    )
    collection.receive(np.zeros(10, dtype=np.int64), np.ones(10, dtype=np.int64))
    with pytest.raises(tg.QueryError):
        collection.queries(starts, ends)
    assert len(collection.queries([0, 10], [10, 10])) == 2


@pytest.mark.parametrize("mechanism", [hybrid, optimal])
def test_intervals_hold_values_that_sent_no_report(mechanism):
    """Every second device is asked otherwise, half of the values lie at either end, and reports
    have hardly any noise: what is not known are the values that were not asked for."""
    values = THRESHOLD * (np.random.default_rng(1).random(20_000) < 0.5)
    collection = ServerCollection(
        survey=AskedAll(),
        reporter=lambda threshold: mechanism(threshold, Fraction(8)),
        threshold_epsilon=Fraction(1),
        epsilon=Fraction(8),
    )
    words = tg.seeded(7).new_epoch().keystream("test", b"").at()
    slots = np.arange(values.size) % len(collection.slots)
    reports = np.zeros(values.size, dtype=np.int64)
    for index, slot in enumerate(collection.slots):
        reports[slots == index] = slot.question.answers(values[slots == index], words)
    collection.receive(slots, reports)
    totals = np.concatenate(([0], np.cumsum(values)))
    for length in (1, 2, 16, 64):
        starts = np.arange(0, values.size - length, length)
        answers = collection.queries(starts, starts + length)
        truth = totals[starts + length] - totals[starts]
        covered = np.mean((answers.low <= truth) & (truth <= answers.high))
        assert covered > 0.93, length
