"""The state of a refined release by key, in arrays; a key is handed to a run and put back.

by key: place, θ, sums │ Kalman filters │ noise of the open block │ warm-up │ window
───────────────────────────────────────────────────────────────────────────────────────
raw values and sums are secret; the rest follows from what was released
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate import Mixture
from tidegate.keyed.key_names import Names
from tidegate.keyed.mixture_of_many_thresholds import (
    MixtureOfManyThresholds,
    WarmUpSums,
)
from tidegate.keyed.noise_cache import TreeNoise
from tidegate.keyed.noise_of_many_keys import (
    KeySource,
    PhaseDraws,
    PhaseSecret,
    PhaseSecrets,
)
from tidegate.keyed.raw_values_of_many_keys import HeldValues, WindowCounts, more
from tidegate.lattice import FloatArray, IntArray
from tidegate.perturb import AdaptiveTrees
from tidegate.randomness import Epoch
from tidegate.run.phased_run import PhaseKeys, noise_identity
from tidegate.run.pipeline import Pipeline
from tidegate.run.refinement_run import RefinementRun
from tidegate.run.refinement_shares_and_windows import EARLY_SHARE, Refinement
from tidegate.run.refinement_state import Past
from tidegate.run.two_sided_caps import Ends
from tidegate.state_as_bytes import State


def fits_refined(pipeline: Pipeline, *, shared: bool) -> bool:
    """Whether columns can run this pipeline: one-sided, without a cycle, one θ a key."""
    return (
        not shared
        and type(pipeline.reselect) is Refinement
        and pipeline.ticks is None
        and not pipeline.lower
        and not pipeline.non_negative
        and type(pipeline.perturber) is AdaptiveTrees
        and type(pipeline.estimator) is Mixture
        and pipeline.estimator.period is None
    )


class RefinedState:
    """All keys in arrays, by code. The past of a key is kept by whoever uses them (`_past`)."""

    _COUNTS: ClassVar[tuple[str, ...]] = (
        "raw", "phase", "phase_start", "evidence", "floor", "watch_cap", "watch_length"
    )  # fmt: skip
    _WATCH: ClassVar[dict[str, str]] = {
        "home": "home", "excess": "excess", "variance": "variance", "cap": "watch_cap",
        "mean": "watch_mean", "old": "watch_old", "length": "watch_length", "fair": "fair",
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

    def __init__(self, pipeline: Pipeline, epoch: Epoch, names: Names) -> None:
        trees: Any = pipeline.measurer
        self._pipeline, self._epoch, self._names, self._trees = pipeline, epoch, names, trees
        if not isinstance(pipeline.reselect, Refinement):
            raise AssertionError("the pipeline was checked")
        self._refinement = pipeline.reselect
        self._restarts = self._refinement.restarts
        self.mixture = MixtureOfManyThresholds(
            pipeline.estimator.allowance, trees, pipeline.ceiling
        )
        leaves = max(shape[-1] for shape in trees.shapes(trees.horizon))
        self._secrets = PhaseSecrets(epoch, names)
        self._draws = PhaseDraws(self._key)
        self._noise = TreeNoise(self._draws, leaves)
        self.held = HeldValues()
        self.windows = WindowCounts(pipeline.lattice.top)
        self.measuring: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)  # False: a warm-up is open
        for name in self._COUNTS:
            setattr(self, name, np.zeros(0, dtype=np.int64))
        for name in self._LEVELS:
            setattr(self, name, np.zeros(0))

    def grow(self, room: int) -> None:
        """Room for more keys, each at its beginning: with a warm-up."""
        self.mixture.grow(room)
        self._noise.grow(room)
        self.held.grow(room, self._pipeline.warm_up)
        self.windows.grow(room)
        for name in (*self._COUNTS, *self._LEVELS, "measuring"):
            setattr(self, name, more(getattr(self, name), room, int(name == "floor")))

    # -- what users of the columns keep ------------------------------------------------------------

    def _past(self, code: int) -> Past:
        """Phases and segments that a run of this key goes on with."""
        raise AssertionError("whoever uses the columns keeps the past")

    def _keep_past(self, code: int, run: RefinementRun) -> None:
        """The same after the run has gone on."""
        raise AssertionError("whoever uses the columns keeps the past")

    def _note_phases(
        self, codes: IntArray, secrets: list[PhaseSecret], warm_ups: WarmUpSums | None
    ) -> None:
        """Phases of these keys begin; with a warm-up whose sum was measured, if there was one."""
        raise AssertionError("whoever uses the columns keeps the past")

    def _note_leaves(self, codes: IntArray, sums: IntArray) -> None:
        """Leaves ended with these noisy sums."""

    def _note_blocks(self, codes: IntArray) -> None:
        """These keys began a block in the phase that they are in."""

    # -- one key ---------------------------------------------------------------------------------

    def keys_of(self, code: int) -> PhaseKeys:
        """What keys the noise of a key."""
        return PhaseKeys(self._pipeline, self._epoch.of_key(self._names.names[code]), 0)

    def _key(self, code: int) -> bytes:
        """What keys the noise of the present phase of a key."""
        part, theta = int(self.mixture.part[code]), int(self.mixture.threshold[code])
        identity = self._blocks_identity(theta, int(self.phase_start[code]), part)
        return self._secrets.of(code, int(self.phase[code])).key(b"perturb", identity)

    def _blocks_identity(self, theta: int, start: int, part: int) -> bytes:
        """All that decides about the noise of the blocks of a phase that began here."""
        share = 1 - self._trees.blocks[part]
        return noise_identity(self._pipeline, Ends(theta), start, share=str(share))

    def _watch(self, code: int) -> dict[str, Any]:
        """`CapWatch` of a key, as plain data."""
        found = {name: getattr(self, column)[code].item() for name, column in self._WATCH.items()}
        return {**found, "threshold": int(self.mixture.threshold[code])}

    def run(self, code: int) -> RefinementRun:
        """A run at the place of a key."""
        run = RefinementRun(self.keys_of(code), state=self.progress(code), past=self._past(code))
        if self.measuring[code]:
            perturber = run.open_blocks.perturber
            drawn = self._noise.of_block(code, perturber.tree.leaves)
            if drawn is not None:
                perturber.take_noise(drawn)
        return run

    def progress(self, code: int) -> dict[str, Any]:
        """What `RefinementRun.progress` would give for a key."""
        mixture, measuring = self.mixture, bool(self.measuring[code])
        held, phase, window = int(self.held.count[code]), int(self.phase[code]), None
        if self.windows.size[code]:
            part = self._trees.blocks[int(mixture.part[code])]
            window = {
                "early": 1 - part == EARLY_SHARE,
                "values": int(self.windows.size[code]),
                "taken": int(self.windows.taken[code]),
                "counts": self.windows.counts(code),
            }
        estimator = None
        if measuring or phase:
            estimator = mixture.stream_state(code, held=held, measuring=measuring)
        return {
            "number": phase,
            "position": int(mixture.position[code]),
            "start": int(self.phase_start[code]),
            "warm_up_start": int(mixture.warm_up_start[code]),
            "evidence": int(self.evidence[code]),
            "floor": int(self.floor[code]),
            "prediction": float(self.published[code]),
            "held": None if measuring else self.held.of(code),
            "window": window,
            "watch": self._watch(code),
            "estimator": estimator,
            "level": float(mixture.level[code]),
            "blocks": self._block(code) if measuring else None,
        }

    def _block(self, code: int) -> dict[str, Any]:
        """`RefinementTreesRun.state` of a key."""
        mixture = self.mixture
        cells = mixture.tables.cells[int(mixture.row[code])]
        leaf, begun = int(mixture.cell[code]) // cells.per_leaf, int(mixture.begun[code])
        return {
            "chunk": int(mixture.chunk[code]),
            "number": int(mixture.number[code]),
            "choice": int(mixture.choice[code]),
            "leaf": leaf,
            "total": int(self.raw[code]),
            "filled": int(mixture.position[code]) - begun - cells.tree.edge(leaf),
            "position": begun,
        }

    def put_back(self, code: int, run: RefinementRun) -> None:
        """Let a key be where a run is: in a warm-up, or at the beginning of a leaf."""
        state, mixture = run.progress(), self.mixture
        self.phase[code], self.phase_start[code] = state["number"], state["start"]
        self.evidence[code], self.floor[code] = state["evidence"], state["floor"]
        self.published[code] = state["prediction"]
        watch, blocks = state["watch"], state["blocks"]
        for name, column in self._WATCH.items():
            getattr(self, column)[code] = watch[name]
        mixture.restore_stream(
            code,
            state["estimator"],  # None: in the first warm-up
            threshold=watch["threshold"],
            position=state["position"],
            warm_up_start=state["warm_up_start"],
        )
        self.raw[code] = 0
        self.held.wipe(code)
        self.windows.wipe(code)
        self.measuring[code] = blocks is not None
        if blocks is None:
            held = state["held"]
            self.held.begin(code, run.warming + held.size)
            if held.size:
                self.held.add(np.array([code]), np.array([held.size]), held)
            mixture.prediction[code], mixture.filled[code] = state["prediction"], 0
            self._noise.change(code, None)
        else:
            opened = run.open_blocks
            perturber, window = opened.perturber, opened.window
            if window is not None:
                candidates = window.stage.candidates(self._pipeline.lattice)
                self.windows.begin(code, window.values, candidates, state["window"])
            mixture.restore_block(code, perturber.part, blocks, state["level"])
            self._noise.change(code, KeySource.of(perturber.keystream.key))
            self._noise.expect(np.array([code]))
        self._keep_past(code, run)

    def finish(self, code: int) -> None:
        """End the open warm-up of a key from the values that came; nothing if none have."""
        if not self.measuring[code] and self.held.count[code]:
            run = self.run(code)
            run.finish()
            self.put_back(code, run)

    def drop(self, code: int) -> None:
        """Forget a key."""
        self.mixture.begin_again(code)
        self._noise.forget(code)
        self.held.wipe(code)
        self.held.begin(code, self._pipeline.warm_up)
        self.windows.wipe(code)
        for name in (*self._COUNTS, *self._LEVELS, "measuring"):
            getattr(self, name)[code] = int(name == "floor")

    # -- state -----------------------------------------------------------------------------------

    def state(self, start: int, end: int) -> dict[str, NDArray[np.generic]]:
        """All that is needed to continue these keys; the noise is made again."""
        held = [np.zeros(0, dtype=np.int64), *map(self.held.of, range(start, end))]
        return {
            **{name: getattr(self, name)[start:end] for name in (*self._COUNTS, *self._LEVELS)},
            "measuring": self.measuring[start:end].astype(np.int8),
            "held size": self.held.size[start:end],
            "held count": self.held.count[start:end],
            "held": np.concatenate(held),
            **self.windows.state(start, end),
            **self.mixture.state(start, end),
        }

    def restore(self, codes: IntArray, state: State) -> None:
        """Continue keys of a `state`."""
        for name in (*self._COUNTS, *self._LEVELS, "measuring"):
            getattr(self, name)[codes] = state[name]
        self.mixture.restore(codes, state)
        self.windows.restore(codes, state)
        self.held.size[codes], counts = state["held size"], state["held count"]
        some = counts > 0
        if some.any():
            self.held.add(codes[some], counts[some], state["held"])
        measuring = codes[self.measuring[codes]]
        self.mixture.restore_places(measuring)
        self._noise.expect(measuring)
