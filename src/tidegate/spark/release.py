"""`release`: a DataFrame in, a DataFrame of released rows out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody who uses Spark writes it
from pyspark.sql import types as T  # noqa: N812

from tidegate.errors import SettingError
from tidegate.exact_numbers import Number, exact, said
from tidegate.keyed.key_names import declared_keys
from tidegate.keyed.keyed_specification import UNDECLARED_KEYS
from tidegate.randomness import random_bytes
from tidegate.run.pipeline import Pipeline
from tidegate.spark.charges import spent_by_key
from tidegate.spark.executor_settings import ExecutorSettings
from tidegate.spark.frames import INTEGERS, NUMBERS
from tidegate.spark.release_labels import check_label, hold_label, label_of
from tidegate.spark.secret import MasterSecret
from tidegate.spark.shard import SCHEMA, SHARD, shard_of
from tidegate.spark.shard_operators import ShardProcessor, shard_function

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_TEXTS = (T.StringType, T.CharType, T.VarcharType)


def release(
    df: DataFrame,
    pipeline: Pipeline,
    *,
    key: str,
    order: str,
    value: str,
    time: str | None = None,
    keys: Iterable[Any] | DataFrame | None = None,
    keys_are_public: bool = False,
    shards: int = 64,
    secret: str = "env:TIDEGATE_KEY",  # noqa: S107  # the place of the secret, not the secret
    gaps: str = "close",
    cap: Number | None = None,
    spent: DataFrame | None = None,
    initial: DataFrame | None = None,
    name: str | None = None,
) -> DataFrame:
    """Release a stream for each key of a DataFrame, streaming or not.

    What comes out: (key, position, time, value, level, epoch, epsilon), and of a key, bit for bit,
    what a single-process release of its rows with the same key material would give. Rows may be
    delivered again by a sink that is not idempotent: (key, epoch, position) identifies one.

    **Privacy**: ε of the pipeline, for one value replaced at one position of one key, as
    `tidegate.keyed`. Keys, sequence numbers, times and how many rows a key has are public. Spark
    replays a batch after a failure: the noise is then the same, so the source must deliver the same
    rows again (Kafka, files and Delta do, sockets do not). See docs/guides/spark.md.

    Args:
        df: rows in any order.
        pipeline: what releases each of the streams.
        key: the column with the key, a text or a whole number.
        order: the column with the sequence number of a row, unique within its key: a whole number,
            or a timestamp. Rows whose number is not above the newest one taken are dropped, and so
            are all but one of several rows with one number.
        value: the column with the number; or with an array of numbers (`pack`), whose sequence
            numbers are `order`, `order` + 1, …; rows come out packed, too (`unpack`).
        time: the column with the time of a row, or an array of them; carried through.
        keys: all keys that there can be: a list, or a DataFrame whose first column has them.
            Rows of others are dropped.
        keys_are_public: take every key that comes.
        shards: hash(key) % shards is what Spark groups by. Fixed for the life of a checkpoint
            (`reshard` changes it): a few for each core of the cluster.
        secret: where executors find the master secret of 32 bytes: `file:/path`, `env:NAME` or
            `command:program arguments`.
        gaps: what a missing sequence number means: "close" (positions count the rows that came),
            "fill" (it counts as 0 at its position) or "refuse" (the batch fails).
        cap: the most ε that a key may spend over all of its epochs.
        spent: released rows of earlier epochs: what they cost counts for the cap.
        initial: the state of another checkpoint, from `reshard`.
        name: of this release, if a program has several streaming ones that read columns of the same
            names. It is a part of the identity of the noise: keep it.

    Raises:
        SettingError: a column is missing or of another type, or Spark has another state store.
    """
    if keys_are_public and keys is not None:
        raise SettingError("keys", "are declared, and said to be public: choose one")
    if keys is None and not keys_are_public:
        raise SettingError("keys", UNDECLARED_KEYS)
    rows, packed = _released_schema_rows(df, key, order, value, time)
    plan = ExecutorSettings(
        pipeline=pipeline,
        secret=MasterSecret(secret),
        shards=shards,
        gaps=gaps,
        cap=None if cap is None else exact("cap", cap),
        packed=packed,
        timed=time is not None,
        label=label_of(name, key, order, value, time, gaps=gaps),
    )
    if gaps != "close" and not isinstance(df.schema[order].dataType, INTEGERS):
        raise SettingError("gaps", "must be 'close' where `order` is a time")
    if keys is not None:
        rows = rows.join(_declared_for_release(df.sparkSession, keys), "key", "left_semi")
    grouped = rows.withColumn(SHARD, shard_of(F.col("key"), shards)).groupBy(SHARD)
    before = None if spent is None else _sharded_release(spent_by_key(spent), shards)
    kind = df.schema[time].dataType if time is not None else None
    if df.isStreaming:
        check_state_store_of_release(df.sparkSession)
        check_label(df, plan.label)
        first = before if initial is None else initial
        if before is not None and initial is not None:
            first = initial.unionByName(before)
        released = grouped.transformWithStateInPandas(
            ShardProcessor(plan),
            _schema_of_release(packed),
            "Append",
            "None",
            None if first is None else first.groupBy(SHARD),
        )
    else:
        if initial is not None:
            raise SettingError("initial", "is for streaming DataFrames: a batch has an end")
        nothing = df.sparkSession.createDataFrame([], SCHEMA)
        other = (nothing if before is None else before).groupBy(SHARD)
        work = shard_function(plan, random_bytes(16).hex())
        released = grouped.cogroup(other).applyInPandas(work, _schema_of_release(packed))
    found = released.withColumn("time", _as_time(F.col("time"), kind))
    return hold_label(found, plan.label, df) if df.isStreaming else found


def _released_schema_rows(
    df: DataFrame, key: str, order: str, value: str, time: str | None
) -> tuple[DataFrame, bool]:
    """The rows for executors, and whether they are packed."""
    for setting, name in (("key", key), ("order", order), ("value", value), ("time", time)):
        if name is not None and name not in df.columns:
            raise SettingError(setting, f"there is no column {said(name)}: {', '.join(df.columns)}")
    check_key_of_release(df, key)
    kind = df.schema[value].dataType
    packed = isinstance(kind, T.ArrayType)
    item = kind.elementType if isinstance(kind, T.ArrayType) else kind
    if not isinstance(item, NUMBERS):
        raise SettingError("value", "must be a number, or an array of numbers")
    ordered = df.schema[order].dataType
    if not isinstance(ordered, (*INTEGERS, T.TimestampType, T.TimestampNTZType)):
        raise SettingError("order", "must be a whole number or a timestamp")
    if packed and not isinstance(ordered, INTEGERS):
        raise SettingError("order", "must be a whole number where values are packed")
    columns = [
        F.col(key).cast("string").alias("key"),
        _as_number(F.col(order), ordered).alias("order"),
        F.col(value).cast("array<double>" if packed else "double").alias("value"),
    ]
    if time is not None:
        times = df.schema[time].dataType
        if isinstance(times, T.ArrayType) != packed:
            raise SettingError("time", "must be an array where `value` is one, and only there")
        columns.append(_as_number(F.col(time), times).alias("time"))
    return df.select(*columns), packed


def _as_number(column: Column, kind: T.DataType) -> Column:
    """Times as microseconds since 1970: pandas would convert them to the session's time zone."""
    if isinstance(kind, T.ArrayType):
        return F.transform(column, lambda one: _as_number(one, kind.elementType))
    if isinstance(kind, INTEGERS):
        return column.cast("long")
    if isinstance(kind, (T.TimestampType, T.TimestampNTZType, T.DateType)):
        return F.unix_micros(column.cast("timestamp"))
    raise SettingError("time", "must be a timestamp, a date or a whole number")


