"""Change the number of shards: the state of an old checkpoint, for a new query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tidegate.errors import SettingError
from tidegate.keyed.regroup import regrouped
from tidegate.run.pipeline import Pipeline
from tidegate.spark.executor_settings import ExecutorPlan
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

    Every key goes on, bit for bit: its noise follows from the epoch and the key, never from the
    shard. The new query needs a new checkpoint and may read its source from any earlier place:
    rows that were released are recognised by their sequence numbers and dropped. Delete the old
    checkpoint: a key that went on in both would put the same noise on different values, if the two
    queries ever read different rows.

    Args:
        checkpoint: of the old query, which must be stopped.
        pipeline: of the release; it stays.
        shards: of the old query.
        to: how many there will be.
        secret: as in `release`.
    """
    plan = ExecutorPlan(
        pipeline=pipeline,
        secret=MasterSecret(secret),
        shards=shards,
        gaps="close",
        cap=None,
        packed=False,
        timed=False,
    )
    wanted = replace(plan, shards=to)
    stored = (
        spark.read.format("statestore")
        .option("path", str(checkpoint))
        .option("stateVarName", STATE)
        .load()
        .select(F.col("key.shard").alias("shard"), F.col(f"value.{BODY}").alias(BODY))
    )
    names = stored.mapInPandas(lambda frames: _names(plan, frames), "key string")
    places = names.withColumn("to", shard_of(F.col("key"), to))
    homes = {row["key"]: row["to"] for row in places.collect()}
    if not homes:
        raise SettingError("checkpoint", "has no keys yet: begin with another number of shards")
    bodies = [(row["shard"], bytes(row[BODY])) for row in stored.collect()]
    old = [Shard.resume(plan, number, body) for number, body in bodies]
    new = _regrouped_shards(old, wanted, homes)
    rows = [(shard.number, shard.sealed(), None, None) for shard in new]
    return spark.createDataFrame(rows, SCHEMA)


def _names(plan: ExecutorPlan, frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for frame in frames:
        for number, body in zip(frame["shard"], frame[BODY], strict=True):
            yield pd.DataFrame({"key": Shard.resume(plan, int(number), bytes(body)).names})


def _regrouped_shards(old: list[Shard], plan: ExecutorPlan, homes: dict[str, int]) -> list[Shard]:
    last = {name: number for shard in old for name, number in shard.last.items()}
    spent = {name: amount for shard in old for name, amount in shard.spent.items()}
    releases = regrouped([shard.release for shard in old], plan.shards, homes.__getitem__)
    found: list[Any] = []
    for number, release in enumerate(releases):
        numbers = np.array([last[name] for name in release.keys], dtype=np.int64)
        shard = Shard(plan, number, release, numbers)
        shard.spent = {name: spent[name] for name in release.keys if name in spent}
        found.append(shard)
    return found
