"""The state of a refined release by key, in arrays.

by key: place, θ, sums │ Kalman filters │ noise of the open block │ warm-up │ window
───────────────────────────────────────────────────────────────────────────────────────
raw values and sums are secret; the rest follows from what was released
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate import Mixture
from tidegate.keyed.key_names import KeyNames
from tidegate.keyed.lower_ends import LowerEnds
from tidegate.keyed.mixture_of_many_thresholds import (
    MixtureOfManyThresholds,
    WarmUpSumsOfMixtures,
)
from tidegate.keyed.noise_cache import TreeNoiseCache
from tidegate.keyed.noise_of_many_keys import (
    PhaseNoiseDraws,
    PhaseNoiseSecrets,
    SecretsOfPhases,
)
from tidegate.keyed.raw_values_of_many_keys import HeldRawValues, with_room_for_keys
from tidegate.keyed.window_counts_of_many_keys import TwoSidedWindowCounts, WindowCounts
from tidegate.lattice import FloatArray, IntArray
from tidegate.perturb import AdaptiveTrees
from tidegate.randomness import Epoch
from tidegate.run.pipeline import Pipeline
from tidegate.run.refinement_run import RefinementRun
from tidegate.run.refinement_schedule import Refinement
from tidegate.run.refinement_state import Past
from tidegate.state_as_bytes import State


def refined_state_fits(pipeline: Pipeline, *, shared: bool) -> bool:
    """Whether arrays can run this pipeline: no cycle, one θ per key."""
    return (
        not shared
        and type(pipeline.reselect) is Refinement
        and pipeline.ticks is None
        and not pipeline.non_negative
        and type(pipeline.perturber) is AdaptiveTrees
        and type(pipeline.estimator) is Mixture
        and pipeline.estimator.period is None
    )


class RefinedState:
    """All keys in arrays, indexed by code. A subclass keeps the past of each key (`_past`)."""

    _COUNTS: ClassVar[tuple[str, ...]] = (
        "raw", "phase", "phase_start", "evidence", "floor", "watch_cap", "watch_length",
        "watch_highest",
    )  # fmt: skip
    _WATCH: ClassVar[dict[str, str]] = {
        "home": "home", "excess": "excess", "variance": "variance", "cap": "watch_cap",
        "mean": "watch_mean", "old": "watch_old", "length": "watch_length", "fair": "fair",
        "highest": "watch_highest",
    }  # fmt: skip
    _LEVELS: ClassVar[tuple[str, ...]] = (
        "published", "home", "excess", "variance", "watch_mean", "watch_old", "fair"
    )  # fmt: skip

    raw: IntArray  # sum of the open leaf
    phase: IntArray
    phase_start: IntArray
    evidence: IntArray
    floor: IntArray
    watch_cap: IntArray  # these as in `CapWatch`
    watch_mean: FloatArray
    published: FloatArray  # what the phase began with
    home: FloatArray  # these as in `CapWatch`
    excess: FloatArray
    variance: FloatArray
    fair: FloatArray
    watch_old: FloatArray
    watch_length: IntArray
    watch_highest: IntArray

    def __init__(self, pipeline: Pipeline, epoch: Epoch, names: KeyNames) -> None:
        trees: Any = pipeline.measurer
        self._pipeline, self._epoch, self._names, self._trees = pipeline, epoch, names, trees
        estimator = pipeline.estimator
        if not isinstance(pipeline.reselect, Refinement) or not isinstance(estimator, Mixture):
            raise AssertionError("the pipeline was checked")
        self._refinement = pipeline.reselect
        self._restarts = self._refinement.restarts
        self.mixture = MixtureOfManyThresholds(
            estimator.allowance, trees, pipeline.ceiling, estimator.caught_up
        )
        leaves = max(shape[-1] for shape in trees.shapes(trees.horizon))
        self._secrets = PhaseNoiseSecrets(epoch, names)
        self._draws = PhaseNoiseDraws(self._key)
        self._noise = TreeNoiseCache(self._draws, leaves)
        self.held = HeldRawValues()
        lattice = pipeline.lattice
        self.lower = LowerEnds() if lattice.bottom else None  # where values below 0 count
        self.windows = (
            WindowCounts(lattice) if self.lower is None else TwoSidedWindowCounts(lattice)
        )
        self.measuring: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)  # False: a warm-up is open
        for name in self._COUNTS:
            setattr(self, name, np.zeros(0, dtype=np.int64))
        for name in self._LEVELS:
            setattr(self, name, np.zeros(0))

    def grow(self, room: int) -> None:
        """Make room for more keys, each at the beginning of a warm-up."""
        self.mixture.grow(room)
        self._noise.grow(room)
        self.held.grow(room, self._pipeline.warm_up)
        self.windows.grow(room)
        if self.lower is not None:
            self.lower.grow(room)
        for name in (*self._COUNTS, *self._LEVELS, "measuring"):
            setattr(self, name, with_room_for_keys(getattr(self, name), room, int(name == "floor")))

    # -- what users of the columns keep ------------------------------------------------------------

    def _past(self, code: int) -> Past:
        """The phases and segments to resume a run of this key from."""
        raise AssertionError("whoever uses the columns keeps the past")

    def _keep_past(self, code: int, run: RefinementRun) -> None:
        """Keep the phases and segments of a run of this key."""
        raise AssertionError("whoever uses the columns keeps the past")

    def _note_phases(
        self, codes: IntArray, secrets: SecretsOfPhases, warm_ups: WarmUpSumsOfMixtures | None
    ) -> None:
        """Note new phases of these keys, each with its measured warm-up if there was one."""
        raise AssertionError("whoever uses the columns keeps the past")

    def _note_leaves(self, codes: IntArray, sums: IntArray) -> None:
        """Note the noisy sums of ended leaves."""

    def _note_blocks(self, codes: IntArray) -> None:
        """Note that these keys began a block in their present phase."""

    def _key(self, code: int) -> bytes:
        """The noise key of a key's present phase."""
        raise AssertionError("`refined_key_runs` knows")

    def drop(self, code: int) -> None:
        """Forget a key."""
        self.mixture.begin_again(code)
        self._noise.forget(code)
        self.held.wipe(code)
        self.held.begin(code, self._pipeline.warm_up)
        self.windows.wipe(code)
        if self.lower is not None:
            self.lower.drop(code)
        for name in (*self._COUNTS, *self._LEVELS, "measuring"):
            getattr(self, name)[code] = int(name == "floor")

    # -- state -----------------------------------------------------------------------------------

    def state(self, start: int, end: int) -> dict[str, NDArray[np.generic]]:
        """The state to resume these keys from; noise is made again."""
        held = [np.zeros(0, dtype=np.int64), *map(self.held.of, range(start, end))]
        return {
            **{name: getattr(self, name)[start:end] for name in (*self._COUNTS, *self._LEVELS)},
            "measuring": self.measuring[start:end].astype(np.int8),
            "held size": self.held.size[start:end],
            "held count": self.held.count[start:end],
            "held": np.concatenate(held),
            **self.windows.state(start, end),
            **({} if self.lower is None else self.lower.state(start, end)),
            **({} if self.lower is None else {"below": self.mixture.below[start:end]}),
            **self.mixture.state(start, end),
        }

    def restore(self, codes: IntArray, state: State) -> None:
        """Restore keys from a `state`."""
        state = {"watch_highest": 0, **state}  # states before 0135 have none
        for name in (*self._COUNTS, *self._LEVELS, "measuring"):
            getattr(self, name)[codes] = state[name]
        self.mixture.restore(codes, state)
        if self.lower is not None:
            self.lower.restore(codes, state)
            self.mixture.below[codes] = state["below"]
        self.windows.restore(codes, state)
        self.held.size[codes], counts = state["held size"], state["held count"]
        some = counts > 0
        if some.any():
            self.held.add(codes[some], counts[some], state["held"])
        measuring = codes[self.measuring[codes]]
        self.mixture.restore_places(measuring)
        self._noise.expect(measuring)
