"""What a durable keyed release needs of the place that keeps it: a folder, or a shared database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from tidegate.durable.folder import Anchor
from tidegate.durable.store_contract import Anchors
from tidegate.keyed.rows import KeyedRows
from tidegate.ledger import Ledger


class KeyedChanges(NamedTuple):
    """What one commit of a keyed release writes.

    Attributes:
        head: counts, and the secret of the noise; sealed. Replaces the one before.
        pages: states of some keys each, by number; sealed. Replace those before.
        names: keys that came since the last commit; sealed. Added to those before.
        inputs: digests of what was read; added.
        rows: what is released by this commit.
    """

    head: bytes
    pages: Mapping[int, bytes]
    names: bytes
    inputs: bytes
    rows: KeyedRows | None


class KeyedStateStore(Protocol):
    """Keeps the state of one keyed release."""

    @property
    def place(self) -> str:
        """Where it is, for messages."""

    @property
    def lock(self) -> Anchors:
        """What is kept outside the state."""

    @property
    def own_ledger(self) -> bool:
        """Whether the ledger counts this release alone; else it is shared, and stays open."""

    def ledger(self, *, cap: Any, expected: Anchor | None, needed: bool) -> Ledger:
        """The ledger. A missing one is created unless it is `needed`: something was charged."""

    def close(self) -> None:
        """Let go of everything."""

    def commit(self, changes: KeyedChanges) -> None:
        """Commit everything together."""

    def fact(self, name: str) -> bytes | None:
        """The `head`, and other facts."""

    def names(self) -> list[bytes]:
        """All names that were committed, in order."""

    def pages(self) -> list[bytes]:
        """All pages."""

    def inputs(self) -> bytes:
        """The digests of all that was read."""
