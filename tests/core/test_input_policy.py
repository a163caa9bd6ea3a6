"""What goes in: positions never shift, numbers are clamped, what is no number is refused unseen."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.laws.catalogue import bits, facts
from tidegate.errors import InputError
from tidegate.lattice import Lattice

NAN, INF = float("nan"), float("inf")
WHOLE = Lattice(Fraction(100), Fraction(1))
CENTS = Lattice(Fraction(30), Fraction(1, 100))


def units(lattice: Lattice, values: Any) -> list[int]:
    return lattice.units(lattice.numbers(values)).tolist()


def pipeline(**more: Any) -> tg.Pipeline:
    return tg.Pipeline(
        threshold=tg.threshold.Fixed(100),
        perturber=tg.perturb.Hierarchy(epsilon=1, horizon=60, fanout=4, skipped=1),
        **more,
    )


@pytest.mark.parametrize(
    ("given_values", "expected"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([], []),
        ((5, 6), [5, 6]),
        (range(3), [0, 1, 2]),
        ([NAN, 5.0], [0, 5]),
        ([None, 5], [0, 5]),
        ([None, None], [0, 0]),
        ([None, NAN, INF, -INF], [0, 0, 100, 0]),
        ([-1, 101, 100, 0], [0, 100, 100, 0]),
        ([-0.0, -1e300, 1e300], [0, 0, 100]),
        ([0.5, 1.5, 2.5, 0.49, 99.6], [0, 2, 2, 0, 100]),  # half to even
        ([2**70, -(2**70), 7], [100, 0, 7]),
        ([10**400, -(10**400)], [100, 0]),
        ([2**63, 3], [100, 3]),
        ([Decimal("7.4"), Fraction(15, 2), True, False], [7, 8, 1, 0]),
        ([Decimal("NaN"), Decimal("Infinity"), Decimal("-Infinity")], [0, 100, 0]),
        ([np.float32(3), np.int8(-3), np.uint64(2**64 - 1), np.bool_(True)], [3, 0, 100, 1]),
        (np.array([], dtype=float), []),
        (np.array([], dtype=object), []),
        (np.array([2**64 - 1, 5], dtype=np.uint64), [100, 5]),
        (np.array([2**64 - 1, 5], dtype=">u8"), [100, 5]),
        (np.array([-128, 127, 5], dtype=np.int8), [0, 100, 5]),
        (np.array([5, -5], dtype=">i4"), [5, 0]),
        (np.array([65504, NAN, 7.5, INF], dtype=np.float16), [100, 0, 8, 100]),
        (np.array([3e38, -3e38, 7], dtype=np.float32), [100, 0, 7]),
        (np.array([1e308, NAN, 7], dtype=np.longdouble), [100, 0, 7]),
        (np.array([True, False]), [1, 0]),
        (np.array([None, 3, 4.0, Decimal(5)], dtype=object), [0, 3, 4, 5]),
        (np.ma.array([5, 6, 7], mask=[False, True, False]), [5, 0, 7]),
        (np.ma.array([5.0, 6.0, NAN], mask=[True, False, False]), [0, 6, 0]),
        (np.ma.array([5, 6], mask=np.ma.nomask), [5, 6]),
        (np.ma.array([5, None, 7], mask=[False, True, False], dtype=object), [5, 0, 7]),
    ],
)
def test_numbers_are_clamped_in_their_place(given_values: Any, expected: list[int]) -> None:
    assert units(WHOLE, given_values) == expected


@pytest.mark.parametrize(
    ("given_values", "expected"),
    [
        ([0.126, 31, -5, NAN, 0.125, 0.135], [13, 3000, 0, 0, 12, 14]),
        ([1, 30, 29], [100, 3000, 2900]),
        (np.array([1, 200], dtype=np.uint8), [100, 3000]),
        (np.array([2**64 - 1, 2], dtype=np.uint64), [3000, 200]),
        ([Decimal("0.07"), Fraction(1, 3), None], [7, 33, 0]),
        (np.array([1e308, -1e308]), [3000, 0]),  # overflows on the way to steps
        ([True], [100]),
    ],
)
def test_numbers_are_rounded_to_the_resolution(given_values: Any, expected: list[int]) -> None:
    assert units(CENTS, given_values) == expected


NUMBERS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(0, 40),
    st.integers(-50, 4000),
    st.integers(-(2**80), 2**80),
    st.integers(0, 8000).map(lambda n: n / 200),  # many halves
    st.decimals(allow_nan=False, allow_infinity=True),
    st.none(),
    st.booleans(),
)


ODD = Lattice(bound=Fraction(30), resolution=Fraction(3, 10))  # no whole number of units in 1


@given(st.lists(NUMBERS, max_size=12), st.sampled_from([WHOLE, CENTS, ODD]))
def test_one_value_and_an_array_agree(values: list[Any], lattice: Lattice) -> None:
    single = [lattice.unit(value) for value in values]
    assert all(type(unit) is int for unit in single)
    assert single == units(lattice, values)
    assert single == units(lattice, np.array([*values, None], dtype=object))[:-1]
    assert all(0 <= unit <= lattice.top for unit in single)


@pytest.mark.parametrize("resolution", ["1", "0.01", "0.3"])
def test_integers_one_by_one_are_released_as_in_an_array(resolution: str) -> None:
    pipeline = tg.tops(epsilon=1, bound=30, horizon=50, holdout=10, resolution=resolution)
    values = [-1, 0, 1, 7, 29, 30, 31, 2**70, 0, 3] * 7
    single = pipeline.start(tg.seeded(3))
    whole = pipeline.start(tg.seeded(3)).push(np.array(values, dtype=object))
    assert [single.push(value) for value in values][10:] == whole.tolist()


@given(st.integers(0, 3000))
def test_multiples_of_the_resolution_stay_what_they_are(unit: int) -> None:
    assert units(CENTS, [unit / 100]) == [unit]
    assert CENTS.unit(Decimal(unit) / 100) == unit


SECRET = "tr0ub4dor"
NOT_NUMBERS: list[tuple[Any, str | None]] = [
    ([1, SECRET, 2], "position 21"),
    ([1, 2, "3"], "position 22"),
    ([SECRET], "position 20"),
    (SECRET, "position 20"),
    (b"tr0ub4dor", "position 20"),
    ("17", "position 20"),
    ([1, b"tr0ub4dor"], "position 21"),
    ([1, 2, 3j], "position 2"),
    ([1, object()], "position 21"),
    ([1, {SECRET: 1}], "position 21"),
    (np.array([SECRET, "x"]), "position 20"),
    (np.array([1, SECRET], dtype=object), "position 21"),
    (np.array(["2020-01-01"], dtype="M8[D]"), "position 20"),
    (np.array([(1, 2)], dtype=[("a", int), ("b", int)]), "position 20"),
    ([[1, 2], [3, 4]], "dimension"),
    (np.zeros((2, 2)), "dimension"),
    (np.zeros((1, 0)), "dimension"),
    ([[1], [2, 3]], None),
    ([1, [2, 3]], None),
    ({SECRET: 2}, None),
    (object(), None),
    (iter([1, 2]), None),
]


@pytest.mark.parametrize(("bad", "message"), NOT_NUMBERS, ids=[str(i) for i in range(22)])
def test_what_is_no_number_is_refused_unseen_and_nothing_is_taken(
    bad: Any, message: str | None
) -> None:
    release, untouched = pipeline().start(tg.seeded(1)), pipeline().start(tg.seeded(1))
    for one in (release, untouched):
        one.push(np.arange(20))
    before = facts(release)
    with pytest.raises(tg.InputError, match=message) as caught:
        release.push(bad)
    text = str(caught.value) + repr(caught.value)
    assert SECRET not in text
    assert "17" not in text
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert facts(release) == before
    later = np.arange(50)
    assert bits(release.push(later)) == bits(untouched.push(later))
    assert facts(release) == facts(untouched)


def test_positions_count_from_the_first_input_hold_out_included() -> None:
    release = tg.tops(epsilon=1, bound=9, horizon=50, holdout=10).start(tg.seeded(1))
    with pytest.raises(tg.InputError, match="position 3 "):
        release.push([1, 2, 3, "x"])
    assert release.holding == 10
    release.push([1] * 15)
    with pytest.raises(tg.InputError, match="position 15 "):
        release.push("x")
    release.push(1)
    with pytest.raises(tg.InputError, match="position 17 "):
        release.push([1, "x"])


@pytest.mark.parametrize(
    "scalar",
    [
        5,
        5.0,
        np.int8(5),
        np.float16(5),
        np.uint64(5),
        Decimal(5),
        Fraction(5),
        4.9,
        np.float64(5.1),
    ],
)
def test_every_kind_of_scalar_is_one_value(scalar: Any) -> None:
    one, two = pipeline().start(tg.seeded(1)), pipeline().start(tg.seeded(1))
    expected = [two.push(5) for _ in range(9)]
    found = [one.push(scalar) for _ in range(9)]
    assert all(type(value) is float for value in found)
    assert bits(found) == bits(expected)


@pytest.mark.parametrize(
    "scalar", [None, NAN, np.nan, -3, -INF, Decimal("NaN"), False, np.float32("nan")]
)
def test_missing_and_negative_scalars_count_as_zero(scalar: Any) -> None:
    one, two = pipeline().start(tg.seeded(1)), pipeline().start(tg.seeded(1))
    assert bits([one.push(scalar) for _ in range(9)]) == bits([two.push(0) for _ in range(9)])
    assert one.position == 9


def test_a_missing_value_keeps_its_place() -> None:
    one, two = pipeline().start(tg.seeded(1)), pipeline().start(tg.seeded(1))
    assert bits(one.push([9, None, 9, NAN, 9] * 4)) == bits(two.push([9, 0, 9, 0, 9] * 4))


@pytest.mark.parametrize(
    "values",
    [
        np.arange(-10, 300),
        np.linspace(-5, 300, 310),
        np.arange(310, dtype=np.uint64),
        np.arange(310).astype(np.float32),
        np.arange(310).astype(object),
        np.arange(620)[::2],
        np.arange(310)[::-1],
        np.arange(620).reshape(310, 2)[:, 1],
    ],
)
@pytest.mark.parametrize("resolution", ["1", "1/4"])
def test_input_arrays_are_not_modified(values: np.ndarray, resolution: str) -> None:
    before = values.copy()
    expected = (
        pipeline(resolution=resolution).start(tg.seeded(1)).push(np.ascontiguousarray(values))
    )
    np.testing.assert_array_equal(values, before)
    values.flags.writeable = False
    release = pipeline(resolution=resolution).start(tg.seeded(1))
    assert bits(release.push(values)) == bits(expected)
    held = tg.tops(epsilon=1, bound=100, horizon=60, holdout=200, resolution=resolution)
    held.start(tg.seeded(1)).push(values)
    np.testing.assert_array_equal(values, before)


def test_output_is_the_callers_own() -> None:
    """Changing what came out changes nothing that is yet to come, and no answer."""
    one, two = pipeline().start(tg.seeded(1)), pipeline().start(tg.seeded(1))
    out = one.push(np.arange(30))
    two.push(np.arange(30))
    out[:] = 1e9
    assert bits(one.push(np.arange(30))) == bits(two.push(np.arange(30)))
    assert facts(one) == facts(two)


def test_empty_pushes_do_nothing() -> None:
    release = pipeline().start(tg.seeded(1))
    for empty in ([], (), np.array([]), np.array([], dtype=np.int64), range(0)):
        out = release.push(empty)
        assert isinstance(out, np.ndarray)
        assert out.shape == (0,)
    assert release.position == 0


def test_values_above_the_threshold_count_as_the_threshold() -> None:
    one, two = pipeline().start(tg.seeded(1)), pipeline().start(tg.seeded(1))
    assert bits(one.push([100, 250, 10**9])) == bits(two.push([100, 100, 100]))


def test_an_error_about_an_array_has_none_of_numpy_behind_it() -> None:
    """Caught: the context of our error was numpy's, which quotes the value; logs may print it."""

    class Quoting(float):
        def __float__(self) -> float:
            raise ValueError("4711")

    for values in ([Quoting(1)], np.ones((2, 2))):
        with pytest.raises(InputError, match="one-dimensional") as caught:
            WHOLE.numbers(values)
        assert caught.value.__context__ is caught.value.__cause__ is None
