"""`exponential_bounds` is the floor and the ceiling, whatever the precision it starts from."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.depth import examples
from tidegate.noise import exponential_bounds, exponential_enclosure

CASES = st.tuples(st.integers(1, 10**20), st.integers(1, 10**20), st.integers(0, 120)).filter(
    lambda case: case[0] < 200 * case[1]
)


@settings(max_examples=examples(300), deadline=None, database=None, derandomize=True)
@given(case=CASES)
def test_bounds_are_floor_and_ceiling(case):
    numerator, denominator, bits = case
    with localcontext() as context:
        context.prec = 80
        value = (Decimal(-numerator) / Decimal(denominator)).exp() * Decimal(1 << bits)
        floor = int(value)
    assert exponential_bounds(numerator, denominator, bits) == (floor, floor + 1)


@pytest.mark.parametrize("guard_bits", [1, 3, 200])
def test_first_precision_does_not_matter(monkeypatch, guard_bits):
    cases = [(n, d, bits) for n in (1, 7, 1000) for d in (1, 3, 10**9) for bits in (40, 63, 300)]
    expected = [exponential_bounds(*case) for case in cases]
    monkeypatch.setattr(exponential_enclosure, "_FIRST_GUARD_BITS", guard_bits)
    assert [exponential_bounds(*case) for case in cases] == expected


def test_too_little_precision_is_noticed(monkeypatch):
    """With one guard bit the first enclosure is too wide, and a second one is computed."""
    precisions = []
    enclosure = exponential_enclosure._enclosure

    def counting(numerator, denominator, halvings, precision):
        precisions.append(precision)
        return enclosure(numerator, denominator, halvings, precision)

    monkeypatch.setattr(exponential_enclosure, "_FIRST_GUARD_BITS", 1)
    monkeypatch.setattr(exponential_enclosure, "_enclosure", counting)
    exponential_bounds(10, 3, 63)
    assert len(precisions) > 1


def test_ends():
    assert exponential_bounds(0, 5, 7) == (128, 128)
    assert exponential_bounds(10**400, 1, 64) == (0, 1)
    assert exponential_bounds(64, 1, 64) == (0, 1)
    assert exponential_bounds(1, 10**400, 64) == ((1 << 64) - 1, 1 << 64)
    assert exponential_bounds(44, 1, 64)[0] == math.floor(Fraction(math.exp(-44)) * (1 << 64))
