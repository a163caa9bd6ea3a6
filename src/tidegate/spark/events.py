"""Events by key in a batch DataFrame: sums per tick of a public clock, for every declared key."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tidegate.errors import InputError, SettingError
from tidegate.keyed.key_names import declared_keys
from tidegate.ownership import Ownership
from tidegate.randomness import random_bytes
from tidegate.run.event_release import EventRelease
from tidegate.run.pipeline import Pipeline
from tidegate.spark.secret import MasterSecret
from tidegate.spark.shard import SHARD, shard_of
from tidegate.timestamps import Times

_SCHEMA = (
    "key string, position long, time timestamp, value double, level double, epoch string, "
    "epsilon string"
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
    until: Any,
    shards: int = 64,
    secret: str = "env:TIDEGATE_KEY",  # noqa: S107  # the place of the secret, not the secret
) -> DataFrame:
    """Release the sum per tick of each key, from a batch DataFrame of events.

    **Privacy**: ε of the pipeline for one event more or less. Every declared key gets a row for
    every tick up to `until`, with or without events: neither keys nor numbers of rows tell of an
    event. An event belongs to one key, whose stream alone reads it, with noise of its own: keys are
    parallel. The epoch of a shard follows from a random id of this call and a keyed digest of its
    events, as in `spark.batch_operator`: evaluated again over other events it has other noise.

    Args:
        df: events in any order; not streaming: when a tick is over must come from a clock.
        pipeline: from `tidegate.events`, with a zone (`start="2024-02-01T00:00Z"`).
        key, time, value: the columns; `time` is a timestamp; without `value` each counts as one.
        keys: all keys that there can be. Events of others are dropped.
        until: the time up to which ticks are released; public, never read off the events.
        shards, secret: as of `release`.
    """
    if df.isStreaming:
        raise SettingError("df", "must not be streaming: events by key are released in batches")
    if pipeline.ticks is None:
        raise SettingError("pipeline", "must be one for events: tidegate.events(...)")
    if pipeline.ticks.clock.zone is None:
        raise SettingError("start", "must have a zone, as the timestamps of Spark: add a Z")
    pipeline.ticks.complete(until)  # refuses a time that is none
    names = declared_keys(keys)
    place = MasterSecret(secret)
    every = df.sparkSession.createDataFrame([(name,) for name in names], "key string")
    number = F.lit(1.0) if value is None else F.col(value).cast("double")
    events = df.select(
        F.col(key).cast("string").alias("key"),
        F.unix_micros(F.col(time).cast("timestamp")).alias("at"),
        number.alias("value"),
    ).join(every, "key", "left_semi")
    nothing = every.select("key", F.lit(None).cast("long").alias("at"), F.lit(0.0).alias("value"))
    rows = events.unionByName(nothing).withColumn(SHARD, shard_of(F.col("key"), shards))
    work = event_function(pipeline, place, random_bytes(16).hex(), until)
    released = rows.groupBy(SHARD).applyInPandas(work, _SCHEMA.replace("timestamp", "long"))
    return released.withColumn("time", F.timestamp_micros("time"))


def event_function(pipeline: Pipeline, secret: MasterSecret, run: str, until: Any) -> _ROW:
    """What releases the events of one shard."""
    settings = pipeline.settings()

    def released(group: tuple[Any, ...], frame: pd.DataFrame) -> pd.DataFrame:
        same = Pipeline.from_settings(settings)
        if same.ticks is None:
            raise AssertionError("the pipeline was checked")
        # Arrival must not decide anything: neither the epoch, nor sums of rounded values.
        frame = frame.sort_values(["key", "at", "value"], kind="stable")
        marks = frame[frame["at"].isna()]["key"]
        frame = frame[frame["at"].notna()]
        key = secret.digest_key()
        digest = hashlib.blake2b("\0".join(frame["key"]).encode(), key=key, digest_size=16)
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
                stream.push(times, mine["value"].to_numpy(dtype=np.float64))
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
