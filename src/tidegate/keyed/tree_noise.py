"""Noise of the open block of each key: the tree was chosen, and no value has come yet."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.keyed.grove_cache import Queue
from tidegate.keyed.noise_ahead import KeyedDraws
from tidegate.lattice import IntArray
from tidegate.perturb.adaptive.adaptive_run import consistent_rows, noise_place
from tidegate.stages import Layout

_KEY_BYTES = 32


class TreeNoise:
    """By code: the noise of the leaves of the open block, bit for bit that of a single stream.

    The keys of the keystreams are kept beside: deriving one costs more than drawing from it.
    """

    def __init__(self, draws: KeyedDraws, leaves: int) -> None:
        self._draws = draws
        self._noise: IntArray = np.zeros((0, leaves), dtype=np.int64)
        self._made: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._keys: NDArray[np.uint8] = np.zeros((0, _KEY_BYTES), dtype=np.uint8)
        self._derived: NDArray[np.bool_] = self._made
        self._waiting = Queue()

    def grow(self, room: int) -> None:
        """Room for more keys."""
        more = room - self._made.size
        for name in ("_noise", "_made", "_keys", "_derived"):
            old = getattr(self, name)
            rest = np.zeros((more, *old.shape[1:]), dtype=old.dtype)
            setattr(self, name, np.concatenate((old, rest)))

    def expect(self, codes: IntArray) -> None:
        """These keys began a block: they need its noise when its first leaf ends."""
        self._made[codes] = False
        self._waiting.add(codes)

    def waiting(self, most: int) -> IntArray:
        """Some keys that began a block and have no noise for it yet."""
        some = self._waiting.served(most)
        return some[~self._made[some]]

    def missing(self, codes: IntArray) -> IntArray:
        """Those whose noise must be made before it is taken."""
        return codes[~self._made[codes]]

    def take(self, codes: IntArray, leaves: IntArray) -> IntArray:
        """The noise of one leaf for each key; it must have been made."""
        return self._noise[codes, leaves]

    def make(self, codes: IntArray, tree: Layout, chunks: IntArray, numbers: IntArray) -> None:
        """Make the noise of blocks that are measured by the same tree, wherever they lie."""
        new = codes[~self._derived[codes]]
        if new.size:
            derived = b"".join(self._draws.keys(new))
            self._keys[new] = np.frombuffer(derived, dtype=np.uint8).reshape(-1, _KEY_BYTES)
            self._derived[new] = True
        keys = [key.tobytes() for key in self._keys[codes]]
        _, first = noise_place(tree, 0)
        places = [
            (chunk, noise_place(tree, number)[0])
            for chunk, number in zip(chunks.tolist(), numbers.tolist(), strict=True)
        ]
        levels = [
            (first + level, count, scale)
            for level, (count, scale) in enumerate(zip(tree.nodes, tree.scales, strict=True))
        ]
        nodes = [noise.reshape(-1) for noise in self._draws.draw(keys, places, levels)]
        self._noise[codes, : tree.leaves] = consistent_rows(nodes, tree, codes.size)
        self._made[codes] = True

    def forget(self, code: int) -> None:
        """A key ended: nothing of its noise is kept."""
        self._noise[code], self._keys[code] = 0, 0
        self._made[code] = self._derived[code] = False
        self._waiting.drop(code)
