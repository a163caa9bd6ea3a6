"""`release_events`: sums per tick of a public clock, for every declared key."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from tidegate.errors import InputError, SettingError
from tidegate.exact_numbers import Number, exact, said
from tidegate.keyed.key_names import declared_keys
from tidegate.ownership import Ownership
from tidegate.randomness import random_bytes
from tidegate.run.event_release import EventRelease
from tidegate.run.pipeline import Pipeline
from tidegate.spark.charges import spent_by_key
from tidegate.spark.event_shard import EventShardProcessor, check_cap_of_events
from tidegate.spark.executor_settings import ExecutorSettings
from tidegate.spark.frames import check_number_in_frame
from tidegate.spark.release import check_key_of_release, check_state_store_of_release
from tidegate.spark.release_labels import check_label, hold_label, label_of
from tidegate.spark.secret import MasterSecret
from tidegate.spark.shard import SHARD, shard_of
from tidegate.timestamps import Times

_SCHEMA = (
    "key string, position long, time long, value double, level double, epoch string, epsilon string"
)
_ROW = Callable[[tuple[Any, ...], pd.DataFrame], pd.DataFrame]


def release_events(
    df: DataFrame,
    pipeline: Pipeline,
    *,
    key: str,
    time: str,
    value: str | None = None,
    keys: Iterable[Any],
    until: Any = None,
    clock: DataFrame | None = None,
    shards: int = 64,
    secret: str = "env:TIDEGATE_KEY",  # noqa: S107  # the place of the secret, not the secret
    cap: Number | None = None,
    spent: DataFrame | None = None,
    name: str | None = None,
) -> DataFrame:
    """Release the sum per tick of each key, from a DataFrame of events, streaming or not.

    **Privacy**: ε of the pipeline for one event more or less. Every declared key gets a row for
    every tick up to `until`, or up to the newest time of the `clock`, with or without events:
    neither keys, nor numbers of rows, nor when they come tell of an event. An event belongs to one
    key, whose stream alone reads it, with noise of its own: keys are parallel.

    For a batch, the epoch of a shard follows from a random id of this call and a keyed digest of
    its events, as in `shard_operators`: evaluated again over other events it has other noise. For a
    stream, it follows from the id of the query and the columns that are read. Spark replays a batch
    after a failure: both sources must deliver the same rows again (Kafka, files, Delta and `rate`
    do, sockets do not).

    Args:
        df: events in any order.
        pipeline: from `tidegate.events`, with a zone (`start="2024-02-01T00:00Z"`).
        key, time, value: the columns; `time` is a timestamp, and `value` a number: Spark shows what
            it cannot convert in its errors. Without `value` each counts as one. An event without a
            time is in no tick: it is dropped.
        keys: all keys that there can be. Events of others are dropped.
        until: of a batch, the time up to which ticks are released; public, never read off the
            events.
        clock: of a stream, a streaming DataFrame whose first column is a timestamp: each row says
            that all ticks before it are over. It is public, so it must not come from the events:
            `spark.readStream.format("rate")`, or a topic of its own. Events that come in a later
            micro-batch than the end of their tick are dropped.
        shards, secret, cap, spent, name: as of `release`. Every declared key is charged.
    """
    names = declared_keys(keys)
    _check_events(df, pipeline, key, time, value)
    if (clock is None) == df.isStreaming or (until is None) != df.isStreaming:
        raise SettingError(
            "clock" if df.isStreaming else "until",
            "must be given for a streaming DataFrame, a streaming one of times when ticks are over"
            if df.isStreaming
            else "must be given for a batch: the time up to which ticks are released",
        )
    plan = ExecutorSettings(
        pipeline=pipeline,
        secret=MasterSecret(secret),
        shards=shards,
        gaps="close",
        cap=None if cap is None else exact("cap", cap),
        packed=False,
        timed=True,
        label=label_of(name, key, time, value),
    )
    every = df.sparkSession.createDataFrame([(name,) for name in names], "key string")
    number = F.lit(1.0) if value is None else F.col(value).cast("double")
    events = df.select(
        F.col(key).cast("string").alias("key"),
        F.unix_micros(F.col(time).cast("timestamp")).alias("at"),
        number.alias("value"),
    )
    # Without a time it would be taken for a mark (`_events_at_once`), and its key come out twice.
    events = events.where("at IS NOT NULL").join(every, "key", "left_semi")
    events = events.withColumn(SHARD, shard_of(F.col("key"), shards))
    every = every.withColumn(SHARD, shard_of(F.col("key"), shards))
    if clock is not None:
        check_label(df, plan.label)
        before = F.lit("0")
        charged = every
        if spent is not None:
            charged = every.join(spent_by_key(spent).select("key", "epsilon"), "key", "left")
            before = F.coalesce("epsilon", before)
        charged = charged.select("key", SHARD, before.alias("epsilon"))
        released = _events_streamed(events, clock, charged, plan)
    else:
        if spent is not None:
            check_cap_of_events(plan, every.join(spent_by_key(spent), "key").toPandas())
        released = _events_at_once(events, every, plan, until)
    found = released.withColumn("time", F.timestamp_micros("time"))
    return hold_label(found, plan.label, df) if df.isStreaming else found


def _check_events(
    df: DataFrame, pipeline: Pipeline, key: str, time: str, value: str | None
) -> None:
    if pipeline.ticks is None:
        raise SettingError("pipeline", "must be one for events: tidegate.events(...)")
    if pipeline.ticks.clock.zone is None:
        raise SettingError("start", "must have a zone, as the timestamps of Spark: add a Z")
    for setting, name in (("key", key), ("time", time), ("value", value)):
        if name is not None and name not in df.columns:
            raise SettingError(setting, f"there is no column {said(name)}: {', '.join(df.columns)}")
    check_key_of_release(df, key)
    if not isinstance(df.schema[time].dataType, (T.TimestampType, T.TimestampNTZType, T.DateType)):
        raise SettingError("time", "must be a timestamp: convert it before, with to_timestamp")
    if value is not None:
        check_number_in_frame(df, value)


def _events_at_once(
    events: DataFrame, every: DataFrame, plan: ExecutorSettings, until: Any
) -> DataFrame:
    if plan.pipeline.ticks is not None:
        plan.pipeline.ticks.complete(until)  # refuses what is not a time
    nothing = every.select(
        "key", F.lit(None).cast("long").alias("at"), F.lit(0.0).alias("value"), SHARD
    )
    work = event_function(plan.pipeline, plan.secret, random_bytes(16).hex(), until)
    return events.unionByName(nothing).groupBy(SHARD).applyInPandas(work, _SCHEMA)


def _events_streamed(
    events: DataFrame, clock: DataFrame, charged: DataFrame, plan: ExecutorSettings
) -> DataFrame:
    if not clock.isStreaming:
        raise SettingError("clock", "must be a streaming DataFrame, such as of format 'rate'")
    check_state_store_of_release(events.sparkSession)
    times = clock.select(
        F.lit(None).cast("string").alias("key"),
        F.unix_micros(F.col(clock.columns[0]).cast("timestamp")).alias("at"),
        F.lit(0.0).alias("value"),
        F.explode(F.sequence(F.lit(0), F.lit(plan.shards - 1))).alias(SHARD),
    ).where("at IS NOT NULL")
    return (
        events.unionByName(times)
        .groupBy(SHARD)
        .transformWithStateInPandas(
            EventShardProcessor(plan), _SCHEMA, "Append", "None", charged.groupBy(SHARD)
        )
    )


def event_function(pipeline: Pipeline, secret: MasterSecret, run: str, until: Any) -> _ROW:
    """The function that releases the events of one shard."""
    settings = pipeline.settings()

    def released(group: tuple[Any, ...], frame: pd.DataFrame) -> pd.DataFrame:
        same = Pipeline.from_settings(settings)
        if same.ticks is None:
            raise AssertionError("the pipeline was checked")
        # Arrival must not decide anything: neither the epoch, nor sums of rounded values.
        frame = frame.sort_values(["key", "at", "value"], kind="stable")
        marks = set(frame[frame["at"].isna()]["key"])  # all declared keys, each once
        frame = frame[frame["at"].notna()]
        key = secret.digest_key()
        digest = hashlib.blake2b(key=key, digest_size=16)
        for name in frame["key"]:  # with lengths: no two logs have the same bytes
            digest.update(len(name.encode()).to_bytes(8, "big") + name.encode())
        digest.update(len(frame).to_bytes(8, "big"))
        for column in (frame["at"].to_numpy(dtype=np.int64), frame["value"].to_numpy(float)):
            digest.update(column.view(np.int64).tobytes())
        epoch = secret.epoch(f"{run}/events/{group[0]}/{digest.hexdigest()}")
        groups = dict(iter(frame.groupby("key")))
        found = []
        for name in sorted(marks):
            stream = EventRelease(same, epoch.of_key(name), ownership=Ownership())
            mine = groups.get(name)
            if mine is not None:
                times = Times(mine["at"].to_numpy(dtype=np.int64) * 1000, same.ticks.clock)
                stream.push_rows(mine["value"].to_numpy(dtype=np.float64), times=times)
            rows = stream.advance(until)
            if rows.times is None:
                raise InputError("ticks have times")
            positions = np.arange(rows.first, rows.first + rows.values.size)
            columns: dict[str, Any] = {"key": name, "position": positions}
            columns |= {"time": rows.times // 1000, "value": rows.values, "level": rows.levels}
            found.append(pd.DataFrame(columns))
        whole = pd.concat(found, ignore_index=True)
        return whole.assign(epoch=epoch.id.hex(), epsilon=str(same.guarantee.epsilon))

    return released
