"""One key of a refined release in arrays, converted to a `RefinementRun` and back.

A run takes what is rare: ends of warm-ups and windows, and leaves that outgrow an end.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tidegate.estimate.mixture.many_streams.units_and_leaves_of_many_streams import grouped_streams
from tidegate.estimate.mixture.outgrown_cap import CapWatch
from tidegate.keyed.noise_of_many_keys import KeySource
from tidegate.keyed.refined_state import RefinedState
from tidegate.keyed.window_counts_of_many_keys import TwoSidedWindowCounts
from tidegate.lattice import FloatArray, IntArray
from tidegate.run.first_choice_and_climbs import (
    CLIMBING,
    chose_first,
    refinement_climbs_from,
)
from tidegate.run.phased_run import PhaseKeys, phase_noise_identity
from tidegate.run.refinement_run import RefinementRun
from tidegate.run.selection_counts import facts_of_share
from tidegate.run.two_sided_caps import Ends
from tidegate.state_as_bytes import State
from tidegate.threshold import TailQuantile
from tidegate.threshold.least_threshold import MOSTLY_ZERO, how_fallen_threshold


class RefinedKeyRuns(RefinedState):
    """All keys in arrays, indexed by code, each available as a run."""

    def keys_of(self, code: int) -> PhaseKeys:
        """The noise keys of a key."""
        return PhaseKeys(self._pipeline, self._epoch.of_key(self._names.names[code]), 0)

    def _key(self, code: int) -> bytes:
        """The noise key of a key's present phase."""
        share, start = 1 - self._trees.blocks[self.mixture.part[code]], int(self.phase_start[code])
        identity = phase_noise_identity(self._pipeline, self.ends(code), start, share=str(share))
        return self._secrets.of(code, int(self.phase[code])).key(b"perturb", identity)

    def ends(self, code: int) -> Ends:
        """Both caps of a key."""
        below = int(self.mixture.below[code])
        return Ends(int(self.mixture.threshold[code]) - below, below)

    def _watch(self, code: int) -> dict[str, Any]:
        """The `CapWatch` of a key, as plain data."""
        found = {name: getattr(self, column)[code].item() for name, column in self._WATCH.items()}
        found["threshold"] = self.ends(code).above
        return {name: found[name] for name in CapWatch.STATE}

    def run(self, code: int) -> RefinementRun:
        """A run with the state of a key."""
        run = RefinementRun(self.keys_of(code), state=self.progress(code), past=self._past(code))
        if self.measuring[code]:
            perturber = run.open_blocks.perturber
            drawn = self._noise.of_block(code, perturber.tree.leaves)
            if drawn is not None:
                perturber.take_noise(drawn)
        return run

    def progress(self, code: int) -> dict[str, Any]:
        """`RefinementRun.progress` for a key."""
        mixture, measuring = self.mixture, bool(self.measuring[code])
        held, phase, window = int(self.held.count[code]), int(self.phase[code]), None
        if self.windows.size[code]:
            part = self._trees.blocks[int(mixture.part[code])]
            window = {
                **facts_of_share(1 - part),
                "values": int(self.windows.size[code]),
                "taken": int(self.windows.taken[code]),
                "counts": self.windows.counts(code),
            }
            if isinstance(self.windows, TwoSidedWindowCounts):
                window["outside"] = self.windows.outside(code)
        signed = {}
        if self.lower is not None:
            signed["signed"] = self.lower.of(code, self.ends(code).below)
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
            **signed,
            "held": None if measuring else self.held.of(code),
            "window": window,
            "watch": self._watch(code),
            "estimator": estimator,
            "level": float(mixture.level[code]),
            "blocks": self._block(code) if measuring else None,
        }

    def _block(self, code: int) -> dict[str, Any]:
        """`RefinementTreesRun.state` for a key."""
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
        """Set a key to the state of a run, in a warm-up or at the beginning of a leaf."""
        state, mixture = run.progress(), self.mixture
        self.phase[code], self.phase_start[code] = state["number"], state["start"]
        self.evidence[code], self.floor[code] = state["evidence"], state["floor"]
        self.published[code] = state["prediction"]
        watch, blocks, below = state["watch"], state["blocks"], 0
        if self.lower is not None:
            self.lower.put(code, state["signed"])
            below = state["signed"]["watch"]["threshold"]
        for name, column in self._WATCH.items():
            getattr(self, column)[code] = watch[name]
        mixture.restore_stream(
            code,
            state["estimator"],  # None: in the first warm-up
            threshold=watch["threshold"] + below,
            position=state["position"],
            warm_up_start=state["warm_up_start"],
        )
        self.raw[code], mixture.below[code] = 0, below
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
                self._put_back_window(code, window.stage, state["window"])
            mixture.restore_block(code, perturber.part, blocks, state["level"])
            self._noise.change(code, KeySource.of(perturber.keystream.key))
            self._noise.expect(np.array([code]))
        self._keep_past(code, run)

    def _put_back_window(self, code: int, stage: TailQuantile, known: State) -> None:
        lattice = self._pipeline.lattice
        if isinstance(self.windows, TwoSidedWindowCounts):
            facts = stage.holdout, stage.candidates(lattice.scale), known, stage.extrapolation
            self.windows.begin_two_sided(code, *facts)
        else:
            self.windows.begin(code, stage.holdout, stage.candidates(lattice), known)

    def finish(self, code: int) -> None:
        """End the open warm-up of a key with the values so far; do nothing without values."""
        if not self.measuring[code] and self.held.count[code]:
            run = self.run(code)
            run.finish()
            self.put_back(code, run)

    # -- levels ------------------------------------------------------------------------------------

    def _settle(self, codes: IntArray, highest: FloatArray) -> None:
        """`CapWatch.settle` for many keys, with levels in units."""
        self.home[codes] = np.maximum(0.0, highest) / self.mixture.threshold[codes]
        self.excess[codes] = self.variance[codes] = 0.0

    def _fallen(self, codes: IntArray) -> list[int]:
        """`RefinementState._fallen` for each key."""
        epsilon, lattice = self._trees.epsilon, self._pipeline.lattice
        found: IntArray = np.zeros(codes.size, dtype=np.int64)
        thetas, evidence = self.mixture.threshold[codes], self.evidence[codes]
        low = (self.home[codes] < MOSTLY_ZERO).tolist()
        starts = self.mixture.warm_up_start[codes].tolist()
        facts = thetas.tolist(), evidence.tolist(), starts, low
        for (theta, known, begun, _), same in grouped_streams(*facts):
            home = self.home.item(codes[same[0]])
            first = chose_first(self._pipeline, known, begun)
            information = Fraction(known, 16) * epsilon
            places = theta // lattice.grain, lattice.grains
            found[same] = how_fallen_threshold(home, *places, information, first=first)
        return [int(one) for one in found]

    def _begin_climbs(self, codes: IntArray) -> None:
        """Begin to climb for keys whose θ has fallen so low that released sums raise it."""
        lattice, thetas = self._pipeline.lattice, self.mixture.threshold[codes].tolist()
        low = np.array([refinement_climbs_from(lattice, theta) for theta in thetas], dtype=np.bool_)
        new = (self.evidence[codes] > 0) & (self.floor[codes] == 1) & self._refinement.windows
        some = codes[low & new]
        some = some[np.array(self._fallen(some), dtype=np.int64) > 0]
        self.evidence[some], self.watch_old[some], self.watch_length[some] = CLIMBING, 0.0, 0
