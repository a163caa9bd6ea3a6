"""Change the number of shards: turn an old checkpoint's state into that of a new query."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tidegate.errors import SettingError
from tidegate.keyed.regrouped_keys import regrouped_keys
from tidegate.run.pipeline import Pipeline
from tidegate.sealing import unseal
from tidegate.spark.executor_settings import ExecutorSettings
from tidegate.spark.secret import MasterSecret
from tidegate.spark.shard import BODY, SCHEMA, Shard, shard_of
from tidegate.spark.shard_operators import STATE


def reshard(
    spark: SparkSession,
    checkpoint: str | Path,
    pipeline: Pipeline,
    *,
    shards: int,
    to: int,
    secret: str = "env:TIDEGATE_KEY",  # noqa: S107  # the place of the secret, not the secret
) -> DataFrame:
    """The state of a stopped query in `to` shards, for `release(…, shards=to, initial=…)`.

    Every key continues bit for bit: its noise follows from the epoch and the key, never from the
    shard. The new query needs a new checkpoint and may read its source from any earlier place:
    rows that were released are recognised by their sequence numbers and dropped. Delete the old
    checkpoint: a key that continued in both would put the same noise on different values, if the
    two queries ever read different rows.

    Args:
        checkpoint: of the old query, which must be stopped.
        pipeline: of the release; it stays.
        shards: of the old query.
        to: how many there will be.
        secret: as in `release`.
    """
    place = MasterSecret(secret)
    stored = (
        spark.read.format("statestore")
        .option("path", str(checkpoint))
        .option("stateVarName", STATE)
        .load()
        .select(F.col("key.shard").alias("shard"), F.col(f"value.{BODY}").alias(BODY))
    )
    bodies = [(row["shard"], bytes(row[BODY])) for row in stored.collect()]
    public = unseal(bodies[0][1], place.sealing_key())[0] if bodies else {}
    plan = ExecutorSettings(
        pipeline=pipeline,
        secret=place,
        shards=shards,
        gaps="close",
        cap=None,
        packed=False,
        timed=False,
        label=public.get("label", ""),  # it stays: it is that of the noise
    )
    old = [Shard.resume(plan, number, body) for number, body in bodies]
    names = {name for shard in old for name in (*shard.names, *shard.spent)}
    if not names:
        raise SettingError("checkpoint", "has no keys yet: begin with another number of shards")
    places = spark.createDataFrame([(name,) for name in sorted(names)], "key string")
    homes = dict(places.select("key", shard_of(F.col("key"), to)).collect())
    new = _regrouped_shards(old, replace(plan, shards=to), homes)
    rows = [(shard.number, shard.sealed(), None, None) for shard in new]
    return spark.createDataFrame(rows, SCHEMA)


def _regrouped_shards(
    old: list[Shard], plan: ExecutorSettings, homes: dict[str, int]
) -> list[Shard]:
    last = {name: number for shard in old for name, number in shard.last.items()}
    releases = regrouped_keys([shard.release for shard in old], plan.shards, homes.__getitem__)
    found: list[Any] = []
    for number, release in enumerate(releases):
        numbers = np.array([last[name] for name in release.keys], dtype=np.int64)
        found.append(Shard(plan, number, release, numbers))
    for shard in old:
        for name, amount in shard.spent.items():  # of keys that have no row yet, too
            found[homes[name]].spent[name] = amount
    return found
