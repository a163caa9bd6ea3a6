"""The settings for executors: public ones, and the place of the secret."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from tidegate.errors import SettingError
from tidegate.exact_numbers import exact, said
from tidegate.guarantee import by_key
from tidegate.keyed import Keyed, keyed
from tidegate.randomness import Epoch
from tidegate.run.earlier_pipelines import earlier_pipelines
from tidegate.run.pipeline import Pipeline
from tidegate.settings import digest
from tidegate.spark.secret import MasterSecret
from tidegate.spark.sequence_numbers import check_gaps

MOST_SHARDS = 1 << 16


@dataclass(frozen=True, kw_only=True)
class ExecutorSettings:
    """The settings of a release in Spark. All of them are public, and are sent to executors.

    What follows from them is worked out once for all shards of a task.

    Attributes:
        pipeline: of each key.
        secret: where the master secret is.
        shards: hash(key) % shards is what Spark groups by; fixed for the life of a checkpoint.
        gaps: what a missing sequence number means (`tidegate.spark.sequence_numbers`).
        cap: the most ε that a key may spend over all epochs; None: no cap.
        packed: whether rows hold arrays of values.
        timed: whether rows have times.
        label: tells the release from others of the same query (`release_labels`).
    """

    pipeline: Pipeline
    secret: MasterSecret
    shards: int
    gaps: str
    cap: Fraction | None
    packed: bool
    timed: bool
    label: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.pipeline, Pipeline):
            raise SettingError("pipeline", "must be a pipeline such as tidegate.tops(...)")
        if type(self.shards) is not int or not 0 < self.shards <= MOST_SHARDS:
            raise SettingError("shards", f"must be a whole number from 1 to {MOST_SHARDS}")
        check_gaps(self.gaps)
        if self.cap is not None and self.epsilon > self.cap:
            raise SettingError(
                "cap", f"is below the ε = {said(self.epsilon)} that one release of a key costs"
            )

    @cached_property
    def specification(self) -> Keyed:
        """The keyed specification of one shard. Undeclared keys were filtered before."""
        return keyed(self.pipeline, keys_are_public=True)

    @cached_property
    def epsilon(self) -> Fraction:
        """The cost of one epoch for the values of a key."""
        return Fraction(by_key(self.pipeline.guarantee).epsilon)

    @cached_property
    def earlier(self) -> list[ExecutorSettings]:
        """Pipelines that earlier versions built from the same arguments, for old checkpoints."""
        return [replace(self, pipeline=each) for each in earlier_pipelines(self.pipeline)]

    def epoch(self, query: str) -> Epoch:
        """The epoch of all keys of this release, in a query with this id."""
        return self.secret.epoch(f"{query}/{self.label}" if self.label else query)

    @cached_property
    def identity(self) -> str:
        """A digest of the settings that a state depends on: 128 bits, since every state has it."""
        settings = {"keyed": self.specification.settings(), "shards": self.shards}
        return digest(settings)[:16].hex()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle plain settings: executors may run another version, never with other settings."""
        settings = self.pipeline.settings(), self.secret.place, self.shards, self.gaps
        cap = None if self.cap is None else str(self.cap)
        return _rebuilt_settings, (*settings, cap, self.packed, self.timed, self.label)


def _rebuilt_settings(
    pipeline: dict[str, Any],
    place: str,
    shards: int,
    gaps: str,
    cap: str | None,
    packed: bool,
    timed: bool,
    label: str,
) -> ExecutorSettings:
    return ExecutorSettings(
        pipeline=Pipeline.from_settings(pipeline),
        secret=MasterSecret(place),
        shards=shards,
        gaps=gaps,
        cap=None if cap is None else exact("cap", cap),
        packed=packed,
        timed=timed,
        label=label,
    )
