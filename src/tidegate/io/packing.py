"""Compression whose bytes do not depend on how the writing was split into calls."""

from __future__ import annotations

import zlib
from typing import Any

from tidegate.io.optional import require
from tidegate.io.outgoing import Bytes, Outgoing

_PIECE = 1 << 20  # the compressor is fed pieces of exactly this length
_GZIP = 16 + zlib.MAX_WBITS  # with gzip's header; zlib leaves its time at 0
# Chosen for speed: text of released values shrinks to a tenth or less at any level.
_GZIP_LEVEL, _ZSTD_LEVEL = 1, 1


class Packed:
    """An `Outgoing` in front of which a compressor stands."""

    def __init__(self, outgoing: Outgoing, codec: str) -> None:
        self._outgoing = outgoing
        self._waiting = bytearray()
        self._torn = False  # a write did not end well: what the compressor took is not known
        if codec == "gzip":
            self._compressor: Any = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP)
        else:
            zstandard = require("zstandard")
            settings = {"level": _ZSTD_LEVEL, "write_checksum": True}
            self._compressor = zstandard.ZstdCompressor(**settings).compressobj()

    def write(self, data: Bytes) -> None:
        """Take some text."""
        torn, self._torn = self._torn, True
        self._outgoing.broken |= torn
        self._waiting += data
        while len(self._waiting) >= _PIECE:
            self._outgoing.write(self._compressor.compress(bytes(self._waiting[:_PIECE])))
            del self._waiting[:_PIECE]
        self._torn = False

    def sync(self) -> None:
        """Nothing: a compressed file is complete or it is not there."""

    def close(self) -> None:
        """The rest, and the end of the compressed data."""
        self._outgoing.broken |= self._torn
        if not self._outgoing.closed and not self._outgoing.broken:
            self._outgoing.write(self._compressor.compress(bytes(self._waiting)))
            self._outgoing.write(self._compressor.flush())
            self._waiting.clear()
        self._outgoing.close()

    def abort(self) -> None:
        """Give up."""
        self._outgoing.abort()
