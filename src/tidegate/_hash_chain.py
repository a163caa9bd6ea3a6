"""Hash chains: they reveal a row that was changed, dropped, added or moved.

    head₀ = 0…0,  headₙ = H(headₙ₋₁ ‖ rowₙ)

H is SHA-256, or HMAC-SHA-256 with a key. Without a key the chain shows accidents and naive edits;
with one, also a change by anybody who lacks the key. The heads of the journal and of the counts of
users are in the sealed state; a line of the ledger holds the hash of the line before it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

HEAD_BYTES = 32
START = bytes(HEAD_BYTES)
"""The head of an empty chain."""


def chain_link(head: bytes, row: bytes, key: bytes | None) -> bytes:
    """The head of the chain after a row."""
    if key is None:
        return hashlib.sha256(head + row).digest()
    return hmac.digest(key, head + row, "sha256")


def chain_head(rows: Iterable[bytes], key: bytes | None, head: bytes = START) -> bytes:
    """The head of the chain after these rows, starting from `head`."""
    for row in rows:
        head = chain_link(head, row, key)
    return head
