"""The key that seals durable state: from a file or from the environment, never from an option."""

from __future__ import annotations

import os
from pathlib import Path

from tidegate.errors import MissingError
from tidegate.sealing import KEY_VARIABLE, decoded_key

READABLE = "who can read the folder can read held-out values and raw sums"


def read_key(path: Path | str | None, setting: str = "key-file") -> bytes | None:
    """32 bytes, written raw, in hex or in base64; None if there is no key."""
    if path is None:
        text = os.environ.get(KEY_VARIABLE)
        return None if text is None else decoded_key(os.fsencode(text), KEY_VARIABLE, setting)
    try:
        return decoded_key(Path(path).read_bytes(), str(path), setting)
    except OSError as error:
        raise MissingError(f"{setting}: cannot read {path}: {error.strerror}") from None
