"""The only place where randomness is made.

Every random word comes from an AES-256-CTR keystream. Its key is derived (HKDF-SHA256) from

    the epoch's 256-bit secret · the epoch's 128-bit id · the purpose · a digest of the resolved
    settings

and its initial counter block spells out *where* the noise goes:

    chunk (48 bits) | tree (32 bits) | level (8 bits) | block counter (40 bits)

so two different places never share noise, and the same place of the same epoch always gets the
same noise (law 2: resume is invisible). An epoch is made anew by every `start`: the same noise on
other data, or under other settings, would reveal the difference of the data.

Replacing true randomness by a keystream makes the guarantee computational: it holds against
adversaries that cannot tell AES-256-CTR from random bits.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from tidegate.errors import SettingError

SECRET_BYTES = 32
EPOCH_BYTES = 16
_CHUNKS, _TREES, _LEVELS = 1 << 48, 1 << 32, 1 << 8
_COUNTER_BITS = 40
_WORDS = 2 << _COUNTER_BITS  # two words of 64 bits per AES block


def random_bytes(count: int) -> bytes:
    """Fresh bytes from the operating system."""
    return os.urandom(count)


class WordSource(Protocol):
    """Independent uniform words of `bits` bits each; a sampler takes as many as it needs."""

    @property
    def bits(self) -> int:
        """Width of a word."""
        ...

    def take(self, count: int) -> NDArray[np.uint64]:
        """The next `count` words, each uniform on [0, 2**bits)."""
        ...


class KeystreamWords:
    """64-bit words of one keystream; never the same words twice."""

    bits = 64

    def __init__(self, encryptor: CipherContext) -> None:
        self._encryptor = encryptor
        self._left = _WORDS

    def __repr__(self) -> str:
        return "<KeystreamWords>"

    def take(self, count: int) -> NDArray[np.uint64]:
        """The next `count` words."""
        self._left -= count
        if self._left < 0:  # the next word would belong to another place
            raise OverflowError("too much noise was asked for in one place")
        return np.frombuffer(self._encryptor.update(bytes(8 * count)), dtype="<u8")


class Keystream:
    """The noise for one purpose under one epoch and one set of settings, addressed by place."""

    def __init__(self, key: bytes) -> None:
        self._algorithm = algorithms.AES256(key)

    def __repr__(self) -> str:  # the key is the noise
        return "<Keystream>"

    @property
    def key(self) -> bytes:
        """The key that determines the whole keystream: as secret as the noise."""
        return bytes(self._algorithm.key)

    def at(self, *, chunk: int = 0, tree: int = 0, level: int = 0) -> KeystreamWords:
        """A new reader of the words at this place, from their beginning."""
        place = counter_block(chunk=chunk, tree=tree, level=level)
        return KeystreamWords(Cipher(self._algorithm, modes.CTR(place)).encryptor())

    def first_words(
        self, *, chunk: int, tree: int, count: int, level: int = 0, words: int = 1
    ) -> NDArray[np.uint64]:
        """The first word that `at` returns for each of `count` successive trees, in one step.

        With `words=2` the first two, a row for each tree: they are one block of the cipher.
        """
        counter_block(chunk=chunk, tree=tree + count - 1, level=level)  # refuses what has no place
        trees = np.arange(tree, tree + count, dtype=np.uint64)
        blocks = np.empty((count, 2), dtype=">u8")
        blocks[:, 0] = np.uint64(chunk << 16) | trees >> np.uint64(16)
        blocks[:, 1] = trees << np.uint64(48) | np.uint64(level << _COUNTER_BITS)
        once = modes.ECB()  # noqa: S305  # each counter block is enciphered once: this is CTR
        text = Cipher(self._algorithm, once).encryptor().update(blocks.tobytes())
        both = np.frombuffer(text, dtype="<u8").reshape(-1, 2)
        return both[:, 0] if words == 1 else both


def counter_block(*, chunk: int, tree: int, level: int) -> bytes:
    """The first counter block of a place."""
    if not (0 <= chunk < _CHUNKS and 0 <= tree < _TREES and 0 <= level < _LEVELS):
        raise OverflowError("noise address out of range: the stream or its forest is too large")
    place = ((chunk * _TREES + tree) * _LEVELS + level) << _COUNTER_BITS
    return place.to_bytes(16, "big")


@dataclass(frozen=True)
class Epoch:
    """The identity of one run's noise. `secret` is as sensitive as the raw data."""

    secret: bytes = field(repr=False)
    id: bytes
    simulation: bool = False

    def child(self, number: int) -> Epoch:
        """The epoch of a later phase of the same run: unrelated noise, no new secret.

        Derived and not drawn, so that a run that was killed resumes exactly.
        """
        info = b"tidegate/1/epoch/%d" % number
        derived = HKDF(algorithm=SHA256(), length=EPOCH_BYTES, salt=self.id, info=info)
        return Epoch(self.secret, derived.derive(self.secret), self.simulation)

    def of_key(self, name: str) -> Epoch:
        """The epoch of one key of a keyed run with this epoch: HKDF(secret, id, key).

        Noise of two keys is unrelated. The secret is derived too, so that the state of one key
        tells nothing of another's noise.
        """
        info = b"tidegate/1/keyed/" + name.encode()
        length = SECRET_BYTES + EPOCH_BYTES
        derived = HKDF(algorithm=SHA256(), length=length, salt=self.id, info=info)
        material = derived.derive(self.secret)
        return Epoch(material[:SECRET_BYTES], material[SECRET_BYTES:], self.simulation)

    def keystream(self, purpose: str, settings_digest: bytes) -> Keystream:
        """The keystream for one purpose; other purposes and settings get unrelated keys."""
        return Keystream(self._derived(b"tidegate/1/" + purpose.encode() + b"/" + settings_digest))

    def derived_key(self, purpose: str) -> bytes:
        """A key for something other than noise: journals, digests."""
        return self._derived(b"tidegate/1/key/" + purpose.encode())

    def _derived(self, info: bytes) -> bytes:
        derived = HKDF(algorithm=SHA256(), length=SECRET_BYTES, salt=self.id, info=info)
        return derived.derive(self.secret)


class Randomness(Protocol):
    """The source of epochs: `secure()` for data, `seeded(n)` for simulations."""

    def new_epoch(self) -> Epoch:
        """The identity of a new run's noise."""
        ...


@dataclass(frozen=True)
class SecureRandomness:
    """Every epoch gets a fresh secret and a fresh id from the operating system."""

    def new_epoch(self) -> Epoch:
        """A fresh secret and a fresh id from the operating system."""
        return Epoch(secret=random_bytes(SECRET_BYTES), id=random_bytes(EPOCH_BYTES))


@dataclass(frozen=True)
class SeededRandomness:
    """Reproducible noise: anyone who knows the seed can subtract it, so there is no privacy."""

    seed: int

    def new_epoch(self) -> Epoch:
        """The same epoch every time."""
        material = hashlib.sha512(b"tidegate simulation %d" % self.seed).digest()
        end = SECRET_BYTES + EPOCH_BYTES
        return Epoch(material[:SECRET_BYTES], material[SECRET_BYTES:end], simulation=True)


def secure() -> SecureRandomness:
    """Randomness from the operating system: the default of `Pipeline.start`."""
    return SecureRandomness()


def seeded(seed: int) -> SeededRandomness:
    """Reproducible randomness for tests and experiments; its releases have no guarantee.

    >>> seeded(7).new_epoch().simulation
    True
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise SettingError("seed", "must be a whole number")
    return SeededRandomness(int(seed))
