"""The array engine for `adaptive` without a hold-out: every key refines its own θ.

Rows and bits are those of `object_engine`: a law test compares them. Only the public thresholds of
each key's past are kept, so there are no queries here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from tidegate.estimate.mixture.kalman_filter.model_weights import UNDECIDED
from tidegate.keyed.array_engine_base import ArrayEngineBase
from tidegate.keyed.key_names import KeyNames
from tidegate.keyed.keyed_rows import KeyedReleased, KeyedRowGroups
from tidegate.keyed.mixture_of_many_thresholds import WarmUpSumsOfMixtures
from tidegate.keyed.noise_of_many_keys import SecretsOfPhases
from tidegate.keyed.refined_columns import RefinedColumns
from tidegate.lattice import IntArray
from tidegate.randomness import Epoch
from tidegate.record.segments.segment import WARMING, Segment
from tidegate.run.phased_run import Phase
from tidegate.run.pipeline import Pipeline
from tidegate.run.refinement_run import RefinementRun
from tidegate.run.refinement_state import Past
from tidegate.run.two_sided_caps import Ends


class BriefRefinedColumns(RefinedColumns):
    """Columns that keep, of the past, only where each phase began and its θ."""

    def __init__(self, pipeline: Pipeline, epoch: Epoch, names: KeyNames) -> None:
        super().__init__(pipeline, epoch, names)
        self.phases: dict[int, tuple[tuple[int, ...], ...]] = {}  # number, start, both ends

    def _past(self, code: int) -> Past:
        """The open block, or a stand-in for an open warm-up: all that a run needs to resume."""
        mixture, method = self.mixture, self._pipeline.method
        number, theta = int(self.phase[code]), int(mixture.threshold[code])
        if not self.measuring[code]:
            start, level = int(self.phase_start[code]), float(self.published[code])
            warming = Segment(
                method,
                threshold=theta,
                origin=start,
                epoch=WARMING,
                prediction=level,
                below=self.ends(code).below,
            )
            return [], [warming] if number else []
        epoch, begun = self.keys_of(code).epoch(number).id.hex(), int(mixture.begun[code])
        below = self.ends(code).below
        segment = Segment(method, threshold=theta, origin=begun, epoch=epoch, below=below)
        first, options = mixture.options_of(code)
        choice = int(mixture.choice[code])
        segment.begin(options[choice], first + choice, UNDECIDED)
        segment.end = int(mixture.position[code])
        return [], [segment]

    def _keep_past(self, code: int, run: RefinementRun) -> None:
        if run.phases:
            self._add_phase(code)

    def _note_phases(
        self, codes: IntArray, secrets: SecretsOfPhases, warm_ups: WarmUpSumsOfMixtures | None
    ) -> None:
        for code in codes.tolist():
            self._add_phase(code)

    def _add_phase(self, code: int) -> None:
        """Add a phase and drop old ones, as `PhasedRun` does."""
        mixture, number = self.mixture, int(self.phase[code])
        new = number, int(self.phase_start[code]), *self.ends(code)
        known = [*self.phases.get(code, ()), new]
        oldest = int(mixture.position[code]) - self._pipeline.kept_history
        while len(known) > 1 and known[1][1] <= oldest:
            del known[0]
        self.phases[code] = tuple(known)


class RefinedArrayEngine(ArrayEngineBase):
    """All keys in arrays, indexed by code."""

    KIND: ClassVar[str] = "refined columns"

    def __init__(
        self, pipeline: Pipeline, epoch: Epoch, names: KeyNames, ends: Ends | None
    ) -> None:
        super().__init__(pipeline, epoch, names, ends or Ends(1))  # every key has its own
        self._columns = BriefRefinedColumns(pipeline, epoch, names)
        self._grow()

    def __repr__(self) -> str:
        return f"<RefinedArrayEngine of {len(self._names)} keys>"

    @property
    def position(self) -> IntArray:  # type: ignore[override]
        """The number of released rows of each key."""
        return self._columns.mixture.position

    def _grow(self) -> None:
        had = self.position.size
        if len(self._names) > had:
            self._columns.grow(self._room(had))
            if self.last.size:
                self._make_last()

    def _push_units(self, groups: KeyedRowGroups, units: IntArray) -> KeyedReleased:
        return self._columns.push(groups, units)

    # -- public facts ----------------------------------------------------------------------------

    def finish(self) -> None:
        """End open warm-ups: the input is over."""
        for code in np.flatnonzero(self.positions()).tolist():
            self._columns.finish(code)

    def phases(self, code: int) -> list[Phase]:
        """The thresholds of a key."""
        keys, step = self._columns.keys_of(code), self._pipeline.lattice.step
        return [
            Phase.of(start, Ends(*ends), step, keys.epoch(number).id.hex())
            for number, start, *ends in self._columns.phases.get(code, ())
        ]

    def unmeasured(self) -> int:
        """How many keys have nothing measured yet."""
        return int(np.count_nonzero(self.positions())) - len(self._columns.phases)

    # -- state -----------------------------------------------------------------------------------

    def drop(self, code: int) -> None:
        """Forget the state of a key; the caller keeps a tombstone."""
        self._grow()
        self._columns.drop(code)
        self._columns.phases.pop(code, None)

    def rest(self, most: int) -> None:
        """Do nothing: arrays are small."""

    def state(self, brief: bool, start: int, end: int) -> dict[str, Any]:
        """The state to resume the keys with these codes from; noise is made again."""
        self._grow()
        phases = [self._columns.phases.get(code, ()) for code in range(start, end)]
        if not self._pipeline.lower:  # the lower end is 0
            phases = [tuple(one[:3] for one in every) for every in phases]
        return {
            "start": start,
            "last": self.last[start:end],
            "phase counts": np.array(list(map(len, phases)), dtype=np.int64),
            "phases": np.array([one for every in phases for one in every]).reshape(-1).astype("q"),
            **self._columns.state(start, end),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore keys from a `state`."""
        self._grow()
        first = state["start"]
        mine = np.arange(first, first + state["position"].size)
        if not mine.size:  # public keys, and none has come yet
            return
        self._columns.restore(mine, state)
        self._restore_last(mine, state)
        facts = 4 if self._pipeline.lower else 3
        rows = iter(state["phases"].reshape(-1, facts).tolist())
        for code, count in zip(mine.tolist(), state["phase counts"].tolist(), strict=True):
            if count:
                self._columns.phases[code] = tuple(
                    (*next(rows), *(() if facts == 4 else (0,))) for _ in range(count)
                )
