"""The noise of many keys at once: bit for bit what each key's own stream would draw.

Noise does not depend on data, so it may be made before it is needed.
"""

from __future__ import annotations

import hmac
from fractions import Fraction

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from tidegate.keyed.names import Names
from tidegate.lattice import FloatArray, IntArray
from tidegate.noise.discrete_laplace import discrete_laplace, discrete_laplace_rows
from tidegate.perturb.forest import Forest
from tidegate.randomness import EPOCH_BYTES, SECRET_BYTES, Epoch, Keystream, counter_block

_HASH = "sha256"
_AT_ONCE = 1 << 18  # draws of one level


class KeyedDraws:
    """Draws the noise of any nodes of any keys.

    The secret of a key is derived anew each time, as `Epoch.of_key(key).keystream("perturb", …)`
    does: HKDF-SHA256 (RFC 5869) in terms of HMAC, since what all keys share is computed once.
    """

    def __init__(self, epoch: Epoch, names: Names, identity: bytes) -> None:
        self._names = names
        self._extracted = hmac.digest(epoch.id, epoch.secret, _HASH)
        self._info = b"tidegate/1/perturb/" + identity + b"\x01"

    def __repr__(self) -> str:  # the key is the noise
        return "<KeyedDraws>"

    def draw(
        self,
        keys: list[bytes],
        places: list[tuple[int, int]],
        level: int,
        count: int,
        scale: Fraction,
    ) -> IntArray:
        """`count` draws for each of these keys, at its place (chunk and tree); a row for each."""
        zeros = bytes(8 * count)
        begins = {
            (chunk, tree): modes.CTR(counter_block(chunk=chunk, tree=tree, level=level))
            for chunk, tree in set(places)
        }
        texts = [
            Cipher(algorithms.AES256(key), begins[place]).encryptor().update(zeros)
            for key, place in zip(keys, places, strict=True)
        ]
        words: NDArray[np.uint64] = np.frombuffer(b"".join(texts), dtype="<u8")
        noise, others = discrete_laplace_rows(words.reshape(-1, count), scale)
        for row in others.tolist():
            chunk, tree = places[row]
            source = Keystream(keys[row]).at(chunk=chunk, tree=tree, level=level)
            noise[row] = discrete_laplace(source, count, scale)
        return noise

    def keys(self, codes: IntArray) -> list[bytes]:
        """The keys of the keystreams of these keys' noise."""
        return [self._key(name) for name in map(self._names.names.__getitem__, codes.tolist())]

    def _key(self, name: str) -> bytes:
        info = b"tidegate/1/keyed/" + name.encode()
        first = hmac.digest(self._extracted, info + b"\x01", _HASH)
        second = hmac.digest(self._extracted, first + info + b"\x02", _HASH)
        secret, salt = first[:SECRET_BYTES], second[:EPOCH_BYTES]
        return hmac.digest(hmac.digest(salt, secret, _HASH), self._info, _HASH)


class GroveNoise:
    """Makes the noise of any groves of any keys."""

    def __init__(self, epoch: Epoch, names: Names, law: Forest, identity: bytes) -> None:
        self._draws, self._law = KeyedDraws(epoch, names, identity), law

    def make(
        self, codes: IntArray, chunks: IntArray, groves: IntArray, carries: FloatArray
    ) -> tuple[IntArray, FloatArray]:
        """Noise of one grove for each of these keys, a row for each; and the carries after it."""
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
        law, keys = self._law, self._draws.keys(codes)
        places = list(zip(chunks.tolist(), groves.tolist(), strict=True))
        counts = [law.grove_leaves // law.fanout**level for level in range(len(law.scales))]
        return [
            self._draws.draw(keys, places, level, counts[level], scale).reshape(-1)
            for level, scale in enumerate(law.scales)
        ]
