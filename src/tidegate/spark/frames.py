"""Rows of Spark as arrays, and released values as rows: plain, or packed into arrays.

Errors of pandas and pyarrow show the value they stumbled over, so none of them leaves.

Packed, a row holds the values of many sequence numbers: many times as fast in Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from tidegate.errors import InputError, SettingError
from tidegate.exact_numbers import said
from tidegate.lattice import IntArray
from tidegate.spark.list_columns import WHOLE, list_column
from tidegate.spark.sequence_numbers import InputRows
from tidegate.spark.shard import ReleasedShardValues, Shard

INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
NUMBERS = (*INTEGERS, T.FloatType, T.DoubleType, T.DecimalType)
KEY, ORDER, VALUE, TIME = "key", "order", "value", "time"  # of the rows that executors get
COLUMNS = ("key", "position", "time", "value", "level", "epoch", "epsilon")  # of released rows
_OTHER_LENGTH = "a packed row has not as many times as values, or one of them is missing"
_LONGEST_RELEASED = 1 << 16  # values of a packed row that is written


def check_number_in_frame(df: DataFrame, name: str, setting: str = "value") -> None:
    """Refuse a column that Spark would have to convert: its errors quote values."""
    if not isinstance(df.schema[name].dataType, NUMBERS):
        raise SettingError(setting, "must be a number: convert it before")


def input_rows_of_frames(
    frames: Iterable[pd.DataFrame], *, packed: bool, timed: bool
) -> InputRows | None:
    """The rows of all frames of a shard. None: there are none."""
    whole = [frame for frame in frames if len(frame)]
    if not whole:
        return None
    rows = whole[0] if len(whole) == 1 else pd.concat(whole, ignore_index=True)
    codes, names = _sorted_frame_codes(rows[KEY].to_numpy())
    numbers = rows[ORDER]
    if (codes < 0).any() or (numbers.dtype.kind != "i" and numbers.isna().any()):
        raise InputError("a row has no key or no sequence number: filter such rows out before")
    firsts = numbers.to_numpy(dtype=np.int64)
    times: IntArray | None = None
    if packed:
        # Rows are few, and sorting them spares `in_order` to move their values.
        order = np.lexsort((firsts, codes))
        codes, firsts, lists = codes[order], firsts[order], rows[VALUE].to_numpy()[order]
        counts = np.fromiter((0 if one is None else len(one) for one in lists), np.int64, len(rows))
        values = _joined_frames(lists, np.float64)
        if timed:
            times = _joined_frames(rows[TIME].to_numpy()[order], np.int64)
            if times.size != values.size:
                raise InputError(_OTHER_LENGTH)
    else:
        counts = np.ones(len(rows), dtype=np.int64)
        values = rows[VALUE].to_numpy(dtype=np.float64, na_value=np.nan)
        if timed:
            if rows[TIME].isna().any():
                raise InputError("a row has no time: filter such rows out before")
            times = rows[TIME].to_numpy(dtype=np.int64)
    return InputRows(names, codes, firsts, counts, values, times)


def _sorted_frame_codes(keys: NDArray[Any]) -> tuple[IntArray, NDArray[Any]]:
    """The index of each row's name, −1 for none; sorted, so that arrival does not matter."""
    codes, names = pd.factorize(keys)
    order = np.argsort(names)
    if (order[1:] > order[:-1]).all():
        return codes, names
    ranks = np.empty(order.size + 1, dtype=np.int64)
    ranks[order], ranks[-1] = np.arange(order.size), -1
    return ranks[codes], names[order]


def _joined_frames(lists: NDArray[Any], kind: Any) -> NDArray[Any]:
    """The items of all lists, concatenated; a missing number is NaN."""
    parts = [one for one in lists if one is not None and len(one)]
    if not parts:
        return np.zeros(0, dtype=kind)
    try:
        joined = np.concatenate(parts)
        if joined.dtype == object:  # some are missing
            joined = np.array([np.nan if one is None else one for one in joined])
        if kind is np.int64 and joined.dtype.kind == "f":
            raise InputError(_OTHER_LENGTH)
        return joined.astype(kind, copy=False)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("the items of a packed row must be numbers") from None


