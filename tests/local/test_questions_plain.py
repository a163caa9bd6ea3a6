"""Questions as messages: there and back, and nothing malformed gets in."""

import contextlib
import json
import math
from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.depth import examples
from tests.texts import texts
from tidegate.errors import RefusedError, SettingError
from tidegate.local.announcements_and_reports import question_from_plain
from tidegate.local.mechanisms import hybrid, optimal, piecewise, square_wave, stochastic_rounding
from tidegate.local.questions import TailQuestion, ValueQuestion, WaveQuestion

ONE = Fraction(1)


@cache
def questions():
    """Not made where this is only imported: the linear program takes a while."""
    return {
        "stochastic rounding": stochastic_rounding(40, ONE),
        "piecewise": piecewise(40, ONE),
        "hybrid": hybrid(2**53, ONE),
        "optimal": optimal(40, ONE),
        "square wave": square_wave(1657, ONE),
        "tail": TailQuestion.at(20.5, ONE, dither=1.0),
    }


def test_questions_survive_json():
    for name, question in questions().items():
        assert question_from_plain(json.loads(json.dumps(question.plain()))) == question, name


@given(
    st.one_of(
        st.builds(
            stochastic_rounding,
            st.integers(1, 2**53),
            st.fractions(Fraction(1, 1000), 10, max_denominator=10**6),
        ),
        st.builds(
            square_wave,
            st.integers(1, 2**37),
            st.fractions(Fraction(1, 1000), 10, max_denominator=10**6),
            st.integers(1, 2**12),
        ),
        st.builds(
            TailQuestion,
            level=st.floats(0, 2**53),
            dither=st.floats(0, 2**53),
            lie=st.integers(1, 2**31),
        ),
    )
)
def test_any_question_survives_json(question):
    assert question_from_plain(json.loads(json.dumps(question.plain()))) == question


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(texts(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=examples(50))
@given(anything)
def test_what_is_no_question_is_refused(plain):
    with pytest.raises(SettingError):
        question_from_plain(plain)


@settings(max_examples=examples(200))
@given(st.data(), st.sampled_from(["stochastic rounding", "square wave", "tail"]), anything)
def test_a_question_with_one_field_replaced_is_refused_or_sound(data, which, wrong):
    """Whatever is read can be answered for every value, by the weights that `check` looks at."""
    plain = questions()[which].plain()
    plain[data.draw(st.sampled_from(sorted(plain)))] = wrong
    try:
        question = question_from_plain(plain)
    except SettingError:
        return
    with contextlib.suppress(RefusedError):
        question.check(ONE)
    for value in (0, 1, 19, 2**53, -(10**400), 10**400):
        assert 0 <= question.answer(value, lambda: 0) < question.reports


PLAIN = stochastic_rounding(40, ONE).plain()
HALF = 2**31
WRONG_VALUES = {
    "no rows": {"weights": []},
    "one row": {"weights": PLAIN["weights"][:1]},
    "rows of another width": {"weights": [[1, 2, 3], [1, 2, 3]]},
    "rows that are no lists": {"weights": ["12", "21"]},
    "fractional weights": {"weights": [[2.5, 1.5], [1.5, 2.5]]},
    "boolean weights": {"weights": [[True, HALF], [HALF, True]]},
    "a weight of nothing": {"weights": [[2**32, 0], [0, 2**32]]},
    "a negative weight": {"weights": [[2**32 + 1, -1], [-1, 2**32 + 1]]},
    "two totals": {"weights": [[HALF, HALF], [HALF, HALF - 1]]},
    "more than 32 bits": {"weights": [[2**32, 1], [1, 2**32]]},
    "a total that keeps a device busy": {"weights": [[3, 1], [1, 3]], "outputs": [-2.0, 2.0]},
    "means that fall": {"weights": PLAIN["weights"][::-1]},
    "means that are equal": {"weights": [[HALF, HALF], [HALF, HALF]]},
    "means that do not reach": {"outputs": [-1.0, 1.0]},
    "outputs beyond floats": {"outputs": [-(10**400), 10**400]},
    "outputs whose means overflow": {"outputs": [-1e308, 1e308]},
    "outputs that are no numbers": {"outputs": ["-2", "2"]},
    "outputs that are not finite": {"outputs": [-math.inf, math.inf]},
    "an output that is NaN": {"outputs": [math.nan, 2.0]},
    "a threshold of nothing": {"threshold": 0},
    "a threshold beyond exact floats": {"threshold": 2**53 + 1},
    "a fractional threshold": {"threshold": 1.5},
    "a threshold that is true": {"threshold": True},
}


@pytest.mark.parametrize("wrong", WRONG_VALUES.values(), ids=WRONG_VALUES)
def test_tables_that_would_mislead_a_device_are_refused(wrong):
    with pytest.raises(SettingError, match=r"threshold|weights|outputs"):
        question_from_plain({**PLAIN, **wrong})


WAVE = square_wave(1657, ONE).plain()
TAIL = TailQuestion.at(20.5, ONE, dither=1.0).plain()


@pytest.mark.parametrize(
    ("plain", "wrong"),
    [
        (WAVE, {"top": 0}),
        (WAVE, {"top": 2**37 + 1}),
        (WAVE, {"bins": 0}),
        (WAVE, {"bins": 2**20}),
        (WAVE, {"half": -1}),
        (WAVE, {"half": "1"}),
        (WAVE, {"low": 0}),
        (WAVE, {"low": WAVE["high"] + 1}),
        (WAVE, {"high": 2**32}),
        (WAVE, {"high": 2, "low": 1}),  # the total would keep a device busy
        (TAIL, {"lie": 0}),
        (TAIL, {"lie": 2**31 + 1}),
        (TAIL, {"level": -1.0}),
        (TAIL, {"level": 10**400}),
        (TAIL, {"dither": math.nan}),
        (TAIL, {"dither": math.inf}),
        (TAIL, {"dither": None}),
    ],
)
def test_waves_and_tails_that_would_mislead_a_device_are_refused(plain, wrong):
    with pytest.raises(SettingError):
        question_from_plain({**plain, **wrong})


def test_constructors_refuse_the_same():
    with pytest.raises(SettingError, match="threshold"):
        ValueQuestion(threshold=0, weights=((1, 1), (1, 1)), outputs=(-1.0, 1.0))
    with pytest.raises(SettingError, match="lie"):
        TailQuestion(level=1.0, dither=0.0, lie=0)
    with pytest.raises(SettingError, match="level"):
        TailQuestion(level=math.nan, dither=0.0, lie=1)
    with pytest.raises(SettingError, match="bins"):
        WaveQuestion(top=9, bins=0, half=1, high=2, low=1)
