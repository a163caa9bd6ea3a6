"""Spark: throughput against a pass-through operator with the same shards, state a key, growth.

    python -m benchmarks.spark                 # packed and plain rows of a fixed method; adaptive;
                                               # default: each key chooses its θ
    python -m benchmarks.spark packed plain    # some of them
    python -m benchmarks.spark growth          # 10³ to 10⁵ keys
    python -m benchmarks.spark --cluster       # on a standalone cluster: master and two workers

Both operators run in turn in one session, over the same files, after three batches each to warm up.
Means of all batches but the first: noise is made in one batch of 16, and keys choose θ in a few.
Told are seconds by the clock, and processor seconds of all processes, which are worth more on a
machine that is shared: two cores that nobody else uses do two of them in a second.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor

import tidegate.spark as ts
from benchmarks.processor_time import processor_seconds
from benchmarks.spark_cluster import cluster
from benchmarks.spark_shard import adaptive, default, fixed
from tidegate.run.pipeline import Pipeline
from tidegate.spark.executor_settings import ExecutorSettings
from tidegate.spark.list_columns import list_column
from tidegate.spark.release import _schema_of_release
from tidegate.spark.secret import MasterSecret
from tidegate.spark.shard import Shard, shard_of
from tidegate.spark.shard_operators import STATE

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HORIZON = 1 << 16


class PassThrough(StatefulProcessor):
    """The same shuffle, frames, state blob and schema, lists as a column of Arrow; no release."""

    def __init__(self, size: int, *, packed: bool) -> None:
        self._size, self._packed = size, packed

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState(STATE, "body binary")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timers: Any) -> Any:  # noqa: N802
        self._state.get()
        frame = pd.concat(list(rows), ignore_index=True).sort_values(["key", "order"])
        self._state.update((bytes(self._size),))
        none = np.full(len(frame), None, dtype=object)
        values = _lists(frame["value"]) if self._packed else frame["value"].to_numpy()
        yield pd.DataFrame(
            {
                "key": frame["key"].to_numpy(), "position": frame["order"].to_numpy(),
                "time": none, "value": values, "level": values,
                "epoch": np.full(len(frame), "none", dtype=object),
                "epsilon": np.full(len(frame), "1", dtype=object),
            }
        )  # fmt: skip

    def close(self) -> None:
        pass


def _lists(column: pd.Series) -> pd.Series:
    """The same arrays as the operator of Tidegate hands them to Spark: one copy of all numbers."""
    counts = np.fromiter(map(len, column), np.int64, len(column))
    return list_column(np.concatenate(column.to_numpy()), np.cumsum(counts) - counts)


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


class Took(NamedTuple):
    """Seconds of a batch."""

    clock: float
    processor: float


def batches_of(frame: DataFrame, checkpoint: Path) -> list[Took]:
    """Of each batch but the first one."""
    shutil.rmtree(checkpoint, ignore_errors=True)
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    worked = []
    while query.isActive:
        last = query.lastProgress
        if last and last["batchId"] + 1 > len(worked):
            worked.append(processor_seconds())
        time.sleep(0.05)
    query.awaitTermination()
    took = [
        one["durationMs"]["addBatch"] / 1000 for one in query.recentProgress if one["numInputRows"]
    ]
    return [Took(*both) for both in zip(took[1:], np.diff(worked).tolist(), strict=False)]


def means(several: list[Took]) -> Took:
    """Of all batches."""
    clock, processor = zip(*several, strict=True)
    return Took(mean(clock), mean(processor))


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
        "spark.executor.memory": "1500m",
        "spark.driver.host": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def state_bytes(plan: ExecutorSettings, keys: int, each: int) -> float:
    """Of the sealed state of a shard, a key."""
    from tidegate.spark.sequence_numbers import InputRows

    shard = Shard.begin(plan, 0, plan.secret.epoch("benchmark"))
    names = np.array([f"meter-{at:07}" for at in range(keys)], dtype=object)
    values = np.random.default_rng(1).gamma(2.0, 5.0, keys * each)
    numbers = np.arange(keys), np.zeros(keys, dtype=np.int64), np.full(keys, each)
    shard.push(InputRows(names, *numbers, values, None))
    return len(shard.sealed()) / keys


def _plan(pipeline: Pipeline, secret: Path, shards: int, packed: bool) -> ExecutorSettings:
    return ExecutorSettings(
        pipeline=pipeline, secret=MasterSecret(f"file:{secret}"), shards=shards, gaps="close",
        cap=None, packed=packed, timed=False,
    )  # fmt: skip


def both(
    spark: SparkSession, place: Path, pipeline: Pipeline, keys: int, each: int, **options: Any
) -> tuple[DataFrame, DataFrame]:
    """The same rows, passed through and released."""
    packed, shards = options.get("packed", True), options.get("shards", 64)
    folder, secret = place / "in", place / "secret"
    secret.write_bytes(bytes(32))
    files(folder, keys, each, options.get("batches", 5), packed=packed)
    rows = source(spark, folder, packed=packed)
    plan = _plan(pipeline, secret, shards, packed)
    size = round(state_bytes(plan, 100, 256) * keys / shards)
    passed = (
        rows.select("key", F.col("n").alias("order"), "value")
        .withColumn("shard", shard_of(F.col("key"), shards))
        .groupBy("shard")
        .transformWithStateInPandas(
            PassThrough(size, packed=packed), _schema_of_release(packed), "Append", "None"
        )
    )
    released = ts.release(
        rows, pipeline, key="key", order="n", value="value", keys_are_public=True, shards=shards,
        secret=f"file:{secret}",
    )  # fmt: skip
    return passed, released


def compare(*given: Any, rounds: int = 1, **options: Any) -> tuple[Took, Took]:
    """Of a batch: passed through, and released."""
    place: Path = given[1]
    for frame in both(*given, **{**options, "batches": 3}):  # Java compiles what runs often
        batches_of(frame, place / "a")
    passed, released = both(*given, **options)
    first: list[Took] = []
    second: list[Took] = []
    for _ in range(rounds):
        first += batches_of(passed, place / "a")
        second += batches_of(released, place / "b")
    return means(first), means(second)


def told(name: str, values: int, times: tuple[Took, Took]) -> None:
    passed, released = times
    print(
        f"{name:34} pass {values / passed.clock / 1e6:5.2f}  release "
        f"{values / released.clock / 1e6:5.2f} M values/s {passed.clock / released.clock:6.1%}"
        f"   by processor, two cores: {2 * values / passed.processor / 1e6:5.2f} "
        f"{2 * values / released.processor / 1e6:5.2f} {passed.processor / released.processor:6.1%}"
        f"   load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def growth(spark: SparkSession, place: Path) -> None:
    """Processor time of a batch by keys; and what one more key costs."""
    before = 0, 0.0
    for keys, batches in ((1000, 4), (1000, 9), (10_000, 6), (100_000, 4)):  # warms up first
        _, released = both(spark, place, fixed(), keys, 256, batches=batches)
        took = means(batches_of(released, place / "b")).processor
        more = (took - before[1]) / max(1, keys - before[0])
        print(
            f"{keys:7,} keys, 256 values each: {took:.2f} processor seconds a batch, "
            f"{took / keys * 1e6:.0f} µs a key, {more * 1e6:.0f} µs for each more than before"
            f"   load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        before = keys, took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="packed, plain, adaptive, default, growth")
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--shards", type=int, help="64, and 16 for packed rows, too")
    parser.add_argument("--batches", type=int, default=18)
    parser.add_argument("--rounds", type=int, default=1, help="both operators in turn, so often")
    given = parser.parse_args()
    parts, keys = given.parts or ["packed", "plain", "adaptive", "default"], given.keys
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        master = stack.enter_context(cluster(place / "logs")) if given.cluster else "local[2]"
        spark = session(master)
        stack.callback(spark.stop)
        cases = {
            "packed": (fixed(), 256, (64, 16), True),
            "plain": (fixed(), 16, (64,), False),
            "adaptive": (adaptive(HORIZON), 256, (64, 16), True),
            "default": (default(HORIZON), 256, (64,), True),
        }
        for part in parts:
            if part == "growth":
                growth(spark, place)
                continue
            pipeline, each, several, packed = cases[part]
            for shards in several if given.shards is None else (given.shards,):
                settings = {"packed": packed, "shards": shards, "batches": given.batches}
                settings |= {"rounds": given.rounds}
                took = compare(spark, place, pipeline, keys, each, **settings)
                told(f"{part}, {keys:,} keys, {shards} shards", keys * each, took)
            size = state_bytes(_plan(pipeline, place / "secret", 64, packed), 312, 256)
            print(f"{'':34} state of {size:.0f} bytes a key, 312 keys a shard", flush=True)


if __name__ == "__main__":
    main()
