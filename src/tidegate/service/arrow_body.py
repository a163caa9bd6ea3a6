"""Arrow streams from strangers: their size is known before anything of them is made.

A few bytes of an Arrow stream can stand for any number of rows (columns of nulls, runs) or for any
number of bytes (compressed buffers). Both are read off the messages' headers, which are
FlatBuffers, before pyarrow builds a table.
"""

from __future__ import annotations

import struct
from typing import Any

from tidegate.errors import InputError

MOST_ROWS = 32 << 20  # as many numbers as a JSON body of 64 MiB can have
MOST_BYTES = 512 << 20  # of buffers, once they are unpacked
_HEADER, _RECORD_BATCH, _DICTIONARY_DATA = 2, "record batch", 1  # fields of FlatBuffers, by number
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3
_FORM = 'the body is not an Arrow stream with a column "value", and perhaps "time"'


def read_table(body: bytes) -> Any:
    """The table of an Arrow stream.

    Raises:
        InputError: it is none, or one that is too large. Nothing of it is quoted.
    """
    import pyarrow

    try:
        rows, unpacked = _size(pyarrow, body)
        if rows <= MOST_ROWS and unpacked <= MOST_BYTES:
            return pyarrow.ipc.open_stream(body).read_all()
    except Exception:  # noqa: BLE001  # whatever the library raises may quote the body
        raise InputError(_FORM) from None
    raise InputError(
        f"the body has more than {MOST_ROWS:,} rows, or unpacks to more than "
        f"{MOST_BYTES >> 20} MiB: send it in parts"
    )


def _size(pyarrow: Any, body: bytes) -> tuple[int, int]:
    """Rows, and bytes of the buffers once they are unpacked."""
    rows = unpacked = 0
    for message in pyarrow.ipc.MessageReader.open_stream(body):
        if message.type not in (_RECORD_BATCH, "dictionary"):
            continue
        header = message.metadata.to_pybytes()
        batch = _table(header, _field(header, _unsigned(header, 0), _HEADER))
        if message.type != _RECORD_BATCH:
            batch = _table(header, _field(header, batch, _DICTIONARY_DATA))
        length = _field(header, batch, _LENGTH)
        rows += _signed(header, length) if length else 0
        unpacked += _unpacked(header, batch, message.body.to_pybytes())
    return rows, unpacked


def _unpacked(header: bytes, batch: int, body: bytes) -> int:
    """How many bytes the buffers of a batch have: a packed one begins with that number."""
    if not _field(header, batch, _COMPRESSION):
        return len(body)
    buffers = _table(header, _field(header, batch, _BUFFERS))
    total = 0
    for at in range(_unsigned(header, buffers)):
        offset, length = struct.unpack_from("<qq", header, buffers + 4 + 16 * at)
        if length:
            size = _signed(body, offset)
            total += length if size == -1 else size  # −1: it is not packed
            if size < -1 or not 0 <= offset <= len(body):
                raise ValueError("no size")
    return total


# -- FlatBuffers ---------------------------------------------------------------------------------


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table is; 0: it is left out."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, fields)[0]
    place = 4 + 2 * number
    offset = int(struct.unpack_from("<H", data, fields + place)[0]) if place < size else 0
    return table + offset if offset else 0


def _table(data: bytes, place: int) -> int:
    return place + _unsigned(data, place)


def _unsigned(data: bytes, place: int) -> int:
    return int(struct.unpack_from("<I", data, place)[0])


def _signed(data: bytes, place: int) -> int:
    return int(struct.unpack_from("<q", data, place)[0])