def output_frame(shard: Shard, released: ReleasedShardValues) -> pd.DataFrame:
    """Released values as rows; every row has the cost of its epoch."""
    count = len(released)
    if shard.plan.packed:
        columns, count = _packed_frame_columns(released)
    else:
        times: Any = _none(count) if released.times is None else released.times
        columns = {
            "key": released.keys[released.codes],
            "position": released.positions,
            "time": times,
            "value": released.values,
            "level": released.levels,
        }
    columns["epoch"] = np.full(count, shard.epoch, dtype=object)
    columns["epsilon"] = np.full(count, str(shard.plan.epsilon), dtype=object)
    return pd.DataFrame({name: columns[name] for name in COLUMNS}, copy=False)


def _none(count: int) -> NDArray[Any]:
    return np.full(count, None, dtype=object)


def _packed_frame_columns(released: ReleasedShardValues) -> tuple[dict[str, Any], int]:
    """One row for each key, with consecutive positions."""
    codes, positions = released.codes, released.positions
    begins = np.ones(codes.size, dtype=np.bool_)
    np.not_equal(codes[1:], codes[:-1], out=begins[1:])
    starts = np.flatnonzero(begins)
    lasts = np.append(starts[1:], codes.size) - 1
    if (positions[starts] // _LONGEST_RELEASED != positions[lasts] // _LONGEST_RELEASED).any():
        begins |= positions % _LONGEST_RELEASED == 0
        starts = np.flatnonzero(begins)
    count, times = starts.size, released.times
    return {
        "key": released.keys[codes[starts]],
        "position": positions[starts],
        "time": _none(count) if times is None else list_column(times, starts, WHOLE),
        "value": list_column(released.values, starts),
        "level": list_column(released.levels, starts),
    }, count


_LONGEST_INPUT = 4096  # values of a packed row


def pack(df: DataFrame, *, key: str, order: str, value: str, time: str | None = None) -> DataFrame:
    """Pack rows whose sequence numbers follow one another: (key, order, value, time).

    Nothing is shuffled: rows are packed as far as they come together in a partition of the input,
    up to as many as Spark hands to Python at once (`spark.sql.execution.arrow.maxRecordsPerBatch`).
    Works for streaming DataFrames, too. For `release`, which takes `order` as the sequence number
    of the first value of a row.
    """
    names = [key, order, value, *([] if time is None else [time])]
    for name in names:
        if name not in df.columns:
            raise SettingError("pack", f"there is no column {said(name)}: {', '.join(df.columns)}")
    check_number_in_frame(df, value)
    kind = T.StringType() if time is None else df.schema[time].dataType
    integral = isinstance(kind, (T.IntegerType, T.LongType))
    columns = [
        F.col(key).cast("string").alias("key"),
        F.col(order).cast("long").alias("order"),
        F.col(value).cast("double").alias("value"),
    ]
    if time is not None:
        when = F.col(time).cast("long") if integral else F.unix_micros(F.col(time))
        columns.append(when.alias("time"))

    def packed(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            if len(frame):
                yield _packed_frame(frame)

    schema = "key string, order long, value array<double>"
    found = df.select(*columns).mapInPandas(
        packed, schema if time is None else f"{schema}, time array<long>"
    )
    if time is None or integral:
        return found
    return found.withColumn("time", F.transform("time", F.timestamp_micros))


def _packed_frame(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.sort_values(["key", "order"], kind="stable")
    keys, numbers = frame["key"].to_numpy(), frame["order"].to_numpy()
    begins = np.ones(len(frame), dtype=np.bool_)
    begins[1:] = (keys[1:] != keys[:-1]) | (numbers[1:] != numbers[:-1] + 1)
    run = np.arange(len(frame)) - np.maximum.accumulate(np.where(begins, np.arange(len(frame)), 0))
    begins |= run % _LONGEST_INPUT == 0
    starts = np.flatnonzero(begins)
    columns: dict[str, Any] = {"key": keys[starts], "order": numbers[starts]}
    columns["value"] = list_column(frame["value"].to_numpy(), starts)
    if "time" in frame:
        columns["time"] = list_column(frame["time"].to_numpy(), starts, WHOLE)
    return pd.DataFrame(columns)


def unpack(released: DataFrame) -> DataFrame:
    """Released packed rows as one row for each value."""
    if not isinstance(released.schema["value"].dataType, T.ArrayType):
        return released
    exploded = released.select(*released.columns, F.posexplode("value").alias("at", "one"))
    return exploded.select(
        "key",
        (F.col("position") + F.col("at")).alias("position"),
        F.get(F.col("time"), F.col("at")).alias("time"),
        F.col("one").alias("value"),
        F.get(F.col("level"), F.col("at")).alias("level"),
        "epoch",
        "epsilon",
    )
