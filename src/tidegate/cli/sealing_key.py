"""The key that seals durable state: from a file or from the environment, never from an option."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from tidegate.errors import MissingError
from tidegate.sealing import KEY_VARIABLE, decoded_key

READABLE = "who can read the folder can read held-out values and raw sums"


def read_sealing_key(path: Path | str | None, setting: str = "key-file") -> bytes | None:
    """Read 32 bytes, written raw, in hex or in base64. None: there is no key."""
    if path is None:
        text = os.environ.get(KEY_VARIABLE)
        return None if text is None else decoded_key(os.fsencode(text), KEY_VARIABLE, setting)
    try:
        return decoded_key(Path(path).read_bytes(), str(path), setting)
    except OSError as error:
        raise MissingError(f"{setting}: cannot read {path}: {error.strerror}") from None


def sealing_key_of_command(command: str) -> bytes:
    """Read the key that a command prints, for example a KMS client. It runs without a shell."""
    try:
        done = subprocess.run(shlex.split(command), capture_output=True, timeout=60, check=False)  # noqa: S603  # the operator's own command
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise MissingError(f"key-command: it did not run ({type(error).__name__})") from None
    if done.returncode:
        raise MissingError(f"key-command: it failed with exit code {done.returncode}")
    return decoded_key(done.stdout, "what it prints", "key-command")
