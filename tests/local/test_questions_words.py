"""A report is a function of the value and of the words: exact, and the same in bulk."""

from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest

from tidegate.errors import InputError
from tidegate.local.mechanisms import (
    hybrid,
    optimal,
    piecewise,
    square_wave,
    stochastic_rounding,
)
from tidegate.local.questions import TailQuestion, ValueQuestion, WaveQuestion
from tidegate.randomness import seeded

THREE = Fraction(3)
# Totals far from 2**32 throw words away; a slot of the guide then spans many columns.
LOPSIDED = ValueQuestion.fitted(
    9, [[2**31 - 9, 1, 2, 3, 1, 1], [1, 1, 3, 2, 1, 2**31 - 9]], [-3.0, -2.0, -1.0, 1.0, 2.0, 3.0]
)
TABLES = {
    "stochastic rounding": lambda: stochastic_rounding(40, THREE),
    "stochastic rounding of a bit": lambda: stochastic_rounding(1, THREE),
    "piecewise": lambda: piecewise(40, Fraction(5)),
    "piecewise, one row": lambda: piecewise(7, Fraction(1, 10)),
    "piecewise, not looked up": lambda: piecewise(2**53, THREE),
    "hybrid": lambda: hybrid(1_000, THREE),
    "optimal": lambda: optimal(40, THREE),
    "lopsided": lambda: LOPSIDED,
}
QUESTIONS = {
    **TABLES,
    "wave": lambda: square_wave(1657, Fraction(1)),
    "wave of a byte": lambda: square_wave(255, THREE),
    "wave that throws words away": lambda: WaveQuestion(
        top=9, bins=10, half=1, high=2**28, low=2**27
    ),
    "tail": lambda: TailQuestion.at(20.0, Fraction(1), dither=1.0),
    "tail, undithered": lambda: TailQuestion.at(20.5, THREE, dither=0.0),
}


@pytest.fixture(scope="module")
def question(request):
    """Made when it is asked for: a linear program takes half a second of whoever imports this."""
    return QUESTIONS[request.param]()


class Script:
    """Words of 64 bits, as given."""

    bits = 64

    def __init__(self, words):
        self._words, self._taken = np.array(words, dtype=np.uint64), 0

    def take(self, count):
        self._taken += count
        assert self._taken <= self._words.size, "more words were taken than are needed"
        return self._words[self._taken - count : self._taken]


def largest_of(question):
    return getattr(question, "threshold", getattr(question, "top", 60))


def values_for(question, count=4_000):
    largest = largest_of(question)
    drawn = np.random.default_rng(5).integers(0, largest + 1, size=count)
    return np.concatenate(([0, largest, largest - 1, -7, largest + 7], drawn))


@pytest.mark.parametrize("question", QUESTIONS, indirect=True)
def test_bulk_answers_are_the_answers_of_each_device(question):
    values = values_for(question)
    total = getattr(question, "total", 2**32)
    words = seeded(1).new_epoch().keystream("test", b"").at().take(40 * values.size).tolist()
    # Devices whose second word is not below the total draw again; each draw is in order of devices.
    spare = iter(words[values.size :])
    extra, queue = {}, list(range(values.size))
    while queue := [
        each
        for each in queue
        if extra.get(each, [words[each]])[-1] % 2**32 >= total and question.form != "tail"
    ]:
        for each in queue:
            extra.setdefault(each, []).append(next(spare))
    expected = []
    for index, value in enumerate(values.tolist()):
        own = [words[index] >> 32, words[index] % 2**32]
        own += [word % 2**32 for word in extra.get(index, [])]
        if question.form == "wave":
            own = own[1:]
        source = iter(own)
        expected.append(question.answer(value, lambda source=source: next(source)))
        assert not list(source), "a word was left over"
    assert question.answers(values, Script(words)).tolist() == expected


