"""What 10⁶, 10⁸ and 10⁹ keys take: a simulation from measured costs.

    python -m benchmarks.scale_model

Every key sends a value every 15 minutes at a phase of its own. A micro-batch of some length takes
the rows that came; a shard is opened if one of its keys has a row, and then all of its keys are
unsealed and sealed again. The numbers below were measured by `benchmarks.spark_shard` (processor
time) and `benchmarks.spark`; replace them by your own.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

PERIOD = 900.0  # seconds between two values of a key


@dataclass(frozen=True)
class Costs:
    """Processor seconds and bytes."""

    state: float = 57.0  # bytes of state a key: fixed method, names of 13 characters
    key: float = 3.5e-6  # unseal, order, seal: a key of an opened shard
    block: float = 36e-6  # the noise of a block of 256 values, made anew: keys have few rows
    value: float = 0.07e-6  # of a released value, without Spark
    row: float = 10e-6  # of Spark, a plain row in and out: shuffle, Arrow, Python
    shard: float = 18e-3  # of Spark, a group with its state: 64 shards less 16, passed or released
    shuffled: float = 60.0  # bytes of a row in the shuffle
    block_length: int = 256


@dataclass(frozen=True)
class Outcome:
    """Of one micro-batch."""

    rows: float
    opened: float
    processor: float
    written: float
    shuffled: float


def simulated(
    keys: int, shards: int, length: float, costs: Costs, *, aligned: bool, seed: int = 1
) -> Outcome:
    """One micro-batch of `length` seconds, by drawing which shards have rows.

    `aligned`: keys of a shard send together (shards by meter group instead of by hash).
    """
    random = np.random.default_rng(seed)
    share = min(1.0, length / PERIOD)
    drawn = min(shards, 1 << 16)  # shards are alike: a sample of them is enough
    each = keys / shards
    if aligned:
        rows = np.where(random.random(drawn) < share, each, 0.0)
    else:
        rows = random.binomial(max(1, round(each)), share, drawn).astype(float)
    rows *= max(1.0, length / PERIOD)
    scale = shards / drawn
    opened, taken = scale * float((rows > 0).sum()), scale * float(rows.sum())
    processor = opened * (costs.shard + each * costs.key)
    processor += taken * (costs.row + costs.value + costs.block / costs.block_length)
    written = opened * each * costs.state
    return Outcome(taken, opened, processor, written, taken * costs.shuffled)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys-a-shard", type=int, default=10_000)
    given = parser.parse_args()
    costs = Costs()
    head = f"{'keys':>14} {'batch':>7} {'shards':>16} {'cores':>8} {'state':>9} "
    print(head + f"{'written/batch':>14} {'shuffled/batch':>15}")
    for keys in (10**6, 10**8, 10**9):
        shards = max(64, keys // given.keys_a_shard)
        for length, aligned in ((60.0, False), (60.0, True), (900.0, False)):
            found = simulated(keys, shards, length, costs, aligned=aligned)
            cores = found.processor / length
            how = "by group" if aligned else "by hash"
            print(
                f"{keys:14,} {length:6.0f}s {how:>9} {found.opened / shards:6.1%} {cores:8.2f} "
                f"{keys * costs.state / 1e9:7.2f}GB {found.written / 1e9:12.2f}GB "
                f"{found.shuffled / 1e9:13.2f}GB"
            )


if __name__ == "__main__":
    main()
