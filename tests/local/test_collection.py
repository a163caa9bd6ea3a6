"""The server's state machine: rounds, rotation, what is published, state, refusals."""

import json
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate as tg
from tests.depth import examples
from tidegate.local.mechanisms import stochastic_rounding
from tidegate.local.questions import TailQuestion
from tidegate.local.server_collection import STREAM, THRESHOLD, ServerCollection
from tidegate.local.survey import SurveyDecision, SurveyRound

VALUES = tg.synthetic.baskets(6000)
HOLDOUT, ASKED = 2000, 1024


@dataclass(frozen=True)
class Ladder:
    """A survey that is quick to compute: each round's levels follow from the answers before."""

    epsilon: Fraction

    def next_round(self, tallies):
        number = len(tallies)
        if number == 9:
            return None
        ones = sum(counts[1] for tally in tallies for counts in tally.counts)
        levels = [5.0 + ones % 7 + rung for rung in range(3)]
        return SurveyRound(
            questions=tuple(TailQuestion.at(level, self.epsilon, dither=1.0) for level in levels),
            participants=HOLDOUT // 5 if number < 5 else ASKED // 4,
            in_stream=number >= 5,
        )

    def decide(self, tallies):
        return SurveyDecision(threshold=30 + len(tallies), offset=0.25, low=20.0, high=60.0)


def _collection(epsilon=Fraction(2), threshold_epsilon=Fraction(2), capacity=1 << 16):
    return ServerCollection(
        survey=Ladder(threshold_epsilon),
        reporter=lambda threshold: stochastic_rounding(threshold, epsilon),
        threshold_epsilon=threshold_epsilon,
        epsilon=epsilon,
        capacity=capacity,
    )


def _restored(state):
    collection = _collection()
    collection.restore(state)
    return collection


def _reports(collection, values, seed=1):
    """The (slots, reports) of a simulation, round by round, as a server would get them."""
    random = np.random.default_rng(seed)
    calls, position = [], 0
    while position < len(values):
        left = len(values) - position
        count = left if collection.left is None else min(collection.left, left)
        slots = np.arange(count) % len(collection.slots)
        reports = np.array(
            [
                collection.slots[slot].question.answer(
                    int(value), lambda: int(random.integers(2**32))
                )
                for slot, value in zip(slots, values[position : position + count], strict=True)
            ]
        )
        calls.append((slots, reports))
        collection.receive(slots, reports)
        position += count
    return calls, collection


CALLS, WHOLE = _reports(_collection(), VALUES)
SLOTS, REPORTS = (np.concatenate(parts) for parts in zip(*CALLS, strict=True))


def _fed(collection, slots, reports, sizes):
    """Feed in pieces of these sizes, cut where rounds close."""
    published, position, sizes = [np.zeros(0)], 0, list(sizes)
    while position < len(slots):
        count = min(sizes.pop() if sizes else len(slots), len(slots) - position)
        if collection.left is not None:
            count = min(count, collection.left)
        piece = slice(position, position + count)
        published.append(collection.receive(slots[piece], reports[piece]))
        position += count
    return np.concatenate(published)


@settings(max_examples=examples(20))
@given(sizes=st.lists(st.integers(1, 3000), max_size=6))
def test_any_split_of_reports_gives_the_same_state(sizes):
    collection = _collection()
    _fed(collection, SLOTS, REPORTS, sizes)
    assert collection.plain() == WHOLE.plain()


def test_one_report_at_a_time_gives_the_same_state():
    collection = _collection()
    _fed(collection, SLOTS, REPORTS, [1] * len(SLOTS))
    assert collection.plain() == WHOLE.plain()


@pytest.mark.parametrize("cut", [0, 1000, 2000, 2300, 5999])
def test_state_survives_json_and_goes_on(cut):
    first, through = _collection(), None
    _fed(first, SLOTS[:cut], REPORTS[:cut], [])
    through = _restored(json.loads(json.dumps(first.plain())))
    assert through.plain() == first.plain()
    after = [_fed(one, SLOTS[cut:], REPORTS[cut:], []) for one in (first, through)]
    assert np.array_equal(*after)
    assert through.plain() == WHOLE.plain()


@pytest.mark.parametrize("name", ["round", "questions", "collected", "decision", "last"])
def test_a_damaged_state_is_refused_and_nothing_has_changed(name):
    collection = _collection()
    before = collection.plain()
    damaged = {key: value for key, value in WHOLE.plain().items() if key != name}
    with pytest.raises(tg.SnapshotError):
        collection.restore(damaged)
    assert collection.plain() == before


def test_a_state_with_questions_that_cost_more_is_refused():
    collection = _collection(Fraction(1), Fraction(1))
    with pytest.raises(tg.RefusedError):
        collection.restore(WHOLE.plain())


