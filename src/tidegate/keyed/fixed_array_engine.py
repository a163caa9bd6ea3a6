"""The array engine: state of all keys in arrays, for fixed methods with one threshold.

    position   total   prediction   carry │ noise of the open grove │ noise of the next one
    ─────────────────────────────────────────────────────────────────────────────────────────
    per key: 32 bytes                     │ 4 bytes a leaf, twice: made ahead, in the background
                                          │ of earlier pushes, since it does not depend on data

Rows and bits are those of `object_engine`: a law test compares them. The released
past goes to the sink: nothing is kept of it, so nothing can be asked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate import Recent
from tidegate.keyed.array_engine_base import ArrayEngineBase, fits_arrays
from tidegate.keyed.key_names import KeyNames
from tidegate.keyed.keyed_rows import KeyedReleased, KeyedRowGroups, KeyedSegments
from tidegate.keyed.noise_cache import GroveCache
from tidegate.keyed.noise_of_many_keys import GroveNoise
from tidegate.lattice import FloatArray, IntArray
from tidegate.perturb import Flat, Hierarchy
from tidegate.randomness import Epoch
from tidegate.run.pipeline import Pipeline
from tidegate.run.two_sided_caps import Ends

_KEPT = 16  # blocks of noise in a state: 64 bytes a key
_CLOSED_AT_ONCE = 1 << 13  # blocks: more need arrays that are mapped anew, with their page faults
_MOST_LEAVES = 1 << 14  # of a grove: beyond, a row of noise is read in several blocks


def fits_fixed_arrays(pipeline: Pipeline, *, shared: bool) -> bool:
    """Whether this engine can run the pipeline."""
    perturber = pipeline.perturber
    return (
        fits_arrays(pipeline, shared=shared)
        and not pipeline.lower
        and type(perturber) in (Hierarchy, Flat)
        and type(pipeline.estimator) is Recent
        and perturber.block > 1
        and perturber.noise_law(1).grove_leaves <= _MOST_LEAVES  # type: ignore[union-attr]
    )


class FixedArrayEngine(ArrayEngineBase):
    """All keys in arrays, indexed by code."""

    KIND: ClassVar[str] = "columns"
    PAGE: ClassVar[int] = 1024  # keys that are stored together
    STATE: ClassVar[tuple[str, ...]] = ("position", "total", "prediction", "carry", "last")

    def __init__(
        self, pipeline: Pipeline, epoch: Epoch, names: KeyNames, ends: Ends | None
    ) -> None:
        super().__init__(pipeline, epoch, names, ends)
        ends, self._block = self._ends, pipeline.perturber.block
        law: Any = pipeline.perturber.noise_law(ends.width)
        source = GroveNoise(epoch, names, law, pipeline.noise_identity(ends.width))
        self._noise = GroveCache(law, source)
        self._first = ends.width / 2  # what `Recent` predicts before anything was released
        self.position: IntArray = np.zeros(0, dtype=np.int64)
        self.total: IntArray = np.zeros(0, dtype=np.int64)
        self.prediction: FloatArray = np.zeros(0)
        self._grow()

    @property
    def carry(self) -> FloatArray:
        """The rounding carried into the open grove of each key."""
        return self._noise.carry

    def _grow(self) -> None:
        """Make room for all present keys."""
        had = self.position.size
        if len(self._names) <= had:
            return
        room = self._room(had)
        for name, first in (("position", 0), ("total", 0), ("prediction", self._first)):
            old = getattr(self, name)
            larger = np.full(room, first, dtype=old.dtype)
            larger[:had] = old
            setattr(self, name, larger)
        if self.last.size:
            self._make_last()
        self._noise.grow(room)

    # -- rows ------------------------------------------------------------------------------------

    def _push_units(self, groups: KeyedRowGroups, units: IntArray) -> KeyedReleased:
        np.minimum(units, self._ends.width, out=units)
        out = self._one_each(groups.codes, units) if groups.once else self._several(groups, units)
        # Each block needs its noise when it closes, so that many groves are made meanwhile.
        self._noise.make_ahead(-(-units.size // self._block) + 1)
        return out

    def _one_each(self, codes: IntArray, units: IntArray) -> KeyedReleased:
        if not codes.size:
            return KeyedReleased.empty(0)
        # All keys in their order, as in a tick of a whole fleet, are a slice: nothing is gathered.
        every = codes.size == self.position.size and codes[0] == 0 and codes[-1] == codes.size - 1
        keys = slice(None) if every and bool((codes[1:] > codes[:-1]).all()) else codes
        positions = self.position[keys].copy()
        self.position[keys] += 1
        self.total[keys] += units
        values = self.prediction[keys].copy()
        closing = np.flatnonzero(self._last_of_block(positions))
        if not positions.all():
            self._noise.expect(codes[positions == 0])
        levels = values.copy()
        for start in range(0, closing.size, _CLOSED_AT_ONCE):
            here = closing[start : start + _CLOSED_AT_ONCE]
            done = codes[here]
            sums = self.total[done] + self._noise.take(done, positions[here] // self._block)
            self.total[done] = 0
            values[here] = sums - (self._block - 1) * values[here]
            levels[here] = self.prediction[done] = sums / self._block
        self._in_data_unit(values, levels)
        return KeyedReleased(np.ones(codes.size, dtype=np.bool_), positions, values, levels)

    def _last_of_block(self, positions: IntArray) -> NDArray[np.bool_]:
        block = self._block
        power = not block & (block - 1)  # then several times as fast
        within = positions & (block - 1) if power else positions % block
        return np.equal(within, block - 1)

    def _several(self, groups: KeyedRowGroups, units: IntArray) -> KeyedReleased:
        """Release several rows per key, cut into pieces of blocks, key by key."""
        cut = KeyedSegments(groups, self.position, self._block)
        self._noise.expect(cut.keys[self.position[cut.keys] == 0])
        sums = np.add.reduceat(groups.by_key(units), cut.starts)
        sums[cut.first] += self.total[cut.keys]
        closes = cut.closes
        sums[closes] += self._noise.take_in_order(cut.codes[closes], cut.leaves[closes])
        following = np.where(closes, sums / self._block, 0.0)
        before = np.empty(sums.size)
        before[1:] = following[:-1]  # every piece of a key but its last closes a block
        before[cut.first] = self.prediction[cut.keys]
        after = np.where(closes, following, before)
        inside, expected = before.copy(), before.copy()
        closing, expected_then = sums - (self._block - 1) * before, following.copy()
        self._in_data_unit(inside, expected)  # piece by piece: faster than row by row
        self._in_data_unit(closing, expected_then)
        values, levels = np.repeat(inside, cut.sizes), np.repeat(expected, cut.sizes)
        ends = (cut.starts + cut.sizes - 1)[closes]
        values[ends], levels[ends] = closing[closes], expected_then[closes]
        self.total[cut.keys] = np.where(closes, 0, sums)[cut.last]
        self.prediction[cut.keys] = after[cut.last]
        self.position[cut.keys] += cut.counts
        positions = groups.as_given(cut.positions)
        values, levels = groups.as_given(values), groups.as_given(levels)
        return KeyedReleased(np.ones(units.size, dtype=np.bool_), positions, values, levels)

    # -- state -----------------------------------------------------------------------------------

    def drop(self, code: int) -> None:
        """Forget the state of a key; the caller keeps a tombstone."""
        self._grow()
        self.total[code] = self.position[code] = 0
        self.prediction[code] = self._first
        self._noise.forget(code)

    def rest(self, most: int) -> None:
        """Do nothing: arrays are small."""

    def state(self, brief: bool, start: int, end: int) -> dict[str, Any]:
        """The state to resume the keys with these codes from; noise is made again."""
        self._grow()
        return {"start": start, **{name: getattr(self, name)[start:end] for name in self.STATE}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore keys from a `state`."""
        self._grow()
        mine = np.arange(state["start"], state["start"] + state["position"].size)
        for name in ("position", "total", "prediction"):
            getattr(self, name)[mine] = state[name]
        self._restore_last(mine, state)
        began = state["position"] > 0
        closed = state["position"][began] // self._block
        self._noise.restore(mine[began], closed, state["carry"][began])

    def noise_kept(self, codes: IntArray, counts: IntArray) -> dict[str, Any]:
        """Noise for the next blocks of busy keys, for a state that is resumed soon.

        It is a function of the secret, which every state has: `restore` would make it again, a
        whole grove for each block. Where rows are few, a state is written more often than noise is
        needed, and short states are better.
        """
        codes = codes[counts * _KEPT >= self._block]
        return self._noise.kept(codes, self.position[codes] // self._block, _KEPT)

    def restore_noise(self, kept: Mapping[str, Any]) -> None:
        """Use what `noise_kept` returned, after `restore`."""
        codes = kept["codes"].astype(np.int64)
        if codes.size:
            self._noise.restore_kept(codes, self.position[codes] // self._block, kept)
