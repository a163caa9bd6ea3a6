"""A file that has grown since its index was made: only the rows that are new are read.

Whether it has grown, and was not replaced or rewritten, is not guessed: the bytes that were there
then are compared by their digest, which takes an eighth of the time of reading their rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.io.kinds import Kind
from tidegate.released.index import Index
from tidegate.released.scan import Stretch

_PIECE = 1 << 20


def prefix_digest(path: Path, size: int, kind: Kind) -> str | None:
    """Of the first `size` bytes; None if rows could not be added to just these.

    They can to plain lines of which the last is complete, and not blank.
    """
    if not kind.recoverable or size < 2:
        return None
    digest, left, last = hashlib.sha256(), size, b""
    try:
        with path.open("rb") as file:
            while left and (data := file.read(min(_PIECE, left))):
                digest.update(data)
                left -= len(data)
                last = (last + data)[-2:]
    except OSError:  # whoever reads its rows will say so
        return None
    whole = not left and last.endswith(b"\n") and last[:1].strip() != b""
    return digest.hexdigest() if whole else None


def has_grown(index: Index, path: Path, size: int, kind: Kind, metadata: Mapping[str, Any]) -> bool:
    """Whether the file is the one that was indexed, with more rows."""
    before = index.footer.get("prefix")
    return (
        before is not None
        and size > index.version["size"]
        and metadata["settings"] == index.metadata["settings"]
        and prefix_digest(path, index.version["size"], kind) == before
    )


def goes_on(index: Index, stretches: list[Stretch]) -> bool:
    """Whether what is known of positions now agrees with what was known then."""
    known = index.footer["segments"]
    if len(known) > len(stretches):
        return False
    same = all(
        (facts["blocked"], facts["start"], facts["threshold"], facts["epoch"])
        == (stretch.blocked, stretch.start, stretch.threshold, stretch.epoch)
        for facts, stretch in zip(known, stretches, strict=False)
    )
    return same and all(
        facts["end"] == stretch.end for facts, stretch in zip(known[:-1], stretches, strict=False)
    )
