"""State as plain data, and plain data with arrays as bytes and back.

length of the text · text (JSON) · the numbers and arrays that marks in the text stand for
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import SnapshotError, TidegateError

TAMPERED = "it is damaged or was tampered with"
_INT64 = 1 << 63
_WHOLE, _FLOAT = struct.Struct("<q"), struct.Struct("<d")
_AN_INT, _A_FLOAT = {"$int": 0}, {"$float": 0}  # marks in the text
MALFORMED = (
    LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError,
    MemoryError, StopIteration, struct.error,
)  # fmt: skip
"""What happens in code that is given plain data of another shape than it expects."""


@contextmanager
def understood() -> Iterator[None]:
    """Turn any error while decoding into a `SnapshotError` about the bytes.

    A checksum can be computed by anyone, so that a file which passes it may still hold anything.
    """
    try:
        yield
    except MALFORMED as error:
        if isinstance(error, TidegateError):
            raise
        raise SnapshotError(TAMPERED) from None


def encoded(body: Mapping[str, Any]) -> bytes:
    """Plain data and arrays as bytes."""
    blobs: list[bytes] = []

    def plain(value: Any) -> Any:
        # The frequent kinds first, by their exact type: every commit seals a few hundred values.
        kind = type(value)
        # Numbers take eight bytes whatever they are: the length of sealed state is no secret, so it
        # must not depend on how many digits a raw sum has.
        if kind is int and -_INT64 <= value < _INT64:
            blobs.append(_WHOLE.pack(value))
            return _AN_INT
        if kind is float:
            blobs.append(_FLOAT.pack(value))
            return _A_FLOAT
        if kind is list or kind is tuple:
            if value and type(value[0]) is str and {*map(type, value)} == {str}:  # names of keys
                return value
            return [plain(item) for item in value]
        if kind is str or value is None or kind is bool:
            return value
        if kind is dict or (kind is not np.ndarray and isinstance(value, Mapping)):
            # A name that looks like a mark of ours gets one more $.
            return {
                f"${name}" if name[:1] == "$" else name: plain(item) for name, item in value.items()
            }
        if isinstance(value, np.ndarray):
            stored = _stored_array_kind(value.dtype)
            blobs.append(value.astype(stored, copy=False).tobytes())
            return {"$array": stored.str, "size": value.size}
        if isinstance(value, float):
            blobs.append(_FLOAT.pack(value))
            return _A_FLOAT
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        if isinstance(value, bytes):
            return {"$bytes": value.hex()}
        return value

    text = json.dumps(plain(body)).encode()
    return b"".join((struct.pack(">Q", len(text)), text, *blobs))


@lru_cache(maxsize=32)
def _stored_array_kind(kind: np.dtype[Any]) -> np.dtype[Any]:
    return kind.newbyteorder("<")


def decoded(payload: bytes) -> dict[str, Any]:
    """The body; the payload must fill it exactly, so no array is larger than the input."""
    with understood():
        return _state_rebuilt(payload)


@lru_cache(maxsize=32)
def _array_kinds(name: str) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """The kinds of an array as it is stored, and as this machine has it."""
    kind = np.dtype(name)
    return kind, kind.newbyteorder("=")


def _state_rebuilt(payload: bytes) -> dict[str, Any]:
    (length,) = struct.unpack_from(">Q", payload)
    text = payload[8 : 8 + length]
    offset = 8 + length
    has_escaped_names = b'"$$' in text

    def rebuilt(value: dict[str, Any]) -> Any:
        """Called by the parser when an object ends: in the order in which `plain` met them."""
        nonlocal offset
        if len(value) == 1:
            if "$int" in value or "$float" in value:
                unpack = _WHOLE if "$int" in value else _FLOAT
                (number,) = unpack.unpack_from(payload, offset)
                offset += 8
                return number
            if "$bytes" in value:
                return bytes.fromhex(value["$bytes"])
        elif "$array" in value:
            kind, native = _array_kinds(value["$array"])
            array: NDArray[Any] = np.frombuffer(payload, kind, value["size"], offset)
            offset += array.nbytes
            return array.astype(native)
        if has_escaped_names:
            return {name[1:] if name[:1] == "$" else name: item for name, item in value.items()}
        return value

    body: dict[str, Any] = json.loads(text, object_hook=rebuilt)
    if not isinstance(body, dict):
        raise TypeError("a body has names")
    return body


State = Mapping[str, Any]  # of a run: numbers, lists, arrays and mappings of them, by name


def state_of(run: object) -> dict[str, Any]:
    """The attributes that a run names in STATE."""
    return {name: getattr(run, name) for name in run.STATE}  # type: ignore[attr-defined]


def restore(run: object, state: State) -> None:
    """Put a saved state into a freshly started run."""
    for name in run.STATE:  # type: ignore[attr-defined]
        setattr(run, name, state[name])
