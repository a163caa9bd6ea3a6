"""Noise of many keys that is drawn before their values come.

For fixed methods it holds the open grove of each key, and the next one if it was made ahead; for
`adaptive` the open block, whose tree was chosen.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.keyed.noise_of_many_keys import GroveNoise, KeySource, NoiseDraws
from tidegate.keyed.waiting_keys import WaitingKeys
from tidegate.lattice import FloatArray, IntArray
from tidegate.perturb.adaptive.adaptive_run import adaptive_noise_place, consistent_adaptive_rows
from tidegate.perturb.forest_geometry import Forest
from tidegate.stages import Layout
from tidegate.state_as_bytes import State

_SMALL, _ROOM = np.iinfo(np.int32), 32
_NONE = np.zeros(0, dtype=np.int64)


class GroveCache:
    """The open grove of each code, the rounding carried into it, the noise of its leaves.

    Even groves have one table and odd ones another, so nothing is moved when the next grove opens:
    keys in lock-step all do in one tick. Memory that is only zeros is not touched.

    Noise takes 32 bits a leaf if 32 times its public scale fits: the length of a sealed state can
    be seen. It is never clipped: all takes 64 from the first leaf on that needs them (e⁻³²).
    """

    def __init__(self, law: Forest, source: GroveNoise) -> None:
        self._law, self._source = law, source
        self._leaves = law.grove_leaves
        self._a_chunk = -(-law.leaves // self._leaves)  # groves of a horizon
        self.carry: FloatArray = np.zeros(0)
        self._grove: IntArray = _NONE  # that is open, counted over all horizons
        kind = np.int32 if _ROOM * max(law.scales) <= _SMALL.max else np.int64
        self._noise: NDArray[np.signedinteger] = np.zeros((2, 0, self._leaves), dtype=kind)
        self._carries: FloatArray = np.zeros((2, 0))  # after the open grove, and after the next
        self._made: NDArray[np.int8] = np.zeros(0, dtype=np.int8)  # groves: 0, 1 or 2
        self._kept: IntArray = _NONE  # of the open grove, if it is not made: leaves known anyway
        self._waiting = (
            WaitingKeys(),
            WaitingKeys(),
        )  # codes that lack their open grove, or their next one

    def grow(self, room: int) -> None:
        """Make room for more keys."""
        more = room - self.carry.size
        for name in ("carry", "_grove", "_kept", "_made", "_carries"):
            old = getattr(self, name)
            rest = np.zeros((*old.shape[:-1], more), dtype=old.dtype)
            setattr(self, name, np.concatenate((old, rest), axis=-1))
        tables = np.zeros((2, room, self._leaves), dtype=self._noise.dtype)
        tables[:, : room - more] = self._noise
        self._noise = tables

    def expect(self, codes: IntArray) -> None:
        """Expect noise for new keys when their first block closes."""
        self._waiting[0].add(codes)

    def make_ahead(self, blocks: int) -> None:
        """Make noise ahead, after rows that fill `blocks` blocks.

        A key needs its open grove within a block, and the next within a grove: never do all keys
        need noise at once that is not there. Next groves wait while a fleet begins; one that is
        still not there when it opens waits as an open one.
        """
        some = self._waiting[0].served(blocks)
        self._make_open(some[self._made[some] == 0])
        some = self._waiting[1].served(min(2 + 2 * blocks // self._leaves, blocks - some.size))
        self._make_next(some[self._made[some] == 1])

    def take(self, codes: IntArray, leaves: IntArray) -> IntArray:
        """The noise of the next leaf of each of these distinct keys."""
        at, where = self._in_grove(leaves), _cached_in_a_row(codes)
        self._make_open(codes[self._lacks(where, at)])
        found: IntArray = self._noise[self._grove[where] & 1, codes, at].astype(np.int64)
        ended = (at == self._leaves - 1) | ((leaves + 1) % self._law.leaves == 0)
        self._switch(codes[ended])
        return found

    def take_in_order(self, codes: IntArray, leaves: IntArray) -> IntArray:
        """The noise of several leaves of each key, key by key in order."""
        found: IntArray = np.empty(codes.size, dtype=np.int64)
        chunk, leaf = np.divmod(leaves, self._law.leaves)
        groves = chunk * self._a_chunk + leaf // self._leaves
        waiting = np.arange(codes.size)
        while waiting.size:
            open_now = groves[waiting] == self._grove[codes[waiting]]
            here, waiting = waiting[open_now], waiting[~open_now]
            keys = codes[here]
            at = self._in_grove(leaves[here])
            lacking = keys[self._lacks(keys, at)]
            self._make_open(np.unique(lacking) if lacking.size else lacking)
            found[here] = self._noise[self._grove[keys] & 1, keys, at]
            ended = (at == self._leaves - 1) | ((leaves[here] + 1) % self._law.leaves == 0)
            self._switch(keys[ended])
        return found

    def _lacks(self, codes: IntArray | slice, at: IntArray) -> NDArray[np.bool_]:
        return np.equal(self._made[codes], 0) & (at >= self._kept[codes])

    def _in_grove(self, leaves: IntArray) -> IntArray:
        return leaves % self._law.leaves % self._leaves

    def _switch(self, codes: IntArray) -> None:
        """Open the next grove of these keys."""
        if not codes.size:
            return
        where = _cached_in_a_row(codes)
        groves = self._grove[where] + 1
        made = self._made[where] - 1
        self.carry[where] = self._carried(where, groves)
        self._grove[where], self._made[where], self._kept[where] = groves, made, 0
        ready = codes[made == 1]
        where = _cached_in_a_row(ready)
        self._carries[0, where] = self._carries[1, where]
        self._waiting[0].add(codes[made == 0])
        self._waiting[1].add(ready)

    def _make_open(self, codes: IntArray) -> None:
        if codes.size:
            self._carries[0, codes] = self._put(codes, self._grove[codes], self.carry[codes])
            self._made[codes] = 1
            self._waiting[1].add(codes)

    def _make_next(self, codes: IntArray) -> None:
        if codes.size:
            groves = self._grove[codes] + 1
            self._carries[1, codes] = self._put(codes, groves, self._carried(codes, groves))
            self._made[codes] = 2

    def _carried(self, codes: IntArray | slice, groves: IntArray) -> FloatArray:
        """The carries into the next groves; 0 where a horizon begins."""
        return np.where(groves % self._a_chunk == 0, 0.0, self._carries[0, codes])

    def _put(self, codes: IntArray, groves: IntArray, carries: FloatArray) -> FloatArray:
        """Make the noise of these groves, and their carries."""
        rows, following = self._source.make(codes, *np.divmod(groves, self._a_chunk), carries)
        self._widen(rows)
        self._noise[groves & 1, codes] = rows
        return following

    def _widen(self, rows: IntArray) -> None:
        """Change to 64 bits for all noise, from the first leaf that needs them."""
        small = self._noise.dtype == np.int32
        if small and rows.size and (rows.min() < _SMALL.min or rows.max() > _SMALL.max):
            self._noise = self._noise.astype(np.int64)

    def forget(self, code: int) -> None:
        """A key ended."""
        self._noise[:, code] = 0
        self._made[code] = self._grove[code] = self._kept[code] = 0
        self.carry[code], self._carries[:, code] = 0.0, 0.0
        for queue in self._waiting:
            queue.drop(code)

    def restore(self, codes: IntArray, closed: IntArray, carry: FloatArray) -> None:
        """Restore keys that have closed this many blocks each; their noise is made again, ahead."""
        chunk, leaf = np.divmod(closed, self._law.leaves)
        self._grove[codes] = chunk * self._a_chunk + leaf // self._leaves
        self.carry[codes] = carry
        self._made[codes] = self._kept[codes] = 0
        self.expect(codes)

    def kept(self, codes: IntArray, closed: IntArray, most: int) -> dict[str, NDArray[np.generic]]:
        """The noise at hand for the next leaves of these keys, at most `most` for each.

        Never for the last leaf of a grove: what is carried on is known when the grove is made.
        """
        at, left = self._in_grove(closed), self._law.leaves - closed % self._law.leaves
        last = np.minimum(self._leaves, at + left) - 1
        counts = np.where(self._made[codes] > 0, last, self._kept[codes]) - at
        some = counts > 0
        codes, at, counts = codes[some], at[some], np.minimum(counts[some], most)
        noise = self._noise[self._places(codes, at, counts)]
        return {"codes": codes.astype(np.int32), "counts": counts.astype(np.int16), "noise": noise}

    def restore_kept(self, codes: IntArray, closed: IntArray, kept: State) -> None:
        """Use what `kept` returned, for keys restored at the same place."""
        at, counts = self._in_grove(closed), kept["counts"].astype(np.int64)
        self._widen(kept["noise"])
        self._noise[self._places(codes, at, counts)] = kept["noise"]
        self._kept[codes] = at + counts
        self._waiting[0].drop(codes)

    def _places(self, codes: IntArray, at: IntArray, counts: IntArray) -> tuple[IntArray, ...]:
        """The indices of the noise of this many leaves of each key's open grove, from `at` on."""
        halves = self._grove[codes] & 1
        return np.repeat(halves, counts), np.repeat(codes, counts), _cached_ranges(at, counts)


