"""Values below 0: what is asked, what a report costs, what is published."""

import json
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import tidegate as tg
from tests.depth import in_turn
from tidegate.local.announcements_and_reports import Announcement
from tidegate.local.integer_weights import WORDS, least_weight
from tidegate.local.questions import TailQuestion, ValueQuestion
from tidegate.local.report_variance import MECHANISMS
from tidegate.local.server_collection import THRESHOLD

EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(4))


def _topl(**settings):
    return tg.topl(**{"epsilon": 2, "bound": 60, "lower": -50, "resolution": "1/10", **settings})


def _temperatures(count, mean=12.0):
    return np.random.default_rng(4).normal(mean, 9, count).round(1)


def _row(question, value):
    """The exact distribution of the report, as whole numbers that add up to total · 2**32."""
    row, coin = question.place(min(max(value, question.lowest), question.threshold))
    below, above = question.weights[row], question.weights[min(row + 1, len(question.weights) - 1)]
    return [low * (WORDS - coin) + high * coin for low, high in zip(below, above, strict=True)]


@pytest.mark.parametrize("name", sorted(MECHANISMS))
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_report_of_any_two_values_differs_by_at_most_e_to_the_epsilon(name, epsilon):
    """Every value of the domain, both ends and beyond, in integers; and not at 0.7 of ε."""
    question = MECHANISMS[name](9, epsilon).at(9, -7)
    rows = [_row(question, value) for value in range(-9, 12)]
    assert {sum(row) for row in rows} == {question.total * WORDS}
    columns = [(min(column), max(column)) for column in zip(*rows, strict=True)]
    assert all(least >= least_weight(largest, epsilon) for least, largest in columns)
    tighter = epsilon * 7 / 10
    assert not all(least >= least_weight(largest, tighter) for least, largest in columns)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("below", [False, True])
def test_a_bit_about_either_side_costs_epsilon_and_no_more(epsilon, below):
    question = TailQuestion.at(3.0, epsilon, dither=0.0, below=below)
    question.check(epsilon)
    with pytest.raises(tg.RefusedError):
        question.check(epsilon * 7 / 10)
    # Exact: without dither the second word alone decides.
    chances = {
        value: [question.lie if (-value if below else value) <= 3 else WORDS - question.lie]
        for value in range(-6, 7)
    }
    ones = [one for (one,) in chances.values()]
    assert least_weight(max(ones), epsilon) <= min(ones)
    words = iter([0, question.lie] * 13)
    for value in range(-6, 7):
        assert question.answer(value, words.__next__) == int((-value if below else value) > 3)


def test_bulk_answers_are_those_of_single_devices():
    values = np.arange(-20, 21)
    for question in (
        TailQuestion.at(3.5, Fraction(1), dither=1.0, below=True),
        MECHANISMS["hybrid"](9, Fraction(1)).at(9, -7),
    ):
        words = tg.seeded(3).new_epoch().keystream("test", b"").at()
        bulk = question.answers(values, words)
        words = tg.seeded(3).new_epoch().keystream("test", b"").at()
        pairs = words.take(values.size)
        for value, both, report in zip(values.tolist(), pairs.tolist(), bulk.tolist(), strict=True):
            halves = iter((both >> 32, both & 0xFFFFFFFF))
            assert question.answer(value, halves.__next__) == report


def test_reports_are_unbiased_between_the_two_ends():
    topl = _topl(threshold=20, report="hybrid")
    released = topl.simulate(np.full(100_000, -7.5), tg.seeded(1)).released
    question = topl.question(200).at(200, -200)
    variance = float(question.variance(np.array([-7.5 / 20]))[0]) * 20**2
    assert released.mean() == pytest.approx(-7.5, abs=4 * np.sqrt(variance / 100_000))
    assert released.var() == pytest.approx(variance, rel=0.03)
    cut = topl.simulate(np.full(100_000, -45.0), tg.seeded(1)).released
    assert cut.mean() == pytest.approx(-20, abs=4 * np.sqrt(2 * variance / 100_000))


def test_both_sides_are_asked_about_and_each_device_answers_one_question():
    topl = _topl(epsilon=4)
    collection = topl.collection()
    sides = [slot.question.below for slot in collection.slots]
    assert all(slot.phase == THRESHOLD for slot in collection.slots)
    assert sum(sides) == len(sides) // 2
    assert all(first != second for first, second in pairwise(sides))
    assert topl.guarantee.epsilon == 4  # not twice: parallel
    assert (
        max(slot.question.level for slot in collection.slots if slot.question.below)
        <= topl.lattice.bottom
    )


@pytest.mark.parametrize("mean", in_turn([12.0, 0.0, -12.0], 0))
def test_sums_of_temperatures(mean):
    values = _temperatures(30_000, mean)
    simulation = _topl(epsilon=4).simulate(values, tg.seeded(2))
    assert simulation.released.size == values.size
    answer = simulation.query(0, values.size)
    assert abs(answer.estimate - values.sum()) < 0.05 * np.abs(values).sum()
    assert answer.low < answer.estimate < answer.high
    assert answer.floor <= 0 < answer.threshold
    assert "capped to [" in str(answer)


def test_with_lower_0_nothing_changes():
    plain, zero = tg.topl(1, 100), tg.topl(1, 100, lower=0)
    assert plain == zero
    announced = plain.server().announcement().json()
    assert set(json.loads(announced)) == {
        "tidegate", "kind", "round", "phase", "epsilon", "bound", "resolution", "slot", "question",
    }  # fmt: skip
    assert "lowest" not in tg.topl(1, 100, threshold=20).server().announcement().json()


def test_server_and_devices_speak_of_lower():
    topl = _topl(threshold=20)
    with topl.server() as server:
        text = server.announcement().json()
        assert Announcement.from_json(text).lower == -50
        server.collect(topl.client().answer(text, -7.5))
        with pytest.raises(tg.RefusedError, match="below 0, the least value"):
            tg.topl(2, 60, resolution="1/10").client().answer(text, 7.5)
        with pytest.raises(tg.InputError, match="between -50 and 60"):
            topl.client().answer(text, -50.5)
        assert topl.client(clamp=True).answer(text, -51).report >= 0
        bound = server.poisoning_bound(0.01)
        assert bound.by_lying(100) == pytest.approx(0.01 * 100 * 40)


def test_a_stored_collection_resumes(tmp_path):
    topl, values = _topl(epsilon=4, fleet=400), _temperatures(600)
    clients = [topl.client(name=f"d{index}") for index in range(values.size)]

    def report(server, index):
        server.collect(clients[index].answer(server.announcement(), float(values[index])))

    with topl.server(tmp_path / "s.db") as server:
        for index in range(350):
            report(server, index)
        before = server.collection.plain()
    with topl.server(tmp_path / "s.db") as server:
        assert server.collection.plain() == before
        for index in range(350, 600):
            report(server, index)
        assert server.threshold is not None
        assert server.query(0, 450).floor < 0


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"lower": 1}, "lower"),
        ({"scheme": "published"}, "lower"),
        ({"lower": "-1e30"}, "lower"),
    ],
)
def test_wrong_settings(settings, named):
    with pytest.raises(tg.SettingError) as caught:
        _topl(**settings)
    assert caught.value.setting == named


def test_a_table_beyond_floats_is_refused():
    table = MECHANISMS["hybrid"](9, Fraction(1))
    for lowest in (1, -(2**53)):
        with pytest.raises(tg.SettingError, match="lowest"):
            ValueQuestion(threshold=9, weights=table.weights, outputs=table.outputs, lowest=lowest)