def answers_to(question, value, pairs):
    """What bulk and single devices answer to the same pairs of words."""
    packed = [first << 32 | second for first, second in pairs]
    bulk = question.answers(np.full(len(pairs), value), Script(packed)).tolist()
    single = []
    for pair in pairs:
        source = iter(pair[1:] if question.form == "wave" else pair)
        single.append(question.answer(value, lambda source=source: next(source)))
    assert bulk == single
    return bulk


@pytest.mark.parametrize("question", TABLES, indirect=True)
def test_every_column_gets_exactly_its_weight_of_the_words(question):
    # The last word as coin never leaves the row below, the first always does: rows 0 and −1. The
    # first and the last word of every cell fall into it: it has as many words as its weight.
    for value, coin, row in ((0, 2**32 - 1, 0), (question.threshold, 0, -1)):
        ends = list(accumulate(question.weights[row]))
        starts = [0, *ends[:-1]]
        inside = [(coin, start) for start in starts] + [(coin, end - 1) for end in ends]
        columns = list(range(question.reports))
        assert answers_to(question, value, inside) == columns + columns


def test_every_cell_of_a_wave_gets_exactly_its_weight_of_the_words():
    question = WaveQuestion(top=99, bins=10, half=2, high=2**28 + 1, low=2**26 - 3)
    for value in (0, 37, 99):
        start = value // 10
        weights = [question.low] * question.reports
        weights[start : start + 5] = [question.high] * 5
        ends = list(accumulate(weights))
        assert ends[-1] == question.total
        pairs = [(0, first) for first in [0, *ends[:-1]]] + [(0, end - 1) for end in ends]
        cells = list(range(question.reports))
        assert answers_to(question, value, pairs) == cells + cells


def test_a_tail_answer_lies_for_exactly_its_weight_of_the_words():
    question = TailQuestion.at(20.0, Fraction(1), dither=1.0)
    low, high = (0, question.lie - 1), (0, question.lie)
    assert answers_to(question, 30, [low, high]) == [0, 1]
    assert answers_to(question, 10, [low, high]) == [1, 0]
    # A value on the level is above it for half of the dithers.
    half = 2**31
    assert answers_to(question, 20, [(half, 2**32 - 1), (half + 1, 2**32 - 1)]) == [0, 1]


def test_the_coin_mixes_two_rows_to_the_value_itself():
    question = piecewise(1_000, Fraction(2))
    for value in (1, 333, 500, 998):
        x = 2 * value / 1_000 - 1
        row = int(np.searchsorted(question.means, x, side="right")) - 1
        low, high = question.means[row : row + 2]
        coin = int((x - low) / (high - low) * 2**32)
        # The first cell of the two rows differs in weight, so one word tells which was drawn.
        first, second = (list(accumulate(question.weights[each])) for each in (row, row + 1))
        column = next(k for k in range(question.reports) if first[k] != second[k])
        word = min(first[column], second[column])
        chosen = answers_to(question, value, [(coin - 2, word), (coin + 2, word)])
        assert len(set(chosen)) == 2


@pytest.mark.parametrize("question", QUESTIONS, indirect=True)
def test_values_that_are_no_steps_are_refused(question):
    words = seeded(1).new_epoch().keystream("test", b"").at()
    for values in (np.array([1.5]), np.array([True]), np.array([np.nan]), np.array([[1, 2]])):
        with pytest.raises(InputError, match="whole steps"):
            question.answers(values, words)
    assert question.answers(np.array([], dtype=np.int64), words).size == 0


@pytest.mark.parametrize("question", QUESTIONS, indirect=True)
def test_any_width_of_integer_gives_the_same_reports(question):
    def answered(values):
        words = seeded(1).new_epoch().keystream("test", b"").at()
        return question.answers(values, words).tolist()

    small = np.arange(0, 120, dtype=np.int8)
    assert answered(small) == answered(small.astype(np.int64)) == answered(small.astype(np.uint16))
    largest = np.array([2**64 - 1, 3], dtype=np.uint64)
    assert answered(largest) == answered(np.array([2**53, 3]))
