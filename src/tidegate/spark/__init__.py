"""Releases in Spark: many keys on many machines.

    rows → shard = hash(key) % shards → one keyed engine a shard ║ released rows
                                         state: one sealed blob   ║

| module | what it is |
| --- | --- |
| `release` | `release(df, pipeline, …)`: a streaming or batch DataFrame in and out |
| `packing` | `pack`, `unpack`: many values in a row |
| `plan`, `secret` | what executors are told, and where they find the master secret |
| `sequence` | order, late and repeated rows, gaps |
| `shard`, `frames` | one shard at work: arrays in, arrays out |
| `processor`, `initial`, `batch` | the operator of streaming queries, and of batch ones |
| `charges` | what every key has spent |
| `reshard` | another number of shards |

Nothing of Spark is imported before this package is.
"""

from tidegate.spark.charges import charges, spent_by_key
from tidegate.spark.packing import pack, unpack
from tidegate.spark.release import release
from tidegate.spark.reshard import reshard

__all__ = ["charges", "pack", "release", "reshard", "spent_by_key", "unpack"]
