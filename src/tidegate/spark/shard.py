"""A running shard: a keyed release of its keys, and each key's newest sequence number.

    rows of a batch → in order, each once → keyed release ║ released rows
    sealed bytes  →  Shard  →  sealed bytes               ║

Everything that is secret is in the sealed bytes: Spark stores them in RocksDB, in plain text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from tidegate.exact_numbers import exact
from tidegate.keyed import KeyedRelease
from tidegate.lattice import FloatArray, IntArray
from tidegate.ledger import CapExceeded
from tidegate.randomness import Epoch
from tidegate.spark.executor_settings import ExecutorSettings
from tidegate.spark.sealed_shard import SealedShard
from tidegate.spark.sequence_numbers import NOTHING_YET, InputRows, OrderedRows, in_order
from tidegate.tables.repeated_items import RepeatedItems


def shard_of(key: Column, shards: int) -> Column:
    """The shard of a key."""
    return F.pmod(F.xxhash64(key), F.lit(shards)).cast("int")


SHARD, BODY, NAME, EPSILON = "shard", "body", "key", "epsilon"  # columns of the initial state
SCHEMA = f"{SHARD} int, {BODY} binary, {NAME} string, {EPSILON} string"


def shard_with_spent(shard: Shard, names: Sequence[str], amounts: Sequence[str]) -> None:
    """Note what keys of a shard have spent in earlier epochs."""
    for name, amount in zip(names, amounts, strict=True):
        before = shard.spent.get(name, Fraction(0))
        shard.spent[name] = before + exact("epsilon", amount)


@dataclass(frozen=True)
class ReleasedShardValues:
    """Released values of many keys, key by key, ordered by position."""

    keys: NDArray[Any]
    codes: IntArray  # which of the keys each value has
    positions: IntArray
    times: IntArray | None
    values: FloatArray
    levels: FloatArray

    def __len__(self) -> int:
        return self.values.size


@dataclass(frozen=True)
class GivenShardEpoch:
    """Randomness with a derived epoch: see `MasterSecret.epoch`."""

    epoch: Epoch

    def new_epoch(self) -> Epoch:
        """The derived epoch."""
        return self.epoch


class Shard(SealedShard):
    """One shard. Made by `begin` or `resume`.

    Attributes:
        spent: ε that keys spent in earlier epochs, for the cap.
    """

    CONTENT: ClassVar[str] = "spark shard"

    def __init__(
        self, plan: ExecutorSettings, number: int, release: KeyedRelease, last: IntArray
    ) -> None:
        super().__init__(plan, number)
        self.release = release
        self._last = last  # of each key by code, its newest sequence number
        self._codes = {name: code for code, name in enumerate(release.keys)}
        self._rows: IntArray = np.zeros(last.size, dtype=np.int64)  # of each key, since it began
        self.spent: dict[str, Fraction] = {}

    @classmethod
    def begin(cls, plan: ExecutorSettings, number: int, epoch: Epoch) -> Shard:
        """A new shard without keys."""
        release = plan.specification.start(GivenShardEpoch(epoch), record=False)
        return cls(plan, number, release, np.zeros(0, dtype=np.int64))

    @classmethod
    def identity(cls, plan: ExecutorSettings) -> str:
        """The digest of pipeline and number of shards."""
        return plan.identity

    @classmethod
    def restored(cls, plan: ExecutorSettings, number: int, body: dict[str, Any]) -> Shard:
        """The shard with release, noise, sequence numbers and spent budgets from this body."""
        release = plan.specification.resume(body["keys"].tobytes())
        release.restore_noise(body["noise"])
        shard = cls(plan, number, release, body["last"].copy())
        shard.spent = {key: Fraction(amount) for key, amount in body["spent"].items()}
        return shard

    def body(self) -> dict[str, Any]:
        """The keyed release, its noise, sequence numbers and spent budgets."""
        noise = self.release.noise_kept(np.arange(len(self._codes)), self._rows)
        keys = self.release.snapshot(brief=True)
        return {
            "noise": noise,
            "keys": np.frombuffer(keys, dtype=np.uint8),
            "last": self._last[: len(self._codes)],
            "spent": {key: str(amount) for key, amount in self.spent.items()},
        }

    @property
    def names(self) -> list[str]:
        """The keys of the shard."""
        return self.release.keys

    @property
    def last(self) -> dict[str, int]:
        """The newest sequence number of each key."""
        return dict(zip(self._codes, self._last.tolist(), strict=False))

    @property
    def epoch(self) -> str:
        """The public id of the noise."""
        return self.release.epoch

    def push(self, rows: InputRows) -> ReleasedShardValues:
        """Release a whole batch for this shard."""
        return self.take(in_order(rows, self._known(rows.names), self.plan.gaps))

    def take(self, ordered: OrderedRows) -> ReleasedShardValues:
        """Release values that are in order and follow those taken before."""
        names = ordered.names
        self._check_cap(names)
        column = RepeatedItems(names.tolist(), ordered.codes)
        released = self.release.push(column, ordered.values)
        rows = np.bincount(ordered.codes, minlength=names.size)
        self._remember(names, ordered.codes_seen, ordered.last, rows)
        kept = self._kept(names, ordered.codes, released.codes)
        return ReleasedShardValues(
            names,
            ordered.codes[kept],
            released.positions,
            None if ordered.times is None else ordered.times[kept],
            released.values,
            released.levels,
        )

    def _known(self, names: NDArray[Any]) -> IntArray:
        codes = [self._codes.get(name, -1) for name in names]
        last = np.append(self._last, NOTHING_YET)  # the last one is that of unknown keys
        return last[codes]

    def _check_cap(self, names: NDArray[Any]) -> None:
        """Stop before the first value of a key is released that the cap does not allow."""
        cap = self.plan.cap
        if cap is None or not self.spent:
            return
        for name in names:
            if name not in self._codes and self.spent.get(name, 0) + self.plan.epsilon > cap:
                total = self.spent[name] + self.plan.epsilon
                raise CapExceeded(name, self.plan.epsilon, total, cap)

    def _remember(
        self, names: NDArray[Any], codes: IntArray, last: IntArray, rows: IntArray
    ) -> None:
        for name in self.release.keys[len(self._codes) :]:
            self._codes[name] = len(self._codes)
        more = len(self._codes) - self._last.size
        if more:
            self._last = np.append(self._last, np.full(more, NOTHING_YET))
            self._rows = np.append(self._rows, np.zeros(more, dtype=np.int64))
        mine = [self._codes[name] for name in names[codes]]
        self._last[mine] = last
        self._rows[mine] += rows[codes]

    def _kept(
        self, names: NDArray[Any], given: IntArray, released: IntArray
    ) -> NDArray[np.bool_] | slice:
        """Which values were released: all but the first ones of a key, which were held out."""
        if given.size == released.size:
            return slice(None)
        starts = np.flatnonzero(np.diff(given, prepend=-1))
        sizes = np.diff(starts, append=given.size)
        out = np.bincount(released, minlength=len(self._codes))
        kept = out[[self._codes[name] for name in names[given[starts]]]]
        within = np.arange(given.size) - np.repeat(starts, sizes)
        return within >= np.repeat(sizes - kept, sizes)