def _as_time(column: Column, kind: T.DataType | None) -> Column:
    if isinstance(kind, T.ArrayType):
        return F.transform(column, lambda one: _as_time(one, kind.elementType))
    if kind is None or isinstance(kind, INTEGERS):
        return column
    return F.timestamp_micros(column).cast(kind)


def _schema_of_release(packed: bool) -> str:
    many = (lambda kind: f"array<{kind}>") if packed else str
    return (
        f"key string, position long, time {many('long')}, value {many('double')}, "
        f"level {many('double')}, epoch string, epsilon string"
    )


def _declared_for_release(spark: SparkSession, keys: Iterable[Any] | DataFrame) -> DataFrame:
    if isinstance(keys, DataFrame):
        check_key_of_release(keys, keys.columns[0], "keys")
        return keys.select(F.col(keys.columns[0]).cast("string").alias("key")).distinct()
    return spark.createDataFrame([(name,) for name in declared_keys(keys)], "key string")


def _sharded_release(charges: DataFrame, shards: int) -> DataFrame:
    return charges.select(
        shard_of(F.col("key"), shards).alias(SHARD),
        F.lit(None).cast("binary").alias("body"),
        "key",
        "epsilon",
    )


def check_key_of_release(df: DataFrame, name: str, setting: str = "key") -> None:
    """Refuse keys that Spark writes differently than a single process: 1.0 is "1.0" or "1"."""
    if not isinstance(df.schema[name].dataType, (*_TEXTS, *INTEGERS)):
        raise SettingError(setting, f"{said(name)} must be a text or a whole number: cast it")


def check_state_store_of_release(spark: SparkSession) -> None:
    """Refuse a state store that `transformWithState` does not support."""
    if spark.conf.get(_PROVIDER, "") != _ROCKSDB:
        raise SettingError(
            _PROVIDER,
            f"must be {_ROCKSDB} before the query starts: "
            f'spark.conf.set("{_PROVIDER}", "{_ROCKSDB}")',
        )
