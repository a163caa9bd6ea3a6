"""Arrays beside releases that keep their records: large pushes go through the arrays.

While a key is in the columns, what its release knows of the present is old; `settle` brings it up
to date before anybody asks. Records are written as rows are released.
"""

from __future__ import annotations

import numpy as np

from tidegate.estimate.mixture.kalman_filter.model_weights import packed_weight_rows
from tidegate.keyed.key_names import KeyNames
from tidegate.keyed.keyed_rows import KeyedReleased, KeyedRowGroups
from tidegate.keyed.mixture_of_many_thresholds import WarmUpSumsOfMixtures
from tidegate.keyed.noise_of_many_keys import SecretsOfPhases
from tidegate.keyed.refined_columns import RefinedColumns
from tidegate.lattice import IntArray
from tidegate.randomness import Epoch
from tidegate.run.pipeline import Pipeline
from tidegate.run.refinement_run import RefinementRun
from tidegate.run.refinement_state import Past
from tidegate.run.release import Release
from tidegate.run.two_sided_caps import Ends
from tidegate.stages import Noisy

# Rows of a key in a push from which on arrays are worth their while; and for how many keys there
# is room beside their releases.
_MANY, _MOST_KEYS = 64, 1 << 12


class RecordedColumns(RefinedColumns):
    """Arrays for keys that each have a `Release`, which keeps the record."""

    def __init__(self, pipeline: Pipeline, epoch: Epoch, names: KeyNames) -> None:
        super().__init__(pipeline, epoch, names)
        self._releases: dict[int, Release] = {}  # codes of the keys that are in the arrays
        self._runs: dict[int, RefinementRun] = {}  # theirs: phases and segments are up to date
        self._old: set[int] = set()  # whose release is not

    def __contains__(self, code: int) -> bool:
        return code in self._releases

    def takes(self, groups: KeyedRowGroups) -> bool:
        """Whether rows go through the arrays: many of each key, or their keys are there already."""
        if groups.codes.size >= _MANY * groups.present.size:
            return groups.codes.size > 0 and len(self._names) <= _MOST_KEYS
        return all(code in self for code in groups.present.tolist())

    def rows_before(self, release: Release) -> int:
        """How many rows a release must take before it can enter: up to the end of a leaf."""
        run = _recorded_run_of(release)
        blocks = None if run.warming else run.open_blocks
        return 0 if blocks is None or blocks.at_leaf_start else blocks.perturber.room

    def enter(self, code: int, release: Release) -> None:
        """Copy a key into the arrays; its release must be between leaves."""
        if len(self._names) > self.measuring.size:
            self.grow(len(self._names))
        run = _recorded_run_of(release)
        self._releases[code], self._runs[code] = release, run
        self.put_back(code, run)

    def measuring_keys(self) -> set[int]:
        """The keys in the arrays without an open warm-up."""
        return {code for code in self._releases if self.measuring[code]}

    def settle(self, code: int) -> None:
        """Update the release of a key from the arrays."""
        if code in self._old:
            self._hand_over(code, self.run(code))
            self._old.remove(code)  # last: the caller may be interrupted anywhere

    def settle_past(self, code: int) -> None:
        """Update only what the record of a key reads: a tenth of the work of `settle`."""
        if code in self._old:
            self._past(code)
            self._releases[code]._run = self._runs[code]

    def leave(self, code: int) -> None:
        """Take a key out of the arrays: its release continues without them, or ends."""
        if code in self._releases:
            self.settle(code)
            del self._releases[code], self._runs[code]
            self.drop(code)

    def push_rows(self, groups: KeyedRowGroups, units: IntArray) -> KeyedReleased:
        """Release rows of keys in the arrays; the rows are in units."""
        keys = groups.present.tolist()
        self._old.update(keys)
        found = self.push(groups, units)
        for code, position in zip(keys, self.mixture.position[keys].tolist(), strict=True):
            self._releases[code]._seen = position
        return found

    # -- the past --------------------------------------------------------------------------------

    def _past(self, code: int) -> Past:
        run = self._runs[code]
        if run.segments:
            run.segments[-1].end = int(self.mixture.position[code])
        return run.phases, run.segments

    def _keep_past(self, code: int, run: RefinementRun) -> None:
        self._runs[code] = run

    def _hand_over(self, code: int, run: RefinementRun) -> None:
        release = self._releases[code]
        release._run, self._runs[code] = run, run
        release._seen = run.position

    def _note_phases(
        self, codes: IntArray, secrets: SecretsOfPhases, warm_ups: WarmUpSumsOfMixtures | None
    ) -> None:
        mixture = self.mixture
        weights = packed_weight_rows(mixture.filters.weights[codes])
        for row, code in enumerate(codes.tolist()):
            run, position = self._runs[code], int(mixture.position[code])
            if run.segments:
                run.segments[-1].end = position
            if warm_ups is not None and run.segments:
                run.segments.pop()  # what stood for its values
            start, ends = int(self.phase_start[code]), Ends(int(mixture.threshold[code]))
            segment = run.add_phase(ends, start, secrets[row].id.hex())
            if warm_ups is not None:
                layout, number = warm_ups.layouts[row], warm_ups.numbers[row]
                segment.begin(layout, number, weights[row])
                noisy = Noisy(warm_ups.noisy[row : row + 1])
                segment.extend(noisy, np.zeros(1), layout.length)
            run.forget_past()

    def _note_leaves(self, codes: IntArray, sums: IntArray) -> None:
        runs, predictions = self._runs, self.mixture.prediction[codes].tolist()
        for code, noisy, level in zip(codes.tolist(), sums.tolist(), predictions, strict=True):
            runs[code].segments[-1].append_one(noisy, level)

    def _note_blocks(self, codes: IntArray) -> None:
        mixture = self.mixture
        numbers = (mixture.first_option[codes] + mixture.choice[codes]).tolist()
        weights = packed_weight_rows(mixture.filters.weights[codes])
        places = codes.tolist(), mixture.position[codes].tolist(), numbers, weights
        for code, position, number, mine in zip(*places, strict=True):
            segment = self._runs[code].segments[-1]
            segment.end = position
            segment.begin(mixture.open_layout(code), number, mine)


def _recorded_run_of(release: Release) -> RefinementRun:
    run = release._run
    if not isinstance(run, RefinementRun):
        raise AssertionError("the pipeline was checked")
    return run
