"""The operators of Spark: release a whole batch, or shards whose state Spark stores.

Spark's keys are shards. In a stream, the state of a shard is one sealed blob.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from pyspark import TaskContext
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from tidegate.errors import TidegateError
from tidegate.lattice import IntArray
from tidegate.spark.executor_settings import ExecutorSettings
from tidegate.spark.frames import COLUMNS, input_rows_of_frames, output_frame
from tidegate.spark.sequence_numbers import NOTHING_YET, OrderedRows, in_order
from tidegate.spark.shard import BODY, EPSILON, NAME, Shard, shard_with_spent

Groups = Callable[[tuple[Any, ...], pd.DataFrame, pd.DataFrame], pd.DataFrame]


def shard_function(plan: ExecutorSettings, run: str) -> Groups:
    """The function that releases the rows of one shard; `run` is a random id of the release.

    A DataFrame is evaluated as often as Spark likes: for every action, and again for a lost task.
    The epoch of a shard follows from the run and from a keyed digest of its rows. The same rows get
    the same noise, so a second evaluation gives the same bytes; other rows (a file that was
    replaced meanwhile) get unrelated noise: two releases, which add up, and no noise on two data.
    """

    def released(key: tuple[Any, ...], rows: pd.DataFrame, spent: pd.DataFrame) -> pd.DataFrame:
        number = int(key[0])
        batch = input_rows_of_frames([rows], packed=plan.packed, timed=plan.timed)
        if batch is None:  # of this shard there are charges only
            return pd.DataFrame({name: pd.Series(dtype=object) for name in COLUMNS})
        nothing = np.full(batch.names.size, NOTHING_YET)
        ordered = in_order(batch, nothing, plan.gaps)
        query = f"{run}/{number}/{_operator_digest(ordered, plan.secret.digest_key())}"
        shard = Shard.begin(plan, number, plan.secret.epoch(query))
        shard_with_spent(shard, spent["key"].tolist(), spent["epsilon"].tolist())
        return output_frame(shard, shard.take(ordered))

    return released


def _operator_digest(ordered: OrderedRows, key: bytes) -> str:
    """A keyed digest of all input: names, places and values."""
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


STATE = "shard"  # the name of the state variable: `reshard` reads it
_QUERY = "sql.streaming.queryId"  # Spark tells every task of a streaming query its id


class SealedStateProcessor(StatefulProcessor):
    """A processor whose state is one sealed blob for each shard."""

    def __init__(self, plan: ExecutorSettings) -> None:
        self._plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Set up a partition; called by Spark."""
        self._state = handle.getValueState(STATE, "body binary")

    def close(self) -> None:
        """Do nothing: nothing is open."""


class ShardProcessor(SealedStateProcessor):
    """Runs one shard for one batch: unseal, push, seal.

    Replays. Spark runs a batch again with the committed state before it, after a failed task, a
    lost worker or a killed driver. Everything here follows from that state, the rows of the batch
    and the id of the query, so the same rows give the same bytes again. The seal draws a nonce;
    nothing that leaves depends on it.
    """

    def handleInputRows(  # noqa: N802  # the name is Spark's
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Take all rows of one shard in a batch."""
        shard = self._shard(int(key[0]))
        batch = input_rows_of_frames(rows, packed=self._plan.packed, timed=self._plan.timed)
        if batch is None:  # of this shard there is initial state only
            return
        released = output_frame(shard, shard.push(batch))
        self._state.update((shard.sealed(),))
        yield released

    def handleInitialState(  # noqa: N802
        self,
        key: Any,
        initialState: pd.DataFrame,  # noqa: N803
        timerValues: Any,  # noqa: N803
    ) -> None:
        """Take the state of another checkpoint, and what keys have spent before.

        At first, and once for each frame that Spark makes of the initial state.
        """
        number = int(key[0])
        bodies = initialState[BODY].dropna()
        shard = self._shard(number)
        if len(bodies):
            earlier = shard.spent  # of the frames before
            shard = Shard.resume(self._plan, number, bytes(bodies.iloc[0]))
            shard_with_spent(shard, [*earlier], [str(amount) for amount in earlier.values()])
        spent = initialState[[NAME, EPSILON]].dropna()
        shard_with_spent(shard, spent[NAME].tolist(), spent[EPSILON].tolist())
        self._state.update((shard.sealed(),))

    def _shard(self, number: int) -> Shard:
        found = self._state.get()  # None where there is none: `exists` would ask Spark once more
        if found is not None:
            return Shard.resume(self._plan, number, bytes(found[0]))
        return Shard.begin(self._plan, number, self._plan.epoch(operator_query_id()))


def operator_query_id() -> str:
    """The id that Spark stored in the checkpoint on creation."""
    task = TaskContext.get()
    found = None if task is None else task.getLocalProperty(_QUERY)
    if not found:
        raise TidegateError("this is no task of a streaming query: Spark told no query id")
    return str(found)
