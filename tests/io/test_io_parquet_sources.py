"""Parquet: every type of number, nulls, users; what is no number is refused by its name."""

from __future__ import annotations

import decimal
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.errors import SettingError
from tidegate.io import SourceError, open_source
from tidegate.io.batches import BATCH_ROWS

NUMBERS = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(),
    pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.decimal128(9, 2),
    pa.decimal256(50, 2),
]  # fmt: skip


@pytest.mark.parametrize("kind", NUMBERS, ids=str)
@pytest.mark.parametrize("nulls", [False, True])
def test_every_type_of_number(tmp_path, read, kind, nulls):
    path = tmp_path / "s.parquet"
    decimals = pa.types.is_decimal(kind)
    items = [decimal.Decimal("1.50") if decimals else 1, 7, None if nulls else 0, 100]
    if kind == pa.float16():
        items = [None if item is None else np.float16(item) for item in items]
    pq.write_table(pa.table({"value": pa.array(items, kind)}), path)
    expected = [1.5 if decimals else 1, 7, None if nulls else 0, 100]
    assert read(path) == expected
    with open_source(path) as source:
        assert source.rows == 4
        batch = next(source.batches())
        whole = pa.types.is_integer(kind) and kind != pa.uint64() and not nulls
        assert batch.values.dtype == (np.int64 if whole else np.float64)
        assert batch.users is None
        assert source.fraction() == 1.0


def test_large_integers_booleans_and_dictionaries(tmp_path, read):
    path = tmp_path / "s.parquet"
    columns = {
        "large": pa.array([2**64 - 1, 0, 1], pa.uint64()),
        "exact": pa.array([2**62 + 1, 0, 1]),
        "nearly": pa.array([2**62 + 1, None, 1]),
        "flag": pa.array([True, None, False]),
        "code": pa.array([5, None, 6]).dictionary_encode(),
    }
    pq.write_table(pa.table(columns), path)
    assert read(path, column="large") == [2.0**64, 0, 1]
    assert read(path, column="exact") == [2**62 + 1, 0, 1]
    assert read(path, column="nearly") == [2.0**62, None, 1]
    assert read(path, column="flag") == [1, None, 0]
    assert read(path, column="code") == [5, None, 6]


@pytest.mark.parametrize(
    ("users", "expected"),
    [
        (pa.array(["a", None, ""]), ["a", None, None]),
        (pa.array(["a", None, "b"], pa.large_string()), ["a", None, "b"]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.array([0, None, 2**62 + 1]), [0, None, 2**62 + 1]),
    ],
)
def test_users(tmp_path, users, expected):
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table({"value": [1, 2, 3], "who": users}), path)
    with open_source(path, user_column="who") as source:
        batch = next(source.batches())
    assert batch.users.tolist() == expected
    assert batch.values.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (pa.array(["1"]), "'x' has the type string, not numbers"),
        (pa.array([[1]]), "'x' has nested values, not numbers"),
        (pa.array([{"secret": 1}]), "'x' has nested values, not numbers"),
        (pa.array([0], pa.timestamp("s")), "'x' has the type timestamp"),
    ],
)
def test_what_is_no_number_is_refused_by_name(tmp_path, values, says):
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table({"x": values, "y": [1]}), path)
    with pytest.raises(SettingError, match=says):
        open_source(path, column="x")
    pq.write_table(pa.table({"x": [1.5], "y": [1]}), path)
    with pytest.raises(SettingError, match="user_column: 'x' has"):
        open_source(path, column="y", user_column="x")


def test_one_large_row_group_comes_in_batches(tmp_path):
    path = tmp_path / "s.parquet"
    values = np.arange(3_000_000)
    pq.write_table(pa.table({"value": values}), path, row_group_size=1 << 30)
    with open_source(path) as source:
        pieces, shares = [], []
        for batch in source.batches():
            pieces.append(batch.values)
            shares.append(source.fraction())
    assert max(map(len, pieces)) <= BATCH_ROWS
    assert len(pieces) > 2
    assert shares == sorted(shares)
    assert math.isclose(shares[-1], 1)
    assert np.array_equal(np.concatenate(pieces), values)


def test_nothing_in_it(tmp_path, read):
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table({"value": pa.array([], pa.int64())}), path)
    assert read(path) == []


def test_a_name_that_is_no_utf_8_is_refused(tmp_path):
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"value": [1.5, 2.5], "other": [1, 2]}), path, store_schema=False)
    data = path.read_bytes()
    for word in (b"value", b"other"):
        path.write_bytes(data.replace(word, b"\xf0" + word[1:]))
        with pytest.raises(SourceError, match="damaged"):
            open_source(path)
