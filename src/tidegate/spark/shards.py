"""Which shard a key belongs to."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812


def shard_of(key: Column, shards: int) -> Column:
    """Which shard a key belongs to."""
    return F.pmod(F.xxhash64(key), F.lit(shards)).cast("int")
