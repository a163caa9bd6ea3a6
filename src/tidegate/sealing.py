"""Seal state: versioned, checked, encrypted if a key is given; parse keys from text.

    magic · version · header length · header (public JSON) · body

The header stays readable: settings digest, epoch id, position. The body is either checked by a
SHA-256 digest (which shows accidents, not attacks) or sealed with AES-256-GCM under the user's
key, the header being bound in: a body cannot be moved to another stream, epoch or position.
"""

from __future__ import annotations

import binascii
import hashlib
import json
import struct
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tidegate.errors import SettingError, SnapshotError
from tidegate.randomness import random_bytes
from tidegate.state_as_bytes import TAMPERED, decoded, encoded, understood

KEY_VARIABLE = "TIDEGATE_KEY"
_MAGIC = b"TIDEGATE"
_VERSION = 2
_KEY_BYTES = 32
_NONCE_BYTES = 12
_PREFIX = struct.Struct(">8sBI")


def seal(header: Mapping[str, Any], body: Mapping[str, Any], key: bytes | None) -> bytes:
    """Plain data and arrays as sealed bytes, under a public header."""
    public = json.dumps({**header, "sealed": key is not None}, sort_keys=True).encode()
    prefix = _PREFIX.pack(_MAGIC, _VERSION, len(public)) + public
    payload = encoded(body)
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
            raise SnapshotError(TAMPERED)
        return header, decoded(rest[32:])
    if key is None:
        raise SnapshotError("it is sealed: give the key it was sealed with")
    cipher = _cipher(key)
    try:
        payload = cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], prefix)
    except (InvalidTag, ValueError):
        raise SnapshotError(f"{TAMPERED}, or the key is another one") from None
    return header, decoded(payload)


def _cipher(key: object) -> AESGCM:
    if not isinstance(key, bytes) or len(key) != _KEY_BYTES:
        raise SettingError("key", f"must be {_KEY_BYTES} bytes, for example os.urandom(32)")
    return AESGCM(key)


def decoded_key(written: bytes, name: str, setting: str) -> bytes:
    """The 32 bytes of a key in raw, hex or base64 form; `name` says where it was read."""
    if len(written) == _KEY_BYTES:
        return written
    text = written.strip()
    for decode in (bytes.fromhex, _base64):
        try:
            key = decode(text.decode("ascii"))
        except ValueError:
            continue
        if len(key) == _KEY_BYTES:
            return key
    raise SettingError(
        setting,
        f"{name} must hold 32 bytes: raw, as 64 hex digits or base64. To make one: "
        "head -c 32 /dev/urandom > FILE",
    )


def _base64(text: str) -> bytes:
    return binascii.a2b_base64(text, strict_mode=True)
