"""`Keyed`: a pipeline for each key, and the guarantee for all of them together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tidegate.errors import SettingError
from tidegate.guarantee import Guarantee, by_key
from tidegate.keyed.keyed_event_release import KeyedEventRelease
from tidegate.keyed.keyed_release import KeyedRelease
from tidegate.keyed.keyed_snapshot import resumed_keys
from tidegate.ownership import Ownership
from tidegate.randomness import Randomness, secure
from tidegate.run.pipeline import Pipeline
from tidegate.settings import digest
from tidegate.state_as_bytes import understood

PER_KEY, SHARED = "per key", "shared"
UNDECLARED_KEYS = (
    "must be declared: a key that appears is news about the data. Give all keys that there can be "
    "(rows of others are dropped), or say keys_are_public=True if anyone may know which keys come "
    "and how many rows each has"
)


@dataclass(frozen=True, kw_only=True)
class Keyed:
    """A stream of one pipeline for each key. Made by `keyed`.

    **Privacy**: the guarantee of the pipeline, for one value replaced at one position of one key.
    Keys are parallel: a row belongs to one key whatever its value, only the stream of that key
    reads it, and every key has noise of its own (`tidegate.guarantee.by_key`). With a shared
    threshold, the first `holdout` rows of all keys are held out: they are read by the choice of θ
    alone, which costs them what it costs a hold-out, and all others are read by their stream alone,
    to which θ is a public number. Again each row is used once: the larger of both costs counts.
    Which rows choose depends on their order of arrival, never on a value.

    For events, neighbours differ in one event of one key, added or removed: it is in the log of its
    key alone, and every declared key has a row for every tick, so which keys have events is
    protected as well.

    Attributes:
        pipeline: of each key.
        keys: all that there can be; None: keys are public, and every one that comes is taken.
        threshold: "per key", or "shared": one θ for all, from the first rows of all keys.
    """

    pipeline: Pipeline
    keys: tuple[str, ...] | None
    threshold: str = PER_KEY

    def __post_init__(self) -> None:
        if self.pipeline.unit.counted_per_user is not None:
            raise SettingError(
                "unit",
                "must not be users: a user may have rows of several keys, and each of them would "
                "count by itself. Protect events or windows",
            )
        if self.pipeline.ticks is not None and self.keys is None:
            raise SettingError(
                "keys",
                "must be declared for events, before anything is read: that a key has events is "
                "what is protected, so every key gets a row for every tick",
            )
        if self.pipeline.ticks is not None and self.shared:
            raise SettingError("threshold", "cannot be shared by events: each key chooses its own")
        if self.threshold not in (PER_KEY, SHARED):
            raise SettingError("threshold", f"must be '{PER_KEY}' or '{SHARED}'")
        if self.shared and self.pipeline.reselect is not None:
            raise SettingError(
                "threshold",
                "cannot be shared by a pipeline that chooses it again. Give it a hold-out, such as "
                "tidegate.adaptive(..., holdout=4096)",
            )

    @property
    def shared(self) -> bool:
        """Whether one threshold serves all keys."""
        return self.threshold == SHARED

    @property
    def counts_rows(self) -> bool:
        """Whether the number of rows is public: not with declared keys, as others are dropped."""
        return self.keys is None

    @property
    def guarantee(self) -> Guarantee:
        """The derived guarantee: keys in parallel."""
        return by_key(self.pipeline.guarantee)

    def settings(self) -> dict[str, Any]:
        """The specification as plain data, without the declared keys."""
        return {
            "pipeline": self.pipeline.settings(),
            "threshold": self.threshold,
            "keys": "public" if self.keys is None else "declared",
        }

    @cached_property
    def identity(self) -> bytes:
        """A digest of the settings that ties a state to them. Keys may be declared later."""
        return digest(self.settings())

    def start(self, randomness: Randomness | None = None, *, record: bool = True) -> KeyedRelease:
        """Begin with new noise for every key; `seeded(n)` only to simulate.

        Without a `record` nothing can be asked of the release itself: keep the rows, or write them
        to a file and ask that. Fixed methods with one threshold for all keys (`tops` with
        `threshold="shared"`) then keep all keys in arrays: far more keys, and faster.
        """
        source = secure() if randomness is None else randomness
        if not hasattr(source, "new_epoch"):
            raise SettingError("randomness", "must be tidegate.secure() or tidegate.seeded(7)")
        ownership = Ownership("keyed release")  # before there is a secret that a fork could share
        return self.kind(self, source.new_epoch(), ownership=ownership, record=record)

    @property
    def kind(self) -> type[KeyedRelease]:
        """The class of the release: readings or events."""
        return KeyedRelease if self.pipeline.ticks is None else KeyedEventRelease

    def resume(self, snapshot: bytes, key: bytes | None = None) -> KeyedRelease:
        """Continue from a snapshot, bit for bit; `key` is the one that sealed it."""
        with understood():
            return resumed_keys(self, snapshot, key)
