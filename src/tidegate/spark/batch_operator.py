"""A batch DataFrame: each shard is released at once, and nothing goes on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from tidegate.lattice import IntArray
from tidegate.spark.frames import COLUMNS, input_rows, output_frame
from tidegate.spark.plan import Plan
from tidegate.spark.sequence import NOTHING_YET, Ordered, in_order
from tidegate.spark.shard import Shard, with_spent

Groups = Callable[[tuple[Any, ...], pd.DataFrame, pd.DataFrame], pd.DataFrame]


def shard_function(plan: Plan, run: str) -> Groups:
    """What releases the rows of one shard; `run` is a random id, made once for each release.

    A DataFrame is evaluated as often as Spark likes: for every action, and again for a lost task.
    The epoch of a shard follows from the run and from a keyed digest of its rows. The same rows get
    the same noise, so a second evaluation gives the same bytes; other rows (a file that was
    replaced meanwhile) get unrelated noise: two releases, which add up, and no noise on two data.
    """

    def released(key: tuple[Any, ...], rows: pd.DataFrame, spent: pd.DataFrame) -> pd.DataFrame:
        number = int(key[0])
        batch = input_rows([rows], packed=plan.packed, timed=plan.timed)
        if batch is None:  # of this shard there are charges only
            return pd.DataFrame({name: pd.Series(dtype=object) for name in COLUMNS})
        nothing = np.full(batch.names.size, NOTHING_YET)
        ordered = in_order(batch, nothing, plan.gaps)
        query = f"{run}/{number}/{_digest(ordered, plan.secret.digest_key())}"
        shard = Shard.begin(plan, number, plan.secret.epoch(query))
        with_spent(shard, spent["key"].tolist(), spent["epsilon"].tolist())
        return output_frame(shard, shard.take(ordered))

    return released


def _digest(ordered: Ordered, key: bytes) -> str:
    """A keyed digest of all that is released from: names, places and values."""
    found = hashlib.blake2b(key=key, digest_size=16)
    for name in ordered.names:
        found.update(len(name).to_bytes(8, "big") + name.encode())
    numbers: list[Any] = [ordered.codes, ordered.values]
    if ordered.times is not None:
        numbers.append(ordered.times)
    for column in numbers:
        column_bytes: IntArray = np.ascontiguousarray(column).view(np.int64)
        found.update(column.size.to_bytes(8, "big") + column_bytes.tobytes())
    return found.hexdigest()
