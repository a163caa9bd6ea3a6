"""The lines of a ledger: JSON, each with the hash of the line before it.

    {"sequence":2,"time":…,"kind":…, … ,"previous":"<hash of line 1>","hash":"<of this line>"}

The hash is SHA-256 of the line's bytes up to `,"hash"`, or HMAC-SHA256 with a key. It covers the
bytes and not the parsed content, so that no byte can change unnoticed, not even a space. Where
lines are kept is not decided here: a file (`chain`), or a table of a database.
"""

from __future__ import annotations

import hmac
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tidegate._hash_chain import START, chain_link
from tidegate.errors import SettingError
from tidegate.exact_numbers import said
from tidegate.ledger.errors import LedgerError

VERSION = 1
_KEY_BYTES = 32
_HASH = b',"hash":"%s"}'
_HASH_BYTES = len(_HASH % bytes(64))
DECODER = json.JSONDecoder()  # its raw_decode is the fastest way in, and allows for no spaces
FOREIGN = "this is not a Tidegate ledger, or its start is damaged"
DAMAGED = "it was changed after it was written, or is damaged"
_MOVED = "it does not follow the entry before it: an entry was removed, added or moved"


class HashedLine(NamedTuple):
    """The content of a verified line, and its hash."""

    facts: dict[str, Any]
    hash: str


def key_of_hashed_lines(key: object) -> bytes | None:
    """The derived key of the chain: the user's key may also seal other things."""
    if key is None:
        return None
    if not isinstance(key, bytes) or len(key) != _KEY_BYTES:
        raise SettingError("key", f"must be {_KEY_BYTES} bytes, for example os.urandom(32)")
    return hmac.digest(key, b"tidegate ledger: chain", "sha256")


class HashedLines(ABC):
    """A chain of lines in some store. Read it first, then append.

    Attributes:
        path: where it is, for messages.
        count: how many entries it has.
        head: the hash of the last one.
        torn: bytes of an unfinished entry at the end, cut off by `repair`.
    """

    torn = 0

    def __init__(self, path: Path, key: bytes | None) -> None:
        self.path = path
        self.keyed = key is not None
        self._key = key
        self.count = 0
        self.head = START.hex()

    @abstractmethod
    def read(self) -> Iterator[HashedLine]:
        """Verify and return all entries; call it once and exhaust it, before anything else."""

    @abstractmethod
    def _write(self, line: bytes) -> None:
        """Store a new line, which ends in a newline, durably."""

    @abstractmethod
    def close(self) -> None:
        """Close the store; nothing can be appended afterwards."""

    @property
    def unfinished(self) -> bool:
        """Whether the last append was interrupted."""
        return False

    def repair(self) -> str:
        """Remove or complete an unfinished entry; returns a note."""
        raise AssertionError("nothing is unfinished")

    def append(self, kind: str, time: str, facts: Mapping[str, Any]) -> HashedLine:
        """Append an entry, durably."""
        whole = {
            "sequence": self.count + 1,
            "time": time,
            "kind": kind,
            **facts,
            "previous": self.head,
        }
        body = json.dumps(whole, separators=(",", ":"), ensure_ascii=True).encode("ascii")[:-1]
        digest = self._hash(body)
        self._write(body + _HASH % digest.encode() + b"\n")
        self.count, self.head = self.count + 1, digest
        return HashedLine(whole, digest)

    def _check_header(self, line: bytes) -> None:
        """Check the kind of the file first: its error says more than a wrong hash."""
        if not line.startswith(b'{"sequence":1,'):
            raise LedgerError(self.path, FOREIGN, 1)
        try:
            facts = json.loads(line)
            version, keyed = facts["version"], facts["keyed"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise LedgerError(self.path, DAMAGED, 1) from None
        if version != VERSION:
            raise LedgerError(
                self.path,
                f"it has format version {said(version)}; this Tidegate reads {VERSION}",
                1,
            )
        if keyed and not self.keyed:
            raise LedgerError(self.path, "its chain is keyed: give the key it was made with", 1)
        if self.keyed and not keyed:  # else anybody who can write the file could replace it
            raise LedgerError(
                self.path, "its chain is not keyed, but a key was given: it is not what you made", 1
            )

    def _verified(self, line: bytes) -> HashedLine:
        number = self.count + 1
        digest = self._hash(line[:-_HASH_BYTES])
        if line[-_HASH_BYTES:] != _HASH % digest.encode():
            other_key = ", or the key is another one" if self.keyed and number == 1 else ""
            raise LedgerError(self.path, DAMAGED + other_key, number)
        try:
            facts, _ = DECODER.raw_decode(line.decode("ascii"))
            follows = facts["sequence"] == number and facts["previous"] == self.head
        except (ValueError, KeyError, TypeError, RecursionError):
            raise LedgerError(self.path, "it is not an entry of a ledger", number) from None
        if not follows:
            raise LedgerError(self.path, _MOVED, number)
        self.count, self.head = number, digest
        return HashedLine(facts, digest)

    def _hash(self, body: bytes) -> str:
        return chain_link(b"", body, self._key).hex()  # the line itself names the head before it
