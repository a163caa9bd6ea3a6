"""The contract of a store of a keyed release: a folder, or a shared database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from tidegate.durable.store_contract import ChargedStore
from tidegate.keyed.rows import KeyedRows


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


class KeyedStateStore(ChargedStore, Protocol):
    """Keeps the state of one keyed release."""

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
