"""Order, late and repeated rows, gaps: decided by sequence numbers and state alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="needs pyspark: pip install '.[spark]'")

from tidegate.errors import InputError
from tidegate.spark.sequence_numbers import (
    CLOSE,
    FILL,
    NOTHING_YET,
    REFUSE,
    InputRows,
    OrderedRows,
    in_order,
)


def rows(*listed: tuple[str, int, list[float]]) -> InputRows:
    names = sorted({key for key, _, _ in listed})
    return InputRows(
        np.array(names, dtype=object),
        np.array([names.index(key) for key, _, _ in listed]),
        np.array([first for _, first, _ in listed]),
        np.array([len(values) for _, _, values in listed]),
        np.array([value for _, _, values in listed for value in values], dtype=float),
        None,
    )


def new(count: int) -> np.ndarray:
    return np.full(count, NOTHING_YET)


def listed(found: OrderedRows) -> dict[str, list[float]]:
    return {
        str(name): found.values[found.codes == code].tolist()
        for code, name in enumerate(found.names)
    }


def test_rows_of_a_key_are_ordered_across_a_batch() -> None:
    found = in_order(rows(("b", 3, [3]), ("a", 1, [10]), ("b", 1, [1, 2])), new(2), REFUSE)
    assert listed(found) == {"a": [10], "b": [1, 2, 3]}
    assert found.last.tolist() == [1, 3]


def test_late_and_repeated_rows_are_dropped_by_number() -> None:
    batch = rows(("a", 1, [1, 2, 3, 4]), ("a", 3, [3]), ("b", 0, [5]))
    found = in_order(batch, np.array([2, NOTHING_YET]), CLOSE)
    assert listed(found) == {"a": [3, 4], "b": [5]}
    assert in_order(batch, np.array([9, 9]), REFUSE).codes.size == 0


@pytest.mark.parametrize(
    ("gaps", "expected"), [(CLOSE, [1, 4, 5]), (FILL, [1, np.nan, np.nan, 4, np.nan, 5])]
)
def test_gaps_are_closed_or_filled(gaps: str, expected: list[float]) -> None:
    found = in_order(rows(("a", 6, [5]), ("a", 1, [1]), ("a", 4, [4])), new(1), gaps)
    np.testing.assert_array_equal(found.values, expected)
    assert found.last.tolist() == [6]


def test_a_gap_to_the_batch_before_counts() -> None:
    batch = rows(("a", 7, [7]))
    assert in_order(batch, np.array([6]), REFUSE).values.size == 1
    with pytest.raises(InputError, match="sequence number is missing"):
        in_order(batch, np.array([5]), REFUSE)
    assert in_order(batch, np.array([4]), FILL).values.size == 3


def test_a_gap_beyond_reason_is_refused_before_memory_is_taken() -> None:
    with pytest.raises(InputError, match="numbered one by one"):
        in_order(rows(("a", 10**12, [7])), np.array([4]), FILL)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 12), st.integers(1, 4)), max_size=12),
    st.randoms(use_true_random=False),
    st.integers(-1, 6),
)
def test_arrival_decides_nothing(
    drawn: list[tuple[str, int, int]], random: object, seen: int
) -> None:
    """Any order of the same rows gives the same values: what a replay needs."""
    batch = [(key, first, [float(first + at) for at in range(many)]) for key, first, many in drawn]
    batch = [(key, first, [key == "a" or one for one in values]) for key, first, values in batch]
    batch = [*batch, ("a", 3, [0.5]), ("b", 3, [2.5])]
    known = np.array([seen if seen >= 0 else NOTHING_YET, NOTHING_YET])
    found = in_order(rows(*batch), known, CLOSE)
    taken: dict[tuple[str, int], float] = {}
    for key, first, values in batch:
        for at, value in enumerate(values, first):
            taken[key, at] = min(value, taken.get((key, at), np.inf))
    for code, key in enumerate("ab"):
        numbers = sorted(at for name, at in taken if name == key and at > known[code])
        assert listed(found)[key] == [taken[key, at] for at in numbers]
    random.shuffle(batch)  # type: ignore[attr-defined]
    again = in_order(rows(*batch), known, CLOSE)
    np.testing.assert_array_equal(again.values, found.values)
    np.testing.assert_array_equal(again.codes, found.codes)
