"""Spark: throughput against a pass-through operator with the same shards, state a key, growth.

    python -m benchmarks.spark                      # packed and plain rows, fixed method
    python -m benchmarks.spark --master spark://…   # on a cluster
    python -m benchmarks.spark --growth             # 10³ to 10⁵ keys
    python -m benchmarks.spark --adaptive

Both operators run in turn in one session, over the same files; the first batch of each is left out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor

import tidegate as tg
import tidegate.spark as ts
from tidegate import estimate, perturb, threshold
from tidegate.run.pipeline import Pipeline
from tidegate.spark.executor_settings import Plan
from tidegate.spark.operators import STATE
from tidegate.spark.release import _schema
from tidegate.spark.secret import MasterSecret
from tidegate.spark.shard import Shard, shard_of

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HORIZON = 1 << 16


class PassThrough(StatefulProcessor):
    """The same shuffle, frames, state blob and schema; no release."""

    def __init__(self, size: int) -> None:
        self._size = size

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState(STATE, "body binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timers: Any) -> Any:  # noqa: N802
        if self._state.exists():
            self._state.get()
        frame = pd.concat(list(rows), ignore_index=True).sort_values(["key", "order"])
        self._state.update((bytes(self._size),))
        none = np.full(len(frame), None, dtype=object)
        yield pd.DataFrame(
            {
                "key": frame["key"], "position": frame["order"], "time": none,
                "value": frame["value"], "level": frame["value"],
                "epoch": np.full(len(frame), "none", dtype=object),
                "epsilon": np.full(len(frame), "1", dtype=object),
            }
        )  # fmt: skip

    def close(self) -> None:
        pass


def fixed() -> Pipeline:
    return Pipeline(
        threshold=threshold.Fixed(50),
        perturber=perturb.Hierarchy(epsilon=Fraction(1, 10), horizon=HORIZON),
        estimator=estimate.Recent(),
        resolution=Fraction(1, 100),
    )


def files(folder: Path, keys: int, each: int, batches: int, *, packed: bool) -> None:
    """A file for each batch: `each` values of every key."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    random = np.random.default_rng(1)
    names = np.array([f"meter-{at:07}" for at in range(keys)])
    for number in range(batches):
        values = np.round(random.gamma(2.0, 5.0, keys * each), 2)
        start = number * each
        if packed:
            lists = pa.ListArray.from_arrays(
                pa.array(np.arange(0, keys * each + 1, each, dtype=np.int32)), pa.array(values)
            )
            columns = {"key": names, "n": np.full(keys, start), "value": lists}
        else:
            numbers = np.tile(np.arange(start, start + each), keys)
            columns = {"key": np.repeat(names, each), "n": numbers, "value": values}
        table = pa.table(columns)
        rows = -(-len(table) // 4)
        pq.write_table(table, folder / f"{number:03}.parquet", row_group_size=rows)


def source(spark: SparkSession, folder: Path, *, packed: bool) -> DataFrame:
    kind = "array<double>" if packed else "double"
    read = spark.readStream.schema(f"key string, n long, value {kind}")
    return read.option("maxFilesPerTrigger", 1).parquet(str(folder))


def seconds(frame: DataFrame, checkpoint: Path) -> float:
    """Of a batch, once the first one is over."""
    shutil.rmtree(checkpoint, ignore_errors=True)
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    took = [
        one["durationMs"]["addBatch"] / 1000 for one in query.recentProgress if one["numInputRows"]
    ]
    return median(took[1:])


def session(master: str) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("benchmark")
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def state_bytes(plan: Plan, keys: int, each: int) -> float:
    """Of the sealed state of a shard, a key."""
    from tidegate.spark.sequence_numbers import InputRows

    shard = Shard.begin(plan, 0, plan.secret.epoch("benchmark"))
    names = np.array([f"meter-{at:07}" for at in range(keys)], dtype=object)
    values = np.random.default_rng(1).gamma(2.0, 5.0, keys * each)
    numbers = np.arange(keys), np.zeros(keys, dtype=np.int64), np.full(keys, each)
    shard.push(InputRows(names, *numbers, values, None))
    return len(shard.sealed()) / keys


def compare(
    spark: SparkSession, place: Path, pipeline: Pipeline, keys: int, each: int, **options: Any
) -> tuple[float, float]:
    """Seconds of a batch: passed through, and released."""
    packed, shards = options.get("packed", True), options.get("shards", 64)
    folder, secret = place / "in", place / "secret"
    secret.write_bytes(bytes(32))
    files(folder, keys, each, options.get("batches", 5), packed=packed)
    rows = source(spark, folder, packed=packed)
    plan = Plan(
        pipeline=pipeline, secret=MasterSecret(f"file:{secret}"), shards=shards, gaps="close",
        cap=None, packed=packed, timed=False,
    )  # fmt: skip
    size = round(state_bytes(plan, 100, 256) * keys / shards)
    passed = (
        rows.select("key", F.col("n").alias("order"), "value")
        .withColumn("shard", shard_of(F.col("key"), shards))
        .groupBy("shard")
        .transformWithStateInPandas(PassThrough(size), _schema(packed), "Append", "None")
    )
    released = ts.release(
        rows, pipeline, key="key", order="n", value="value", keys_are_public=True, shards=shards,
        secret=f"file:{secret}",
    )  # fmt: skip
    return seconds(passed, place / "a"), seconds(released, place / "b")


def told(name: str, values: int, times: tuple[float, float]) -> None:
    passed, released = times
    print(
        f"{name:34} pass {values / passed / 1e6:6.2f}  release {values / released / 1e6:6.2f} "
        f"M values/s  {passed / released:6.1%}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--adaptive", action="store_true")
    given = parser.parse_args()
    spark = session(given.master)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        place = Path(folder)
        if given.growth:
            for keys in (1000, 10_000, 100_000):
                took = compare(spark, place, fixed(), keys, 64, shards=64)
                told(f"{keys:,} keys, 64 values each", keys * 64, took)
                print(f"{'':34} {took[1] / keys * 1e6:.1f} µs a key and batch", flush=True)
        elif given.adaptive:
            pipeline = tg.adaptive(epsilon=1, bound=50, horizon=HORIZON, holdout=4096)
            known = Pipeline(
                threshold=threshold.Fixed(50), perturber=pipeline.perturber,
                estimator=pipeline.estimator, resolution=pipeline.resolution,
            )  # fmt: skip
            took = compare(spark, place, known, 2000, 256)
            told("adaptive, 2,000 keys, packed", 2000 * 256, took)
        else:
            took = compare(spark, place, fixed(), given.keys, 256)
            told(f"packed, {given.keys:,} keys, 64 shards", given.keys * 256, took)
            took = compare(spark, place, fixed(), given.keys, 256, shards=16)
            told(f"packed, {given.keys:,} keys, 16 shards", given.keys * 256, took)
            took = compare(spark, place, fixed(), given.keys, 16, packed=False)
            told(f"plain, {given.keys:,} keys, 64 shards", given.keys * 16, took)
        secret = place / "secret"
        plan = Plan(
            pipeline=fixed(), secret=MasterSecret(f"file:{secret}"), shards=64, gaps="close",
            cap=None, packed=True, timed=False,
        )  # fmt: skip
        print(f"state: {state_bytes(plan, 312, 256):.0f} bytes a key (fixed, 312 keys a shard)")
    spark.stop()


if __name__ == "__main__":
    main()
