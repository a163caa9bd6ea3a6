"""What a shard costs without Spark: processor time and state of a batch, by keys and values.

    python -m benchmarks.spark_shard             # a fixed method
    python -m benchmarks.spark_shard adaptive    # with a public threshold
    python -m benchmarks.spark_shard default     # each key chooses its own

A batch is what Spark asks for: unseal, order, release, seal. Processor time, since machines are
shared. `benchmarks.scale_model` extrapolates from these numbers.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from statistics import mean

import numpy as np

import tidegate as tg
from tidegate import estimate, perturb, threshold
from tidegate.run.pipeline import Pipeline
from tidegate.spark.executor_settings import ExecutorSettings
from tidegate.spark.secret import MasterSecret
from tidegate.spark.sequence_numbers import InputRows
from tidegate.spark.shard import Shard

BATCHES = 18  # the first one is left out: noise is made in one of 17


def fixed(horizon: int = 1 << 16) -> Pipeline:
    """ToPS with a public threshold: blocks of 256 values."""
    return Pipeline(
        threshold=threshold.Fixed(50),
        perturber=perturb.Hierarchy(epsilon=Fraction(1, 10), horizon=horizon),
        estimator=estimate.Recent(),
        resolution=Fraction(1, 100),
    )


def adaptive(horizon: int = 1 << 16) -> Pipeline:
    """`adaptive` with a public threshold."""
    made = tg.adaptive(epsilon=1, bound=50, horizon=horizon, holdout=4096)
    return Pipeline(
        threshold=threshold.Fixed(50),
        perturber=made.perturber,
        estimator=made.estimator,
        resolution=Fraction(1, 100),
    )


def default(horizon: int = 1 << 16) -> Pipeline:
    """`adaptive` as it is: each key chooses its threshold."""
    return tg.adaptive(epsilon=1, bound=50, horizon=horizon)


def measured(pipeline: Pipeline, keys: int, each: int) -> tuple[float, float]:
    """Processor seconds of a batch of `each` values for each key, and bytes of state a key."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "secret"
        place.write_bytes(bytes(32))
        plan = ExecutorSettings(
            pipeline=pipeline, secret=MasterSecret(f"file:{place}"), shards=1, gaps="close",
            cap=None, packed=True, timed=False,
        )  # fmt: skip
        names = np.array([f"meter-{at:07}" for at in range(keys)], dtype=object)
        random = np.random.default_rng(1)
        data = Shard.begin(plan, 0, plan.secret.epoch("benchmark")).sealed()
        took = []
        for number in range(BATCHES):
            values = np.round(random.gamma(2.0, 5.0, keys * each), 2)
            first = np.full(keys, number * each)
            rows = InputRows(names, np.arange(keys), first, np.full(keys, each), values, None)
            begun = time.process_time()
            shard = Shard.resume(plan, 0, data)
            shard.push(rows)
            data = shard.sealed()
            took.append(time.process_time() - begun)
        return mean(took[1:]), len(data) / keys


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = {"fixed": fixed, "adaptive": adaptive, "default": default}
    parser.add_argument("kind", nargs="?", choices=kinds, default="fixed")
    kind = parser.parse_args().kind
    pipeline = kinds[kind]()
    print(f"{'keys':>7} {'values':>7} {'M values/s':>11} {'µs a key':>9} {'bytes a key':>12}")
    for keys in (100, 1000, 10_000) if kind == "fixed" else (100, 300):
        for each in (1, 16, 256):
            took, size = measured(pipeline, keys, each)
            rate, cost = keys * each / took / 1e6, took / keys * 1e6
            print(f"{keys:7} {each:7} {rate:11.2f} {cost:9.1f} {size:12.0f}", flush=True)


if __name__ == "__main__":
    main()
