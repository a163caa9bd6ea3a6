"""Draw the noise of many keys together, with the bits of each key's own stream.

Noise does not depend on data, so it may be made before it is needed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from tidegate.keyed.key_names import KeyNames
from tidegate.lattice import FloatArray, IntArray
from tidegate.noise.discrete_laplace import discrete_laplace
from tidegate.noise.laplace_from_words import discrete_laplace_rows
from tidegate.perturb.forest_geometry import Forest
from tidegate.randomness import EPOCH_BYTES, SECRET_BYTES, Epoch, Keystream, counter_block

_AT_ONCE = 1 << 18  # draws of one level

_ONCE = modes.ECB()  # noqa: S305  # each counter block is enciphered once: this is CTR

Level = tuple[int, int, Fraction]  # its number in the address of noise, draws, their scale


_BLOCK = 64  # bytes of SHA-256, and the most that a key of `_hmac_of_keys` may have
_INNER, _OUTER = (bytes(one ^ pad for one in range(256)) for pad in (0x36, 0x5C))


def _pads_of_keys(key: bytes) -> tuple[bytes, bytes]:
    padded = key.ljust(_BLOCK, b"\0")
    return padded.translate(_INNER), padded.translate(_OUTER)


def _hmac_of_keys(key: bytes, message: bytes) -> bytes:
    """HMAC-SHA256 (RFC 2104) with many keys."""
    inner, outer = _pads_of_keys(key)
    return sha256(outer + sha256(inner + message).digest()).digest()


class KeySource(NamedTuple):
    """The source of one key's noise: the key of its keystream, and its cipher.

    To make a cipher takes some times as long as to draw a block of noise from it.
    """

    key: bytes
    encipher: Callable[[bytes], bytes]

    def __repr__(self) -> str:  # the key is the noise
        return "<KeySource>"

    @classmethod
    def of(cls, key: bytes) -> KeySource:
        """A source with a cipher of its own."""
        return cls(key, Cipher(algorithms.AES256(key), _ONCE).encryptor().update)


class NoiseDraws:
    """Draws the noise of any nodes of any keys."""

    def sources(self, codes: IntArray) -> Iterator[KeySource]:
        """The noise sources of these keys.

        An iterator, not a list: a list of so many new objects would start Python's garbage
        collector while noise is made, and some of its runs visit all objects of the process.
        """
        raise AssertionError("each kind of release has its own")

    def draw(
        self, sources: Iterable[KeySource], places: list[tuple[int, int]], levels: Sequence[Level]
    ) -> list[IntArray]:
        """Noise of all levels for each of these keys, at its place (chunk and tree).

        One array a level, with a row for each key. The words are those of `Keystream.at`: AES of
        successive counter blocks, all levels of a key in one go.
        """
        begins = {place: _noise_counter_blocks(place, levels) for place in set(places)}
        keys, texts = [], []
        for source, place in zip(sources, places, strict=True):
            keys.append(source.key)
            texts.append(source.encipher(begins[place]))
        words: NDArray[np.uint64] = np.frombuffer(b"".join(texts), dtype="<u8")
        words = words.reshape(len(keys), -1)
        found, at = [], 0
        for level, count, scale in levels:
            noise, others = discrete_laplace_rows(words[:, at : at + count], scale)
            at += count + count % 2
            for row in others.tolist():
                chunk, tree = places[row]
                more = Keystream(keys[row]).at(chunk=chunk, tree=tree, level=level)
                noise[row] = discrete_laplace(more, count, scale)
            found.append(noise)
        return found


class PhaseNoiseDraws(NoiseDraws):
    """Draws noise where every phase of a key has a keystream; `key` returns the present one."""

    def __init__(self, key: Callable[[int], bytes]) -> None:
        self._key = key

    def __repr__(self) -> str:  # the key is the noise
        return "<PhaseDraws>"

    def sources(self, codes: IntArray) -> Iterator[KeySource]:
        """The noise sources of these keys."""
        return (KeySource.of(self._key(code)) for code in codes.tolist())


class PhaseNoiseSecret(NamedTuple):
    """The secret from which all noise keys of one phase of one key are derived."""

    id: bytes  # of its epoch: public
    root: bytes  # HKDF-Extract of the epoch's secret

    def __repr__(self) -> str:  # the key is the noise
        return "<PhaseSecret>"

    def key(self, purpose: bytes, identity: bytes) -> bytes:
        """The key of `Epoch.keystream(purpose, identity)`."""
        return _hmac_of_keys(self.root, b"tidegate/1/%b/%b\x01" % (purpose, identity))


SecretsOfPhases = list[PhaseNoiseSecret]


class PhaseNoiseSecrets:
    """The secrets of all keys' phases, equal to those of `Epoch.of_key(key).child(number)`.

    They are derived anew each time: HKDF-SHA256 (RFC 5869) in terms of HMAC, since what all keys
    share is computed once. `hmac.digest` gives the same bytes, but looks its hash up in every
    call: three times as slow.
    """

    def __init__(self, epoch: Epoch, names: KeyNames) -> None:
        self._names = names
        inner, outer = _pads_of_keys(_hmac_of_keys(epoch.id, epoch.secret))
        self._inner, self._outer = sha256(inner), sha256(outer)  # of the HMAC of all keys

    def __repr__(self) -> str:  # the key is the noise
        return "<PhaseSecrets>"

    def of(self, code: int, number: int = 0) -> PhaseNoiseSecret:
        """The secret of phase `number` of a key."""
        info = b"tidegate/1/keyed/" + self._names.names[code].encode()
        first = self._expanded(info + b"\x01")
        second = self._expanded(first + info + b"\x02")
        secret, epoch = first[:SECRET_BYTES], second[:EPOCH_BYTES]
        found = PhaseNoiseSecret(epoch, _hmac_of_keys(epoch, secret))
        if not number:
            return found
        epoch = _hmac_of_keys(found.root, b"tidegate/1/epoch/%d\x01" % number)[:EPOCH_BYTES]
        return PhaseNoiseSecret(epoch, _hmac_of_keys(epoch, secret))

    def first_keys(self, codes: IntArray, purpose: bytes, identity: bytes) -> Iterator[bytes]:
        """`of(code).key(purpose, identity)` for these keys, in 3/4 of the time of the calls.

        Fleets in lock-step need all of their first noise within a block: a third of such a tick.
        """
        names, inner_of, outer_of = self._names.names, self._inner.copy, self._outer.copy
        info = b"tidegate/1/%b/%b\x01" % (purpose, identity)
        id_inner, id_outer = (pad[EPOCH_BYTES:] for pad in _pads_of_keys(b""))
        root_inner, root_outer = (pad[sha256().digest_size :] for pad in _pads_of_keys(b""))
        for code in codes.tolist():
            name = b"tidegate/1/keyed/" + names[code].encode()
            inner, outer = inner_of(), outer_of()
            inner.update(name + b"\x01")
            outer.update(inner.digest())
            secret = outer.digest()
            inner, outer = inner_of(), outer_of()
            inner.update(secret + name + b"\x02")
            outer.update(inner.digest())
            epoch = outer.digest()[:EPOCH_BYTES]
            found = sha256(epoch.translate(_INNER) + id_inner + secret).digest()
            root = sha256(epoch.translate(_OUTER) + id_outer + found).digest()
            found = sha256(root.translate(_INNER) + root_inner + info).digest()
            yield sha256(root.translate(_OUTER) + root_outer + found).digest()

    def _expanded(self, message: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(message)
        outer.update(inner.digest())
        return outer.digest()


class KeyedNoiseDraws(NoiseDraws):
    """Draws noise where a key has a single keystream."""

    def __init__(self, epoch: Epoch, names: KeyNames, identity: bytes) -> None:
        self._secrets, self._identity = PhaseNoiseSecrets(epoch, names), identity

    def __repr__(self) -> str:  # the key is the noise
        return "<KeyedDraws>"

    def sources(self, codes: IntArray) -> Iterator[KeySource]:
        """The noise sources of these keys."""
        keys = self._secrets.first_keys(codes, b"perturb", self._identity)
        return map(KeySource.of, keys)


class GroveNoise:
    """Makes the noise of any groves of any keys."""

    def __init__(self, epoch: Epoch, names: KeyNames, law: Forest, identity: bytes) -> None:
        self._draws, self._law = KeyedNoiseDraws(epoch, names, identity), law

    def make(
        self, codes: IntArray, chunks: IntArray, groves: IntArray, carries: FloatArray
    ) -> tuple[IntArray, FloatArray]:
        """The noise of one grove for each of these keys, one row each; and the carries after it."""
        law = self._law
        size = max(1, _AT_ONCE // law.grove_leaves)
        rows: IntArray = np.empty((codes.size, law.grove_leaves), dtype=np.int64)
        following = np.empty(codes.size)
        for start in range(0, codes.size, size):
            part = slice(start, start + size)
            nodes = self._nodes(codes[part], chunks[part], groves[part])
            rows[part], following[part] = law.combine_groves(nodes, carries[part])
        return rows, following

    def _nodes(self, codes: IntArray, chunks: IntArray, groves: IntArray) -> list[IntArray]:
        law, sources = self._law, self._draws.sources(codes)
        known: dict[tuple[int, int], tuple[int, int]] = {}  # few are different
        pairs = zip(chunks.tolist(), groves.tolist(), strict=True)
        places = [known.setdefault(pair, pair) for pair in pairs]
        levels = [
            (level, law.grove_leaves // law.fanout**level, scale)
            for level, scale in enumerate(law.scales)
        ]
        return [noise.reshape(-1) for noise in self._draws.draw(sources, places, levels)]


def first_noise_words(keys: Sequence[bytes], count: int) -> NDArray[np.uint64]:
    """The first words that `Keystream.at` gives at the beginning, one row for each key."""
    blocks = _noise_counter_blocks((0, 0), [(0, count, Fraction(1))])
    texts = [KeySource.of(key).encipher(blocks) for key in keys]
    words: NDArray[np.uint64] = np.frombuffer(b"".join(texts), dtype="<u8")
    return words.reshape(len(keys), -1)[:, :count]


def _noise_counter_blocks(place: tuple[int, int], levels: Sequence[Level]) -> bytes:
    """The counter blocks of the first words of all levels; two words each."""
    chunk, tree = place
    found = []
    for level, count, _ in levels:
        high, low = struct.unpack(">QQ", counter_block(chunk=chunk, tree=tree, level=level))
        blocks = np.empty((-(-count // 2), 2), dtype=">u8")
        blocks[:, 0], blocks[:, 1] = high, low + np.arange(len(blocks), dtype=np.uint64)
        found.append(blocks.tobytes())
    return b"".join(found)
