"""A file that has grown since it was indexed: only the new rows are read.

The digest of the bytes that were indexed shows whether the file has only grown, or was replaced. It
takes an eighth of the time of reading the rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegate.io.file_formats import Kind
from tidegate.released.index import Index
from tidegate.released.scan import Span

_PIECE = 1 << 20


def grown_from(
    before: Index | None,
    path: Path,
    kind: Kind,
    size: int,
    metadata: Mapping[str, Any],
    parts: list[Span],
) -> tuple[Index | None, str | None]:
    """The earlier index, if the file has only grown; and the digest of the file now."""
    if (
        before is None
        or before.footer.get("prefix") is None
        or before.version["size"] >= size
        or before.metadata["settings"] != metadata["settings"]
        or not _continues(before, parts)
    ):
        return None, _digests(path, kind, [size])[0]
    then, now = _digests(path, kind, [before.version["size"], size])
    return before if then == before.footer["prefix"] else None, now


def _digests(path: Path, kind: Kind, sizes: Sequence[int]) -> list[str | None]:
    """The digest of the first `size` bytes, for increasing sizes; None if no row can follow there.

    Rows can follow plain lines of which the last is complete and not blank.
    """
    found: list[str | None] = []
    digest, taken, last = hashlib.sha256(), 0, b""
    try:
        with path.open("rb") as file:
            for size in sizes if kind.recoverable else ():
                while taken < size and (data := file.read(min(_PIECE, size - taken))):
                    digest.update(data)
                    taken += len(data)
                    last = (last + data)[-2:]
                whole = taken == size and last.endswith(b"\n") and last[:1].strip() != b""
                found.append(digest.hexdigest() if whole else None)
    except OSError:  # reading the rows will report it
        found.clear()
    return found + [None] * (len(sizes) - len(found))


def _continues(index: Index, spans: list[Span]) -> bool:
    """Whether the phases of the index are the first of the present ones."""
    known = index.footer["segments"]
    if len(known) > len(spans):
        return False
    same = all(
        (
            facts["blocked"],
            facts["start"],
            facts["threshold"],
            facts["epoch"],
            facts.get("below", 0),
        )
        == (span.blocked, span.start, span.threshold, span.epoch, span.below)
        for facts, span in zip(known, spans, strict=False)
    )
    return same and all(
        facts["end"] == span.end for facts, span in zip(known[:-1], spans, strict=False)
    )
