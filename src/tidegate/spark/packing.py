"""Packed rows: the values of many sequence numbers in one row, many times as fast in Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from tidegate.errors import SettingError
from tidegate.exact_numbers import said

_LONGEST = 4096  # values of a packed row


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
                yield _packed(frame)

    schema = "key string, order long, value array<double>"
    found = df.select(*columns).mapInPandas(
        packed, schema if time is None else f"{schema}, time array<long>"
    )
    if time is None or integral:
        return found
    return found.withColumn("time", F.transform("time", F.timestamp_micros))


def _packed(frame: pd.DataFrame) -> pd.DataFrame:
    frame = frame.sort_values(["key", "order"], kind="stable")
    keys, numbers = frame["key"].to_numpy(), frame["order"].to_numpy()
    begins = np.ones(len(frame), dtype=np.bool_)
    begins[1:] = (keys[1:] != keys[:-1]) | (numbers[1:] != numbers[:-1] + 1)
    run = np.arange(len(frame)) - np.maximum.accumulate(np.where(begins, np.arange(len(frame)), 0))
    begins |= run % _LONGEST == 0
    starts = np.flatnonzero(begins)
    columns: dict[str, Any] = {"key": keys[starts], "order": numbers[starts]}
    for name in frame.columns[2:]:
        parts = np.split(frame[name].to_numpy(), starts[1:])
        column = np.empty(len(parts), dtype=object)
        column[:] = parts
        columns[name] = column
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
