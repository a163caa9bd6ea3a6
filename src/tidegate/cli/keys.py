"""The key that seals durable state: from a file or from the environment, never from an option."""

from __future__ import annotations

import base64
import binascii
import os
import shlex
import subprocess
from pathlib import Path

from tidegate.errors import MissingError, SettingError

VARIABLE = "TIDEGATE_KEY"
_BYTES = 32
READABLE = "who can read the folder can read held-out values and raw sums"


def read_key(path: Path | str | None, setting: str = "key-file") -> bytes | None:
    """32 bytes, written raw, in hex or in base64; None if there is no key."""
    if path is None:
        text = os.environ.get(VARIABLE)
        return None if text is None else _decoded(os.fsencode(text), VARIABLE, setting)
    try:
        return _decoded(Path(path).read_bytes(), str(path), setting)
    except OSError as error:
        raise MissingError(f"{setting}: cannot read {path}: {error.strerror}") from None


def key_of_command(command: str) -> bytes:
    """The key that a command prints, such as one that asks a KMS. It runs without a shell."""
    try:
        done = subprocess.run(shlex.split(command), capture_output=True, timeout=60, check=False)  # noqa: S603  # the operator's own command
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise MissingError(f"key-command: it did not run ({type(error).__name__})") from None
    if done.returncode:
        raise MissingError(f"key-command: it failed with exit code {done.returncode}")
    return _decoded(done.stdout, "what it prints", "key-command")


def _decoded(written: bytes, name: str, setting: str) -> bytes:
    if len(written) == _BYTES:
        return written
    text = written.strip()
    for decode in (bytes.fromhex, _base64):
        try:
            key = decode(text.decode("ascii"))
        except (ValueError, binascii.Error):
            continue
        if len(key) == _BYTES:
            return key
    raise SettingError(setting, f"{name} must hold 32 bytes: raw, as 64 hex digits or base64")


def _base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
