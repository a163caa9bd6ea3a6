"""Releases in Spark: many keys on many machines.

    rows → shard = hash(key) % shards → one keyed engine a shard ║ released rows
                                         state: one sealed blob   ║

| module | what it is |
| --- | --- |
| `release` | `release(df, pipeline, …)`: a streaming or batch DataFrame in and out |
| `release_of_events`, `event_shard` | `release_events(df, pipeline, …)`: sums per tick by key |
| `frames`, `list_columns` | frames of pandas in and out; `pack`, `unpack`: many values in a row |
| `executor_settings`, `secret` | what executors are told, and where they find the master secret |
| `sequence_numbers` | order, late and repeated rows, gaps |
| `shard` | one shard at work |
| `shard_operators` | the operator of streaming queries, and of batch ones |
| `charges` | what every key has spent |
| `reshard` | another number of shards |
| `shared_threshold` | one threshold for all keys, from a sample |
| `range_sums` | range sums with intervals, totals, a function for SQL |

Nothing of Spark is imported before this package is.
"""

from tidegate.spark.charges import charges, spent_by_key
from tidegate.spark.frames import pack, unpack
from tidegate.spark.range_sums import range_sums, register, totals
from tidegate.spark.release import release
from tidegate.spark.release_of_events import release_events
from tidegate.spark.reshard import reshard
from tidegate.spark.shared_threshold import SharedThreshold, shared_threshold

__all__ = [
    "SharedThreshold",
    "charges",
    "pack",
    "range_sums",
    "register",
    "release",
    "release_events",
    "reshard",
    "shared_threshold",
    "spent_by_key",
    "totals",
    "unpack",
]
