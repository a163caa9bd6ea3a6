"""State as bytes and back: versioned, checked, encrypted if a key is given; keys as text.

    magic · version · header length · header (public JSON) · body

The header stays readable: settings digest, epoch id, position. The body is either checked by a
SHA-256 digest (which shows accidents, not attacks) or sealed with AES-256-GCM under the user's
key, the header being bound in: a body cannot be moved to another stream, epoch or position.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from tidegate.errors import SettingError, SnapshotError, TidegateError
from tidegate.randomness import random_bytes

KEY_VARIABLE = "TIDEGATE_KEY"
_MAGIC = b"TIDEGATE"
_VERSION = 2
_KEY_BYTES = 32
_INT64 = 1 << 63
_NONCE_BYTES = 12
_PREFIX = struct.Struct(">8sBI")
_WHOLE, _FLOAT = struct.Struct("<q"), struct.Struct("<d")
_TAMPERED = "it is damaged or was tampered with"
MALFORMED = (
    LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError,
    MemoryError, StopIteration, struct.error,
)  # fmt: skip
"""What happens in code that is given plain data of another shape than it expects."""


def seal(header: Mapping[str, Any], body: Mapping[str, Any], key: bytes | None) -> bytes:
    """Plain data and arrays as bytes."""
    public = json.dumps({**header, "sealed": key is not None}, sort_keys=True).encode()
    prefix = _PREFIX.pack(_MAGIC, _VERSION, len(public)) + public
    payload = _encoded(body)
    if key is None:
        return prefix + hashlib.sha256(prefix + payload).digest() + payload
    nonce = random_bytes(_NONCE_BYTES)
    return prefix + nonce + _cipher(key).encrypt(nonce, payload, prefix)


def unseal(data: bytes, key: bytes | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and body, or a `SnapshotError` that says what is wrong."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise SnapshotError(
            f"a {type(data).__name__} is no snapshot or record: give its bytes, such as "
            "Path(path).read_bytes()"
        )
    if len(data) < _PREFIX.size or data[: len(_MAGIC)] != _MAGIC:
        raise SnapshotError("this is not a Tidegate snapshot or record")
    _, version, length = _PREFIX.unpack_from(data)
    if version != _VERSION:
        raise SnapshotError(f"it has format version {version}; this Tidegate reads {_VERSION}")
    prefix, rest = data[: _PREFIX.size + length], data[_PREFIX.size + length :]
    with understood():
        header: dict[str, Any] = json.loads(prefix[_PREFIX.size :])
        sealed: bool = header["sealed"]
    if not sealed:
        if key is not None:  # else whoever can write the file could plant noise of their own
            raise SnapshotError("it is not sealed, but a key was given: it is not what you sealed")
        if hashlib.sha256(prefix + rest[32:]).digest() != rest[:32]:
            raise SnapshotError(_TAMPERED)
        return header, _decoded(rest[32:])
    if key is None:
        raise SnapshotError("it is sealed: give the key it was sealed with")
    cipher = _cipher(key)
    try:
        payload = cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], prefix)
    except (InvalidTag, ValueError):
        raise SnapshotError(f"{_TAMPERED}, or the key is another one") from None
    return header, _decoded(payload)


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
        raise SnapshotError(_TAMPERED) from None


def _cipher(key: object) -> AESGCM:
    if not isinstance(key, bytes) or len(key) != _KEY_BYTES:
        raise SettingError("key", f"must be {_KEY_BYTES} bytes, for example os.urandom(32)")
    return AESGCM(key)


def _encoded(body: Mapping[str, Any]) -> bytes:
    blobs: list[bytes] = []

    def plain(value: Any) -> Any:
        # The frequent kinds first, by their exact type: every commit seals a few hundred values.
        kind = type(value)
        # Numbers take eight bytes whatever they are: the length of sealed state is no secret, so it
        # must not depend on how many digits a raw sum has.
        if kind is int and -_INT64 <= value < _INT64:
            blobs.append(_WHOLE.pack(value))
            return {"$int": 0}
        if kind is str or value is None or kind is bool:
            return value
        if kind is dict or isinstance(value, Mapping):
            # A name that looks like a mark of ours gets one more $.
            return {
                f"${name}" if name[:1] == "$" else name: plain(item) for name, item in value.items()
            }
        if isinstance(value, np.ndarray):
            stored = _stored_kind(value.dtype)
            blobs.append(value.astype(stored, copy=False).tobytes())
            return {"$array": stored.str, "size": value.size}
        if isinstance(value, float):
            blobs.append(_FLOAT.pack(value))
            return {"$float": 0}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        if isinstance(value, bytes):
            return {"$bytes": value.hex()}
        return value

    text = json.dumps(plain(body)).encode()
    return struct.pack(">Q", len(text)) + text + b"".join(blobs)


@lru_cache(maxsize=32)
def _stored_kind(kind: np.dtype[Any]) -> np.dtype[Any]:
    return kind.newbyteorder("<")


def _decoded(payload: bytes) -> dict[str, Any]:
    """The body; the payload must fill it exactly, so no array is larger than the input."""
    with understood():
        return _rebuilt(payload)


@lru_cache(maxsize=32)
def _kinds(name: str) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """As it is stored, and as this machine has it."""
    kind = np.dtype(name)
    return kind, kind.newbyteorder("=")


def _rebuilt(payload: bytes) -> dict[str, Any]:
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
            kind, native = _kinds(value["$array"])
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


def decoded_key(written: bytes, name: str, setting: str) -> bytes:
    """The 32 bytes of a key, written raw, in hex or in base64; `name` is where it was read."""
    if len(written) == _KEY_BYTES:
        return written
    text = written.strip()
    for decode in (bytes.fromhex, _base64):
        try:
            key = decode(text.decode("ascii"))
        except (ValueError, binascii.Error):
            continue
        if len(key) == _KEY_BYTES:
            return key
    raise SettingError(setting, f"{name} must hold 32 bytes: raw, as 64 hex digits or base64")


def _base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
