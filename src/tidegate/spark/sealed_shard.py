"""The sealed state of a shard, of values or of events: what Spark stores, in plain text.

    sealed bytes → public part as wanted? → body ║ and back

A state that began with the pipeline of an earlier version continues with that pipeline.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar, Self

from tidegate.errors import SnapshotError
from tidegate.sealing import seal, unseal
from tidegate.spark.executor_settings import ExecutorSettings
from tidegate.spark.release_labels import check_label_of_state
from tidegate.state_as_bytes import understood


class SealedShard(ABC):
    """Base of shards, whose whole state is one sealed byte string.

    Attributes:
        plan: the settings of the release.
        number: of the shard; bound into the sealed state.
    """

    CONTENT: ClassVar[str]  # what the state is of, in its public part

    def __init__(self, plan: ExecutorSettings, number: int) -> None:
        self.plan, self.number = plan, number

    @classmethod
    @abstractmethod
    def identity(cls, plan: ExecutorSettings) -> str:
        """A digest of the settings that a state depends on."""

    @classmethod
    @abstractmethod
    def restored(cls, plan: ExecutorSettings, number: int, body: dict[str, Any]) -> Self:
        """The shard with this state."""

    @abstractmethod
    def body(self) -> dict[str, Any]:
        """All secret parts. The shard must not be used afterwards."""

    @classmethod
    def resume(cls, plan: ExecutorSettings, number: int, data: bytes) -> Self:
        """Resume from sealed bytes.

        Raises:
            SnapshotError: they were tampered with, or belong to another shard or other settings.
        """
        with understood():
            try:
                body = _unsealed_shard(plan, data, cls._public(plan, number))
            except SnapshotError:
                for earlier in plan.earlier:
                    with suppress(SnapshotError):
                        return cls.resume(earlier, number, data)
                raise
            return cls.restored(plan, number, body)

    def sealed(self) -> bytes:
        """The whole state as sealed bytes. The shard must not be used afterwards."""
        public = {**self._public(self.plan, self.number), "label": self.plan.label}
        return seal(public, self.body(), self.plan.secret.sealing_key())

    @classmethod
    def _public(cls, plan: ExecutorSettings, number: int) -> dict[str, Any]:
        return {"content": cls.CONTENT, "settings": cls.identity(plan), "shard": number}


def _unsealed_shard(
    plan: ExecutorSettings, data: bytes, wanted: Mapping[str, Any]
) -> dict[str, Any]:
    """The body of a sealed state whose public part equals `wanted`."""
    public, body = unseal(data, plan.secret.sealing_key())
    if public.get("content") != wanted["content"]:
        raise SnapshotError("this is not the state of such a shard")
    check_label_of_state(public.get("label"), plan.label)
    if public["settings"] != wanted["settings"]:
        raise SnapshotError(
            "the checkpoint belongs to another pipeline or another number of shards. Change the "
            "number with tidegate.spark.reshard; other settings, and event streams, need a new "
            "checkpoint, which is charged on top"
        )
    if public["shard"] != wanted["shard"]:
        raise SnapshotError("the state of a shard was moved to another one")
    return body
