"""Bodies of pushes in Arrow IPC: their size is known before anything of them is made.

A few bytes of an Arrow stream can stand for any number of rows (columns of nulls, runs) or for any
number of bytes (compressed buffers). Both are read off the messages' headers, which are
FlatBuffers, before pyarrow builds a table.
"""

from __future__ import annotations

import struct
from typing import Any

from tidegate.errors import InputError

MOST_ROWS = 32 << 20  # as many numbers as a JSON body of 64 MiB can have
MOST_ARROW_BYTES = 512 << 20  # of buffers, once they are unpacked
_HEADER, _RECORD_BATCH, _DICTIONARY_DATA = 2, "record batch", 1  # fields of FlatBuffers, by number
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3
_ARROW_FORM = 'the body is not an Arrow stream with a column "value", and perhaps "time"'


def read_pushed_table(body: bytes) -> Any:
    """The table of an Arrow stream.

    Raises:
        InputError: it is none, or one that is too large. Nothing of it is quoted.
    """
    import pyarrow

    try:
        rows, unpacked = _arrow_body_size(pyarrow, body)
        if rows <= MOST_ROWS and unpacked <= MOST_ARROW_BYTES:
            table = pyarrow.ipc.open_stream(body).read_all()
            table.validate(full=True)  # or a column that lies about its buffers ends the process
            return table
    except Exception:  # noqa: BLE001  # whatever the library raises may quote the body
        raise InputError(_ARROW_FORM) from None
    raise InputError(
        f"the body has more than {MOST_ROWS:,} rows, or unpacks to more than "
        f"{MOST_ARROW_BYTES >> 20} MiB: send it in parts"
    )


def _arrow_body_size(pyarrow: Any, body: bytes) -> tuple[int, int]:
    """Rows, and bytes of the buffers once they are unpacked."""
    rows = unpacked = 0
    for message in pyarrow.ipc.MessageReader.open_stream(body):
        if message.type not in (_RECORD_BATCH, "dictionary"):
            continue
        header = message.metadata.to_pybytes()
        batch = _body_table(header, _body_field(header, _body_unsigned(header, 0), _HEADER))
        if message.type != _RECORD_BATCH:
            batch = _body_table(header, _body_field(header, batch, _DICTIONARY_DATA))
        length = _body_field(header, batch, _LENGTH)
        rows += _body_signed(header, length) if length else 0
        unpacked += _unpacked_body(header, batch, message.body.to_pybytes())
    return rows, unpacked


def _unpacked_body(header: bytes, batch: int, body: bytes) -> int:
    """How many bytes the buffers of a batch have: a packed one begins with that number."""
    if not _body_field(header, batch, _COMPRESSION):
        return len(body)
    buffers = _body_table(header, _body_field(header, batch, _BUFFERS))
    total = 0
    for at in range(_body_unsigned(header, buffers)):
        offset, length = struct.unpack_from("<qq", header, buffers + 4 + 16 * at)
        if length:
            size = _body_signed(body, offset)
            total += length if size == -1 else size  # −1: it is not packed
            if size < -1 or not 0 <= offset <= len(body):
                raise ValueError("no size")
    return total


# -- FlatBuffers ---------------------------------------------------------------------------------


def _body_field(data: bytes, table: int, number: int) -> int:
    """Where a field of a table is; 0: it is left out."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, fields)[0]
    place = 4 + 2 * number
    offset = int(struct.unpack_from("<H", data, fields + place)[0]) if place < size else 0
    return table + offset if offset else 0


def _body_table(data: bytes, place: int) -> int:
    return place + _body_unsigned(data, place)


def _body_unsigned(data: bytes, place: int) -> int:
    return int(struct.unpack_from("<I", data, place)[0])


def _body_signed(data: bytes, place: int) -> int:
    return int(struct.unpack_from("<q", data, place)[0])
