"""Events by key in a streaming query: the operator whose state Spark keeps.

    events of a batch  → taken by the logs of their keys
    clock of the batch → every tick that is over, of every declared key ║ released rows

Spark's keys are shards, as for readings; the state of a shard is one sealed blob, with the keys
that were declared. A shard gets every row of the clock, so it releases with or without events.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from tidegate.exact_numbers import exact
from tidegate.keyed import KeyedEventRelease, keyed
from tidegate.ledger import CapExceeded
from tidegate.settings import digest
from tidegate.spark.executor_settings import ExecutorSettings
from tidegate.spark.sealed_shard import SealedShard
from tidegate.spark.shard import EPSILON, NAME, GivenShardEpoch
from tidegate.spark.shard_operators import SealedStateProcessor, operator_query_id
from tidegate.timestamps import Times

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NANOSECONDS = 1000  # of a microsecond, in which Spark counts


class EventShard(SealedShard):
    """The event logs of the declared keys of one shard. Made by `begin` or `resume`."""

    CONTENT: ClassVar[str] = "spark events"

    def __init__(self, plan: ExecutorSettings, number: int, release: KeyedEventRelease) -> None:
        super().__init__(plan, number)
        self.release = release

    @classmethod
    def begin(cls, plan: ExecutorSettings, number: int, names: list[str], query: str) -> EventShard:
        """A new shard with these keys and no events."""
        randomness = GivenShardEpoch(plan.epoch(query))
        release = keyed(plan.pipeline, keys=names).start(randomness, record=False)
        return cls(plan, number, _shard_of_events(release))

    @classmethod
    def identity(cls, plan: ExecutorSettings) -> str:
        """The digest of pipeline and number of shards."""
        return digest({"events": plan.pipeline.settings(), "shards": plan.shards}).hex()

    @classmethod
    def restored(cls, plan: ExecutorSettings, number: int, body: dict[str, Any]) -> EventShard:
        """The shard with keys and event logs from this body."""
        specification = keyed(plan.pipeline, keys=body["names"])
        release = specification.resume(body["keys"].tobytes())
        return cls(plan, number, _shard_of_events(release))

    def body(self) -> dict[str, Any]:
        """The keys and their event logs."""
        keys = np.frombuffer(self.release.snapshot(brief=True), dtype=np.uint8)
        return {"names": list(self.release.keys), "keys": keys}

    def take(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Take the events of a batch, then release the ticks that its clock has closed.

        A row without a key is one of the clock: all ticks before its time are over. Events that
        arrive with the clock that closes their tick still count; later ones are dropped. Which
        batch a row is in is stored in the checkpoint, so a replay decides the same.
        """
        clock = rows["at"][rows["key"].isna()]
        events = rows[rows["key"].notna()].sort_values(["key", "at", "value"], kind="stable")
        if len(events):
            when = events["at"].to_numpy(dtype=np.int64) * _NANOSECONDS
            times = Times(when, self.release.ticks.clock)
            values = events["value"].to_numpy(dtype=np.float64)
            self.release.push_rows(events["key"].tolist(), values, times)
        if not len(clock):
            return self._frame([])
        until = _EPOCH + timedelta(microseconds=int(clock.max()))
        ends = self.release.ends_until(until)
        return self._frame([self.release.close_ticks(end) for end in ends])

    def _frame(self, parts: list[Any]) -> pd.DataFrame:
        def joined(columns: list[Any], kind: type) -> Any:
            return np.concatenate([np.zeros(0, dtype=kind), *columns])

        return pd.DataFrame(
            {
                "key": joined([part.keys for part in parts], object),
                "position": joined([part.positions for part in parts], np.int64),
                "time": joined([part.times for part in parts], np.int64) // _NANOSECONDS,
                "value": joined([part.values for part in parts], np.float64),
                "level": joined([part.levels for part in parts], np.float64),
                "epoch": self.release.epoch,
                "epsilon": str(self.plan.epsilon),
            }
        )


def _shard_of_events(release: Any) -> KeyedEventRelease:
    if not isinstance(release, KeyedEventRelease):
        raise AssertionError("the pipeline was checked")
    return release


def check_cap_of_events(plan: ExecutorSettings, declared: pd.DataFrame) -> None:
    """Check the cap for every declared key before anything is read: each will be charged."""
    for name, before in zip(declared[NAME], declared[EPSILON], strict=True):
        total = exact("epsilon", before) + plan.epsilon
        if plan.cap is not None and total > plan.cap:
            raise CapExceeded(name, plan.epsilon, total, plan.cap)


class EventShardProcessor(SealedStateProcessor):
    """Runs one shard for one batch: unseal, take, seal. Replays: see `ShardProcessor`."""

    def handleInitialState(  # noqa: N802  # the name is Spark's
        self,
        key: Any,
        initialState: pd.DataFrame,  # noqa: N803
        timerValues: Any,  # noqa: N803
    ) -> None:
        """Take the declared keys of a shard, and what each has spent, frame by frame.

        All frames come before the first event, so the shard is begun again with more keys.
        """
        number, found = int(key[0]), self._state.get()
        check_cap_of_events(self._plan, initialState)
        names = {*initialState[NAME]}
        if found is not None:
            names |= {*EventShard.resume(self._plan, number, bytes(found[0])).release.keys}
        shard = EventShard.begin(self._plan, number, sorted(names), operator_query_id())
        self._state.update((shard.sealed(),))

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Take all rows of one shard in a batch."""
        frames = [frame for frame in rows if len(frame)]
        found = self._state.get() if frames else None
        if found is None:  # a shard without keys gets the clock only
            return
        shard = EventShard.resume(self._plan, int(key[0]), bytes(found[0]))
        released = shard.take(pd.concat(frames, ignore_index=True))
        self._state.update((shard.sealed(),))
        yield released
