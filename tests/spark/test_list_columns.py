"""Lists of numbers go to Spark as one column of Arrow: no number becomes an object on the way."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="needs pyspark: pip install '.[spark]'")

import pandas as pd
import pyarrow as pa

from tests.spark.streams import made_up
from tidegate.spark.frames import _packed_frame
from tidegate.spark.list_columns import WHOLE, list_column


def arrow(series: pd.Series) -> pa.Array:
    return pa.Array.from_pandas(series)


def test_a_list_column_holds_the_same_numbers() -> None:
    numbers = np.array([1.5, -0.0, np.nan, 4.0, 5e-324])
    found = arrow(list_column(numbers, np.array([0, 2, 4])))
    assert found.type == pa.list_(pa.float64())
    assert found.to_pylist() == [[1.5, 0.0], [None, 4.0], [5e-324]]
    assert np.signbit(found.values[1].as_py())
    whole = np.array([2**60, None, 3], dtype=object)
    assert arrow(list_column(whole, np.array([0, 2]), WHOLE)).to_pylist() == [[2**60, None], [3]]
    nothing = np.zeros(0, dtype=np.int64)
    assert arrow(list_column(np.zeros(0), nothing)).to_pylist() == []


def test_spark_does_not_touch_the_numbers() -> None:
    """PySpark applies `list` to every array; that cost more than the whole release."""
    numbers = np.arange(6.0)

    def never(one: Any) -> Any:
        raise AssertionError("a list was converted")

    frame = pd.DataFrame({"key": ["a", "b"], "value": list_column(numbers, np.array([0, 4]))})
    column = frame[["key", "value"]].iloc[:, 1].apply(never)
    found = arrow(column)
    assert found.values.buffers()[1].address == numbers.ctypes.data  # not even copied


def test_packed_frames_keep_values_and_times() -> None:
    values = made_up(1, 6)["key-0"]
    frame = pd.DataFrame({"key": list("aabbab"), "order": [0, 1, 7, 9, 2, 8], "value": values})
    frame["time"] = np.arange(6) * 10
    packed = _packed_frame(frame)
    assert packed["key"].tolist() == ["a", "b"]
    assert packed["order"].tolist() == [0, 7]
    assert arrow(packed["value"]).to_pylist() == [
        values[[0, 1, 4]].tolist(), values[[2, 5, 3]].tolist()
    ]  # fmt: skip
    assert arrow(packed["time"]).to_pylist() == [[0, 10, 40], [20, 50, 30]]