def _cached_in_a_row(codes: IntArray) -> IntArray | slice:
    """These codes as a slice if they follow each other, as in a tick of a whole fleet: nothing is
    gathered then.
    """
    if not codes.size or codes[-1] - codes[0] != codes.size - 1 or (np.diff(codes) != 1).any():
        return codes
    return slice(int(codes[0]), int(codes[-1]) + 1)


def _cached_ranges(starts: IntArray, counts: IntArray) -> IntArray:
    """starts[0], starts[0] + 1, … (counts[0] of them), starts[1], …"""
    found: IntArray = np.repeat(starts - np.cumsum(counts) + counts, counts)
    found += np.arange(found.size)
    return found


class TreeNoiseCache:
    """Noise of the leaves of each key's open block, bit for bit that of a single stream.

    What draws it is kept beside (1 kB a key): making that costs more than drawing from it.
    """

    def __init__(self, draws: NoiseDraws, leaves: int) -> None:
        self._draws = draws
        self._noise: IntArray = np.zeros((0, leaves), dtype=np.int64)
        self._made: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._sources: list[KeySource | None] = []
        self._waiting = WaitingKeys()

    def grow(self, room: int) -> None:
        """Make room for more keys."""
        more = room - self._made.size
        self._sources += [None] * more
        for name in ("_noise", "_made"):
            old = getattr(self, name)
            rest = np.zeros((more, *old.shape[1:]), dtype=old.dtype)
            setattr(self, name, np.concatenate((old, rest)))

    def expect(self, codes: IntArray) -> None:
        """Expect noise for keys that began a block, when its first leaf ends."""
        self._made[codes] = False
        self._waiting.add(codes)

    def change(self, code: int, source: KeySource | None) -> None:
        """Take the noise of a key from this source from now on."""
        self._sources[code] = source

    def waiting(self, most: int) -> IntArray:
        """Some keys with a new block that has no noise yet."""
        some = self._waiting.served(most)
        return some[~self._made[some]]

    def missing(self, codes: IntArray) -> IntArray:
        """Keys whose noise must be made before it can be taken."""
        return codes[~self._made[codes]]

    def take(self, codes: IntArray, leaves: IntArray) -> IntArray:
        """The noise of one leaf for each key; it must have been made."""
        return self._noise[codes, leaves]

    def of_block(self, code: int, leaves: int) -> IntArray | None:
        """The noise of a key's open block; None: not made yet."""
        return self._noise[code, :leaves].copy() if self._made[code] else None

    def make(self, codes: IntArray, tree: Layout, chunks: IntArray, numbers: IntArray) -> None:
        """Make the noise of blocks with the same tree, at any places."""
        sources = self._sources_of(codes)
        _, first = adaptive_noise_place(tree, 0)
        trees = {
            number: adaptive_noise_place(tree, number)[0] for number in np.unique(numbers).tolist()
        }
        places = [
            (chunk, trees[number])
            for chunk, number in zip(chunks.tolist(), numbers.tolist(), strict=True)
        ]
        levels = [
            (first + level, count, scale)
            for level, (count, scale) in enumerate(zip(tree.nodes, tree.scales, strict=True))
        ]
        nodes = [noise.reshape(-1) for noise in self._draws.draw(sources, places, levels)]
        self._noise[codes, : tree.leaves] = consistent_adaptive_rows(nodes, tree, codes.size)
        self._made[codes] = True

    def _sources_of(self, codes: IntArray) -> list[KeySource]:
        known = self._sources
        new = [code for code in codes.tolist() if known[code] is None]
        made = self._draws.sources(np.array(new, dtype=np.int64))
        for code, source in zip(new, made, strict=True):
            known[code] = source
        return [source for code in codes.tolist() if (source := known[code]) is not None]

    def forget(self, code: int) -> None:
        """Forget the noise of a key that ended."""
        self._noise[code] = 0
        self._made[code] = False
        self._sources[code] = None
        self._waiting.drop(code)
