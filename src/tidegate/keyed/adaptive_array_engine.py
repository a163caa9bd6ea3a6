"""The array engine for `adaptive`: trees, filters and noise of all keys in arrays.

    place of the open block and cell │ Kalman filters: 12 models a key │ noise of the open block
    ─────────────────────────────────────────────────────────────────────────────────────────
    about 200 bytes a key            │ 4.3 kB (stored: 1.0 to 1.5 kB)  │ 1 kB, made ahead

Rows and bits are those of `object_engine`: a law test compares them. Keys may be at
different positions; those whose cells end together are moved on together.

Privacy: values are capped next to the noise (`_close`), at the cap of the tree that was chosen for
the block before its first value, from released sums only; where values below 0 count, from the
lower end on, so that one of them moves a sum by at most the cap. Trees, caps, scales and the places
of noise are those of `AdaptiveRun`; its argument holds for every key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from tidegate.estimate import Mixture
from tidegate.estimate.mixture.many_streams.layout_tables import NO_LEAF
from tidegate.estimate.mixture.many_streams.mixture_of_many_streams import MixtureOfManyStreams
from tidegate.estimate.mixture.many_streams.units_and_leaves_of_many_streams import (
    alike_in_many_streams,
)
from tidegate.keyed.array_engine_base import ArrayEngineBase, fits_arrays
from tidegate.keyed.key_names import KeyNames
from tidegate.keyed.keyed_rows import KeyedReleased, KeyedRowGroups
from tidegate.keyed.noise_cache import TreeNoiseCache
from tidegate.keyed.noise_of_many_keys import KeyedNoiseDraws
from tidegate.lattice import FloatArray, IntArray
from tidegate.perturb import AdaptiveTrees
from tidegate.randomness import Epoch
from tidegate.run.pipeline import Pipeline
from tidegate.run.two_sided_caps import Ends, raised_values

_MADE_AHEAD = 8  # rows of a push for each block of noise that is made ahead


def fits_adaptive(pipeline: Pipeline, *, shared: bool) -> bool:
    """Whether this engine can run the pipeline."""
    return (
        fits_arrays(pipeline, shared=shared)
        and type(pipeline.perturber) is AdaptiveTrees
        and type(pipeline.estimator) is Mixture
        and pipeline.estimator.period is None
    )


class AdaptiveArrayEngine(ArrayEngineBase):
    """The adaptive release of all keys in arrays, by code."""

    KIND: ClassVar[str] = "adaptive columns"

    def __init__(
        self, pipeline: Pipeline, epoch: Epoch, names: KeyNames, ends: Ends | None
    ) -> None:
        super().__init__(pipeline, epoch, names, ends)
        (_, below), threshold, stage = self._ends, self._ends.width, pipeline.perturber
        if not isinstance(estimator := pipeline.estimator, Mixture):
            raise AssertionError("the pipeline was checked")
        widest = pipeline.ceiling + below
        self._mixture = MixtureOfManyStreams(
            threshold, estimator.allowance, stage, widest, below, estimator.caught_up
        )
        draws = KeyedNoiseDraws(epoch, names, pipeline.noise_identity(threshold, below))
        options = stage.layouts(stage.horizon, threshold, widest)
        self._noise = TreeNoiseCache(draws, max(option.leaves for option in options))
        self._total: IntArray = np.zeros(0, dtype=np.int64)  # raw: of the open leaf of each key
        self._grow()

    def __repr__(self) -> str:
        return f"<AdaptiveArrayEngine of {len(self._names)} keys>"

    @property
    def position(self) -> IntArray:  # type: ignore[override]
        """The number of released rows of each key."""
        return self._mixture.position

    def _grow(self) -> None:
        had = self.position.size
        if len(self._names) <= had:
            return
        room = self._room(had)
        self._mixture.grow(room)
        self._noise.grow(room)
        self._total = np.concatenate((self._total, np.zeros(room - had, dtype=np.int64)))
        if self.last.size:
            self._make_last()

    # -- rows ------------------------------------------------------------------------------------

    def _push_units(self, groups: KeyedRowGroups, units: IntArray) -> KeyedReleased:
        if self._ends.below:
            units = raised_values(units, self._ends.below)
        out = self._one_each(groups.codes, units) if groups.once else self._several(groups, units)
        self._in_data_unit(out.values, out.levels)
        self._make(self._noise.waiting(units.size // _MADE_AHEAD + 1))
        return out

    def _one_each(self, codes: IntArray, units: IntArray) -> KeyedReleased:
        mixture = self._mixture
        positions = mixture.position[codes]
        self._total[codes] += np.minimum(units, mixture.cap[codes])
        values = mixture.prediction[codes]
        levels = values.copy()
        self._advance(codes, np.ones(codes.size, dtype=np.int64), positions)
        ended = np.flatnonzero(mixture.filled[codes] == mixture.width[codes])
        if ended.size:
            values[ended], levels[ended] = self._close(codes[ended])
        return KeyedReleased(np.ones(codes.size, dtype=np.bool_), positions, values, levels)

    def _several(self, groups: KeyedRowGroups, units: IntArray) -> KeyedReleased:
        """Release several rows per key, in as many rounds as the busiest key has cells."""
        mixture, keys, starts = self._mixture, groups.present, groups.starts.copy()
        left = np.diff(starts, append=units.size)
        ordered = groups.by_key(units)
        positions, values, levels = (np.empty(units.size, dtype=kind) for kind in "qdd")
        counts = left.copy()
        positions[:] = np.arange(units.size) + np.repeat(mixture.position[keys] - starts, counts)
        while keys.size:
            taken = np.minimum(left, mixture.width[keys] - mixture.filled[keys])
            firsts = np.cumsum(taken) - taken
            rows = np.repeat(starts - firsts, taken) + np.arange(firsts[-1] + taken[-1])
            capped = np.minimum(ordered[rows], np.repeat(mixture.cap[keys], taken))
            self._total[keys] += np.add.reduceat(capped, firsts)
            values[rows] = levels[rows] = np.repeat(mixture.prediction[keys], taken)
            self._advance(keys, taken, mixture.position[keys])
            starts = starts + taken
            ended = np.flatnonzero(mixture.filled[keys] == mixture.width[keys])
            if ended.size:
                ends = starts[ended] - 1
                values[ends], levels[ends] = self._close(keys[ended])
            left = left - taken
            more = left > 0
            keys, starts, left = keys[more], starts[more], left[more]
        positions, values = groups.as_given(positions), groups.as_given(values)
        levels = groups.as_given(levels)
        return KeyedReleased(np.ones(units.size, dtype=np.bool_), positions, values, levels)

    def _advance(self, codes: IntArray, taken: IntArray, positions: IntArray) -> None:
        mixture = self._mixture
        if not positions.all():  # the first block of a key was chosen before it came
            self._noise.expect(codes[positions == 0])
        mixture.position[codes] = positions + taken
        mixture.filled[codes] += taken

    def _close(self, codes: IntArray) -> tuple[FloatArray, FloatArray]:
        """End cells: the values that their last rows publish, and the levels from there on."""
        mixture, noise = self._mixture, self._noise
        leaves = mixture.leaves(codes)
        closing = leaves != NO_LEAF
        done = codes[closing]
        sums: IntArray = np.zeros(codes.size, dtype=np.int64)
        if done.size:
            self._make(noise.missing(done))
            sums[closing] = self._total[done] + noise.take(done, leaves[closing])
            if self._ends.below:  # counted from the lower end next to the noise, from 0 again now
                widths = mixture.tables.leaf_widths_of(mixture.row[done], leaves[closing])
                sums[closing] -= self._ends.below * widths
            self._total[done] = 0
        before, width = mixture.prediction[codes], mixture.width[codes]
        wholes, began = mixture.end_cells(codes, sums)
        if began.size:
            noise.expect(began)
        return wholes - (width - 1) * before, mixture.prediction[codes]

    def _make(self, codes: IntArray) -> None:
        """Make the noise of open blocks, tree by tree."""
        mixture = self._mixture
        for same in alike_in_many_streams(mixture.row[codes]):
            some = codes[same]
            tree = mixture.tables.cells[int(mixture.row[some[0]])].tree
            self._noise.make(some, tree, mixture.chunk[some], mixture.number[some])

    # -- state -----------------------------------------------------------------------------------

    def drop(self, code: int) -> None:
        """Forget the state of a key; the caller keeps a tombstone."""
        self._grow()
        self._total[code] = 0
        self._mixture.begin_again(code)
        self._noise.forget(code)

    def rest(self, most: int) -> None:
        """Do nothing: arrays are small."""

    def state(self, brief: bool, start: int, end: int) -> dict[str, Any]:
        """The state to resume the keys with these codes from; noise is made again."""
        self._grow()
        return {
            "start": start,
            "raw": self._total[start:end],
            "last": self.last[start:end],
            **self._mixture.state(start, end),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore keys from a `state`."""
        self._grow()
        mine = np.arange(state["start"], state["start"] + state["position"].size)
        if not mine.size:  # public keys, and none has come yet
            return
        self._total[mine] = state["raw"]
        self._mixture.restore(mine, state)
        self._restore_last(mine, state)
        self._noise.expect(mine[state["position"] > 0])
