"""The master secret: where executors read it, and the keys derived from it.

    master secret ─┬─ HKDF(query, release) → epoch: secret and id of the noise of all keys
                   └─ HKDF(epoch)          → the key that seals the state

The secret itself never travels: Spark writes closures, configuration and event logs in plain text,
so only the *place* of the secret is sent, and every executor reads it there.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tidegate.errors import MissingError, SettingError
from tidegate.randomness import EPOCH_BYTES, SECRET_BYTES, Epoch
from tidegate.sealing import KEY_VARIABLE, decoded_key

_PLACES = ("file", "env", "command")
_PATIENCE = 60  # seconds that a KMS command may take
_HOW = "must be 'file:/path', 'env:NAME' or 'command:program arguments', never the secret itself"


@dataclass(frozen=True)
class MasterSecret:
    """32 bytes that are read where they are needed: raw, as 64 hex digits or in base64.

    Args:
        place: `file:/run/secrets/tidegate`, `env:TIDEGATE_KEY` or `command:kms decrypt …`, whose
            standard output is the secret. It must be readable on every executor.
    """

    place: str = f"env:{KEY_VARIABLE}"

    def __post_init__(self) -> None:
        kind, _, rest = str(self.place).partition(":")
        if kind not in _PLACES or not rest:  # the text is not shown: it may be the secret
            raise SettingError("secret", _HOW)

    def epoch(self, query: str) -> Epoch:
        """The epoch of all keys of one release, from the id of its query and its label.

        Spark draws the id (122 random bits) when it creates a checkpoint, and stores it there
        before the first batch. A replay finds the same id, so it makes the same noise; a deleted
        checkpoint gets another one. The same id can meet other data only if the source does not
        replay what it delivered.
        """
        info = b"tidegate/1/spark/noise/" + query.encode()
        material = self._derived(info, SECRET_BYTES + EPOCH_BYTES)
        return Epoch(material[:SECRET_BYTES], material[SECRET_BYTES:])

    def sealing_key(self) -> bytes:
        """The key that seals the state of every shard."""
        return self._derived(b"tidegate/1/spark/state", SECRET_BYTES)

    def digest_key(self) -> bytes:
        """The key for digests of a batch DataFrame's rows."""
        return self._derived(b"tidegate/1/spark/input", SECRET_BYTES)

    def _derived(self, info: bytes, length: int) -> bytes:
        return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(
            _read_secret(self.place)
        )


@lru_cache(maxsize=8)  # a KMS is asked once by each Python worker
def _read_secret(place: str) -> bytes:
    kind, _, rest = place.partition(":")
    if kind == "env":
        text = os.environ.get(rest)
        if text is None:
            raise MissingError(f"secret: the environment of this executor has no {rest}")
        return decoded_key(os.fsencode(text), rest, "secret")
    if kind == "file":
        try:
            return decoded_key(Path(rest).read_bytes(), rest, "secret")
        except OSError as error:
            raise MissingError(f"secret: cannot read {rest}: {error.strerror}") from None
    program = shlex.split(rest)
    try:
        done = subprocess.run(program, capture_output=True, timeout=_PATIENCE, check=False)  # noqa: S603  # the operator's own command
    except (OSError, subprocess.TimeoutExpired):
        raise MissingError(f"secret: {program[0]} cannot be run, or did not end") from None
    if done.returncode:  # what it printed may hold a part of the secret
        raise MissingError(f"secret: {program[0]} ended with exit code {done.returncode}")
    return decoded_key(done.stdout, program[0], "secret")
