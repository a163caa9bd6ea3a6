"""Running sums: the same bits for every split, bounded memory, exact at the marks."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.depth import examples
from tidegate.local.running_sums import RunningSums

_ROWS = np.random.default_rng(3).normal(size=(1000, 2)) * 1e6 + 0.1


def _pushed(rows, cuts, capacity=16):
    sums = RunningSums(columns=2, capacity=capacity)
    for part in np.split(rows, sorted(cuts)):
        sums.push(part.T)
    return sums


@given(cuts=st.lists(st.integers(0, 1000), max_size=8), length=st.integers(0, 1000))
def test_any_split_gives_the_same_bits(cuts, length):
    rows = _ROWS[:length]
    split = _pushed(rows, [min(cut, length) for cut in cuts])
    assert split.plain() == _pushed(rows, []).plain()


def test_one_at_a_time_gives_the_same_bits():
    assert _pushed(_ROWS, range(1000)).plain() == _pushed(_ROWS, []).plain()


@given(cuts=st.lists(st.integers(0, 40_000), max_size=8), length=st.integers(0, 40_000))
@settings(max_examples=examples(20))
def test_any_split_gives_the_same_bits_where_units_are_longest(cuts, length):
    """With these few marks the spacing soon passes the 64 neighbours that are added up first."""
    rows = np.resize(_ROWS, (length, 2))
    split = _pushed(rows, [min(cut, length) for cut in cuts])
    whole = _pushed(rows, [])
    assert split.plain() == whole.plain()
    assert whole.totals == pytest.approx(rows.sum(axis=0), rel=1e-12, abs=1e-6)
    assert whole.marks == pytest.approx(np.cumsum(rows, axis=0)[whole.spacing - 1 :: whole.spacing])


def test_memory_is_bounded_and_half_used_at_least():
    sums = RunningSums(columns=1, capacity=64)
    ones = np.ones((1, 1 << 16))
    for _ in range(32):
        sums.push(ones)
        assert 32 <= len(sums.marks) <= 64
    assert sums.count == 32 << 16
    assert sums.spacing == sums.count // 64
    assert len(json.dumps(sums.plain())) < 64 * 16


def test_sums_are_exact_at_marks_and_linear_between():
    sums = _pushed(_ROWS, [], capacity=100)
    assert sums.spacing == 16
    prefix = np.concatenate((np.zeros((1, 2)), np.cumsum(_ROWS, axis=0)))
    marks = np.append(np.arange(0, 1001, 16), 1000)
    assert sums.before(marks) == pytest.approx(prefix[marks])
    assert sums.before(np.array([20])) == pytest.approx(0.75 * prefix[[16]] + 0.25 * prefix[[32]])
    past, length = sums.cut(np.array([20, 32, 999, 1000]))
    assert past.tolist() == [4, 0, 7, 8]
    assert length.tolist() == [16, 16, 8, 8]


def test_state_survives_json():
    sums = _pushed(_ROWS[:700], [])
    back = RunningSums.from_plain(json.loads(json.dumps(sums.plain())))
    for one in (sums, back):
        one.push(_ROWS[700:].T)
    assert back.plain() == sums.plain()