def test_reports_and_questions_alternate_while_the_survey_keeps_asking():
    collection = _collection()
    seen = []
    for slots, reports in CALLS:
        phases = [slot.phase for slot in collection.slots]
        seen.append((collection.left, phases[:2], len(set(phases))))
        collection.receive(slots, reports)
    assert [left for left, _, _ in seen[:5]] == [400] * 5
    assert all(phases == [THRESHOLD] * 2 for _, phases, _ in seen[:5])
    assert all(phases == [STREAM, THRESHOLD] for _, phases, _ in seen[5:9])
    assert sum(left for left, _, _ in seen[5:9]) == 2 * ASKED
    assert seen[9] == (None, [STREAM], 1)
    assert len(collection.tallies) == 9
    assert sum(sum(row) for tally in collection.tallies for row in tally.counts) == HOLDOUT + ASKED


def test_a_report_stands_for_the_device_that_was_asked_after_it():
    published = _fed(_collection(), SLOTS, REPORTS, [])
    assert published.size == 4000
    asked = 2 * ASKED
    assert np.array_equal(published[0:asked:2], published[1:asked:2])
    worth = WHOLE.slots[0].question.decoded + WHOLE.decision.offset
    assert set(published[asked:]) <= set(worth)


def test_the_stream_never_closes_and_keeps_no_tally():
    before = len(WHOLE.plain()["tallies"])
    collection = _restored(WHOLE.plain())
    for _ in range(3):
        collection.receive(np.zeros(1000, dtype=np.int64), np.zeros(1000, dtype=np.int64))
    assert collection.left is None
    assert len(collection.tallies) == before


@pytest.mark.parametrize(
    ("slots", "reports"),
    [
        ([0, 99], [0, 0]),
        ([-1], [0]),
        ([0], [2]),
        ([0], [-1]),
        ([0, 0], [0]),
        ([0] * 401, [0] * 401),
    ],
)
def test_wrong_reports_are_refused_and_nothing_is_taken(slots, reports):
    collection = _collection()
    collection.receive(np.array([0]), np.array([1]))
    before = collection.plain()
    with pytest.raises(tg.InputError):
        collection.receive(np.array(slots), np.array(reports))
    assert collection.plain() == before


def test_every_question_of_every_round_costs_at_most_its_epsilon():
    _, collection = _reports(_collection(threshold_epsilon=Fraction(1, 2)), VALUES[:2100])
    for slot in collection.slots:
        assert slot.epsilon == (2 if slot.phase == STREAM else Fraction(1, 2))
        slot.question.check(slot.epsilon)
        with pytest.raises(tg.RefusedError):
            slot.question.check(slot.epsilon * Fraction(999, 1000))
    for tally in collection.tallies:
        for question in tally.questions:
            question.check(Fraction(1, 2))


def test_questions_depend_on_earlier_rounds_only():
    """Sequentially interactive: what later devices have changes no earlier question."""
    changed = VALUES.copy()
    changed[800:] = 400
    _, other = _reports(_collection(), changed)
    for number in range(3):  # rounds of 400: the third is asked before device 800 answers
        assert other.tallies[number].questions == WHOLE.tallies[number].questions
    assert other.tallies[0].counts == WHOLE.tallies[0].counts
    assert other.tallies[3].questions != WHOLE.tallies[3].questions


def test_memory_does_not_grow_with_the_stream():
    collection = _collection(capacity=256)
    _fed(collection, SLOTS, REPORTS, [])
    sizes = []
    reports = np.tile(np.array([0, 1, 1]), 1 << 16)
    for _ in range(4):
        collection.receive(np.zeros_like(reports), reports)
        assert len(collection.collected.sums.marks) <= 256
        sizes.append(len(json.dumps(collection.plain())))
    assert collection.collected.count > 12 << 16
    assert max(sizes) < 256 * 6 * 22 + 30_000  # six sums a mark, and the tallies


def test_thresholds_of_ranges_and_positions_of_another_theta():
    assert [threshold for _, threshold, _ in WHOLE.collected.thresholds] == [35, 36, 37, 38, 39]
    assert [start for start, *_ in WHOLE.collected.thresholds] == [0, 512, 1024, 1536, 2048]
    assert WHOLE.query(0, 4000).threshold == 35
    assert WHOLE.query(2048, 4000).threshold == 39
    assert WHOLE.threshold == 39


def test_devices_that_do_not_answer_leave_gaps_but_no_bias():
    """Slots in any order: whoever is asked otherwise is represented by the last report."""
    collection = _collection()
    position = 0
    while collection.decision is None:
        collection.receive(*CALLS[position])
        position += 1
    value = collection.slots[0].question
    published = collection.receive(np.array([1, 0, 3, 5, 2]), np.array([0, 1, 1, 0, 0]))
    middle, low, high = value.threshold / 2, *value.decoded
    assert published == pytest.approx(np.array([middle, high, high, high, low]) + 0.25)
    assert collection.receive(np.array([1]), np.array([0])) == pytest.approx(low + 0.25)
    # Weights 1, 3, 1 and then, for the repeat of the last, 2² − 1² more.
    assert collection.collected.sums.totals[2] == pytest.approx((2**2 - 1) + 3**2 + 2**2)
