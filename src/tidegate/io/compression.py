"""Compression whose output does not depend on how writes were split."""

from __future__ import annotations

import zlib
from typing import Any

from tidegate.io.optional import require
from tidegate.io.outgoing import Bytes, Outgoing

_BLOCK = 1 << 20  # the compressor gets blocks of exactly this length
_GZIP = 16 + zlib.MAX_WBITS  # with gzip's header; zlib leaves its time at 0
# Chosen for speed: text of released values shrinks to a tenth or less at any level.
_GZIP_LEVEL, _ZSTD_LEVEL = 1, 1


class Packed:
    """An `Outgoing` behind a compressor."""

    def __init__(self, outgoing: Outgoing, codec: str) -> None:
        self._outgoing = outgoing
        self._waiting = bytearray()
        self._torn = False  # a write failed: what the compressor took is not known
        if codec == "gzip":
            self._compressor: Any = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP)
        else:
            zstandard = require("zstandard")
            settings = {"level": _ZSTD_LEVEL, "write_checksum": True}
            self._compressor = zstandard.ZstdCompressor(**settings).compressobj()

    def write(self, data: Bytes) -> None:
        """Compress and write."""
        torn, self._torn = self._torn, True
        self._outgoing.broken |= torn
        self._waiting += data
        while len(self._waiting) >= _BLOCK:
            self._outgoing.write(self._compressor.compress(bytes(self._waiting[:_BLOCK])))
            del self._waiting[:_BLOCK]
        self._torn = False

    def sync(self) -> None:
        """Do nothing: a compressed file appears when it is complete."""

    def close(self) -> None:
        """Write the rest and the end of the compressed data."""
        self._outgoing.broken |= self._torn
        if not self._outgoing.closed and not self._outgoing.broken:
            self._outgoing.write(self._compressor.compress(bytes(self._waiting)))
            self._outgoing.write(self._compressor.flush())
            self._waiting.clear()
        self._outgoing.close()

    def abort(self) -> None:
        """Give up."""
        self._outgoing.abort()
