"""What SQLite reads of a database and its write-ahead log: the pages of the last whole commit.

By the published format of the log: a header of 32 bytes, then frames of a header (page, size of the
database if the frame ends a commit, salts, checksums) and a page. Checksums run on from frame to
frame; the first that is wrong ends the log, and what follows the last commit before it is ignored.
"""

from __future__ import annotations

import struct
from functools import lru_cache

HEADER, FRAME_HEADER = 32, 24
_MAGIC = 0x377F0682  # the lowest bit says whether checksums read words with the high byte first


@lru_cache(maxsize=4096)
def read_alike(database: bytes, log: bytes) -> bytes:
    """The database as a reader finds it; and, in front, whether the log has any part in that."""
    page, commits = whole_commits(log)
    if not commits:
        return b"\0" + database
    pages, size = {}, commits[-1][1]
    for frames, _ in commits:
        pages.update(frames)
    whole = bytearray(database.ljust(size * page, b"\0")[: size * page])
    for number, content in pages.items():
        if number <= size:
            whole[(number - 1) * page : number * page] = content
    return b"\1" + bytes(whole)


def whole_commits(log: bytes) -> tuple[int, list[tuple[dict[int, bytes], int]]]:
    """The size of a page, and of each commit its pages and the size of the database after it."""
    if len(log) < HEADER:
        return 0, []
    magic, _, page, _, *salts_and_sums = struct.unpack(">8I", log[:HEADER])
    salts, sums = tuple(salts_and_sums[:2]), tuple(salts_and_sums[2:])
    order = ">" if magic & 1 else "<"
    state = _checksum(log[:24], (0, 0), order)
    if magic & ~1 != _MAGIC or state != sums:
        return 0, []
    commits: list[tuple[dict[int, bytes], int]] = []
    frames: dict[int, bytes] = {}
    for start in range(HEADER, len(log) - FRAME_HEADER - page + 1, FRAME_HEADER + page):
        header = log[start : start + FRAME_HEADER]
        content = log[start + FRAME_HEADER : start + FRAME_HEADER + page]
        number, size, *rest = struct.unpack(">6I", header)
        state = _checksum(content, _checksum(header[:8], state, order), order)
        if tuple(rest) != (*salts, *state) or not number:
            break
        frames[number] = content
        if size:
            commits.append((frames, size))
            frames = {}
    return page, commits


@lru_cache(maxsize=4096)
def _checksum(data: bytes, state: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = state
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
