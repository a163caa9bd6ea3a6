"""`StoredStream`: the public facts of a stream in the database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tidegate.durable import StateError
from tidegate.guarantee import Guarantee
from tidegate.keyed import keyed
from tidegate.keyed.keyed_specification import PER_KEY, Keyed
from tidegate.run.pipeline import Pipeline

EPOCH = "@"  # what stands between the name of a stream and the number of its epoch


@dataclass(frozen=True)
class StoredStream:
    """A stream, or one epoch of it.

    Attributes:
        name: with the number of its epoch if that is not the first, such as `meters@2`.
        settings: of its pipeline.
        source: whose values these are, in the ledger.
        created, retired: when.
        part: of the source; None: streams of the source add up.
        grace: seconds after its end at which the service's clock closes a tick of events; None:
            producers say what their clock shows.
        row_of: the rows of several values whose column this is; None: its values stand alone.
        keys: None, or how keys are treated: `threshold`, and `names` (None: keys are public).
    """

    name: str
    settings: dict[str, Any]
    source: str
    created: str
    retired: str | None = None
    part: str | None = None
    keys: dict[str, Any] | None = None
    grace: int | None = None
    row_of: str | None = None

    @cached_property
    def pipeline(self) -> Pipeline:
        """The pipeline of its release."""
        return Pipeline.from_settings(self.settings)

    @cached_property
    def specification(self) -> Keyed | None:
        """The keyed specification of its release. None: it has no keys."""
        return None if self.keys is None else stream_keyed_by(self.pipeline, self.keys)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the stream."""
        return (self.specification or self.pipeline).guarantee

    @property
    def counts_rows(self) -> bool:
        """Whether the number of rows is public: not for events, nor with declared keys."""
        return self.pipeline.ticks is None and (self.keys is None or self.keys["names"] is None)

    @property
    def epoch(self) -> int:
        """The number of the epoch, from 1."""
        return int(self.name.rpartition(EPOCH)[2]) if EPOCH in self.name else 1

    @property
    def plain_name(self) -> str:
        """The name without the epoch."""
        return self.name.partition(EPOCH)[0]

    def row(self) -> dict[str, Any]:
        """The stream as a row of the table."""
        facts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        keys = None if self.keys is None else json.dumps(self.keys)
        return {**facts, "settings": json.dumps(self.settings), "keys": keys}

    @classmethod
    def from_row(cls, row: Any) -> StoredStream:
        """The stream from what `row` returned."""
        facts = dict(row._mapping)
        keys = None if facts["keys"] is None else json.loads(facts["keys"])
        return cls(**{**facts, "settings": json.loads(facts["settings"]), "keys": keys})

    def shown(self) -> dict[str, Any]:
        """The public facts for people."""
        facts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        keys, grace = facts.pop("keys"), facts.pop("grace")
        if facts["row_of"] is None:
            del facts["row_of"]
        more: dict[str, Any] = {"kind": self.kind, "epoch": self.epoch}
        if grace is not None:
            more["closed by"] = f"the service's clock, {grace} s after the end of a tick"
        if keys is not None:
            names = keys["names"]
            more["keys"] = "public" if names is None else f"{len(names)} declared"
            more["threshold"] = keys["threshold"]
        return {**facts, **more, "guarantee": str(self.guarantee)}

    @property
    def kind(self) -> str:
        """The kind of its rows: readings or events, with keys or without."""
        rows = "events" if self.pipeline.ticks is not None else "readings"
        return rows if self.keys is None else f"keyed {rows}"


@contextmanager
def advising(name: str) -> Iterator[None]:
    """Add advice for operators of a service to errors about states that cannot be opened.

    Elsewhere that is an argument, or `--new-epoch`, which here begins *every* stream anew.
    """
    try:
        yield
    except StateError as error:
        way = f"POST /v1/streams/{name.partition(EPOCH)[0]}/epochs"
        said = str(error).replace("new_epoch=True (--new-epoch)", way)
        if way not in said:
            said += ": give the key that sealed it, restore the database, or begin again with "
            said += f"{way}, which is charged"
        raise StateError(said) from None


def newest_epochs(streams: Iterable[StoredStream]) -> dict[str, StoredStream]:
    """The newest epoch of each stream, by its plain name."""
    found: dict[str, StoredStream] = {}
    for one in streams:
        newest = found.get(one.plain_name)
        if newest is None or newest.epoch < one.epoch:
            found[one.plain_name] = one
    return found


def stream_keyed_by(pipeline: Pipeline, keys: dict[str, Any]) -> Keyed:
    """The keyed specification from stored settings."""
    names = keys["names"]
    return keyed(
        pipeline,
        keys=names,
        keys_are_public=names is None,
        threshold=keys.get("threshold", PER_KEY),
    )
