"""The stateful operator: Spark's keys are shards, and the state of a shard is one sealed blob."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark import TaskContext
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from tidegate.errors import TidegateError
from tidegate.spark.frames import input_rows, output_frame
from tidegate.spark.plan import Plan
from tidegate.spark.shard import BODY, EPSILON, NAME, Shard, with_spent

STATE = "shard"  # the name of the state variable: `reshard` reads it
_QUERY = "sql.streaming.queryId"  # Spark tells every task of a streaming query its id


class ShardProcessor(StatefulProcessor):
    """Runs one shard for one batch: unseal, push, seal.

    Replays. Spark runs a batch again with the committed state before it, after a failed task, a
    lost worker or a killed driver. Everything here follows from that state, the rows of the batch
    and the id of the query, so the same rows give the same bytes again. The seal draws a nonce;
    nothing that leaves depends on it.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark for each partition."""
        self._state = handle.getValueState(STATE, "body binary")

    def handleInputRows(  # noqa: N802  # the name is Spark's
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """All rows of one shard in a batch."""
        shard = self._shard(int(key[0]))
        batch = input_rows(rows, packed=self._plan.packed, timed=self._plan.timed)
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
        """State that another checkpoint had, and what keys have spent before: once, at first."""
        number = int(key[0])
        bodies = initialState[BODY].dropna()
        shard = (
            Shard.resume(self._plan, number, bytes(bodies.iloc[0]))
            if len(bodies)
            else self._shard(number)
        )
        spent = initialState[[NAME, EPSILON]].dropna()
        with_spent(shard, spent[NAME].tolist(), spent[EPSILON].tolist())
        self._state.update((shard.sealed(),))

    def _shard(self, number: int) -> Shard:
        if self._state.exists():
            return Shard.resume(self._plan, number, bytes(self._state.get()[0]))
        return Shard.begin(self._plan, number, self._plan.secret.epoch(query_id()))

    def close(self) -> None:
        """Nothing is open."""


def query_id() -> str:
    """The id that Spark stored in the checkpoint when it was created."""
    task = TaskContext.get()
    found = None if task is None else task.getLocalProperty(_QUERY)
    if not found:
        raise TidegateError("this is no task of a streaming query: Spark told no query id")
    return str(found)
