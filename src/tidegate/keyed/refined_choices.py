"""Choose θ for many keys at once: at the ends of warm-ups and of windows.

warm-ups │ values ─ counts ─ θ ─ noisy sums ─ filters ┐
windows  │ counts ─────────── θ ─ filters rescaled ───┴ phases: shares, noise, trees, records

`RefinementRun` has the rules, and a key alone goes through it, which takes a millisecond; keys in
lock-step would all choose in the same tick. Here is the same in arrays.

Privacy: counts, scores, coins, caps, scales and noise are those of `RefinementRun`, bit for bit (a
law test compares them), so its argument holds for every key.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.kalman_filter.leaf_noise import leaf_noise_path
from tidegate.estimate.mixture.many_streams.units_and_leaves_of_many_streams import grouped_streams
from tidegate.estimate.mixture.outgrown_cap import CapWatch
from tidegate.keyed.mixture_of_many_thresholds import WarmUpSumsOfMixtures
from tidegate.keyed.noise_of_many_keys import KeySource, SecretsOfPhases, first_noise_words
from tidegate.keyed.refined_key_runs import RefinedKeyRuns
from tidegate.lattice import FloatArray, IntArray
from tidegate.randomness import Keystream
from tidegate.run.phased_run import phase_choice_identity, phase_noise_identity
from tidegate.run.refinement_schedule import ALIKE, KEEP, LIKELY
from tidegate.run.selection_counts import facts_of_selection, stage_of_selection
from tidegate.run.two_sided_caps import Ends
from tidegate.stages import Layout, late_from
from tidegate.stages.late_looks import room_far_above
from tidegate.threshold import TailQuantile
from tidegate.threshold.choices_of_many_streams import (
    ChoiceFacts,
    choices_of_rows,
    counts_above_of_streams,
    words_of_choice,
)
from tidegate.threshold.least_threshold import least_threshold

BoolArray = NDArray[np.bool_]


class RefinedChoices(RefinedKeyRuns):
    """All keys in arrays, indexed by code, with what ends in a choice of θ."""

    # -- warm-ups --------------------------------------------------------------------------------

    def end_warm_ups(self, codes: IntArray, units: IntArray) -> tuple[FloatArray, FloatArray]:
        """`RefinementRun._end_warm_up` for keys whose warm-ups end with these values.

        All have as many values, and all are first ones, or none is. Gives values and levels.
        """
        mixture, pipeline, refinement = self.mixture, self._pipeline, self._refinement
        first, count = not self.phase[codes[0]], int(self.held.size[codes[0]])
        share = refinement.warm_up_share(pipeline.threshold, pipeline.perturber, first=first)
        values = np.concatenate((self.held.rows(codes, count - 1), units[:, np.newaxis]), axis=1)
        stage, _ = stage_of_selection(pipeline, refinement, count, share, age=count)
        secrets = self._secrets_of(codes)
        above = counts_above_of_streams(values, stage.candidates(pipeline.lattice))
        thetas = self._chosen(stage, above, self._warm_up_facts(codes, stage), secrets, codes)
        mixture.position[codes] += 1
        evidence, kept = int(16 * share * count), np.zeros(codes.size, dtype=np.bool_)
        if not first:
            kept = self._right_caps(codes, thetas, stage, evidence)
            caps = np.maximum(mixture.threshold[codes], self.watch_cap[codes])
            thetas = np.where(kept, caps, thetas)
        mean = np.maximum(self.fair[codes], self.watch_mean[codes])
        self.fair[codes] = np.where(kept, mean, 0.0)
        changed = codes[~kept]
        mixture.warm_up_start[changed], self.evidence[changed] = self.phase_start[changed], evidence
        if first:
            mixture.threshold[codes] = thetas
        else:
            mixture.rescale(codes, thetas)
            mixture.filters.forget_level(codes)
            self._keep_floors(codes, thetas)
        sums, variances = self._warm_up_sums(codes, values, share, secrets)
        for raw in (values, above):
            raw.fill(0)  # not kept longer than needed
        self.held.wipe(codes)
        self.measuring[codes] = True
        totals = mixture.at_once(codes, count, sums.noisy, variances, self.published[codes])
        if not first:
            for at in np.flatnonzero(~kept).tolist():
                facts = sums.noisy.item(at) / count, sums.doubts.item(at) / count
                totals[at] += self._hidden(int(codes[at]), *facts)
        self._settle(codes, (sums.noisy + 2 * sums.doubts) / count)
        self._note_phases(codes, secrets, sums)
        self._begin_phases(codes)
        return totals - (count - 1) * self.published[codes], mixture.prediction[codes]

    def _warm_up_facts(self, codes: IntArray, stage: TailQuantile) -> list[ChoiceFacts]:
        if not self.phase[codes[0]]:
            lowest = least_threshold(stage, self._pipeline.lattice)
            floors = self.floor[codes].tolist()
            return [ChoiceFacts(max(floor, lowest), first=True) for floor in floors]
        crowd = stage.holdout // 2
        return [ChoiceFacts(floor, crowd, floor) for floor in self.floor[codes].tolist()]

    def _right_caps(
        self, codes: IntArray, thetas: IntArray, stage: TailQuantile, evidence: int
    ) -> BoolArray:
        """Whether the old θ stays: its cap was full, but turned out high enough."""
        most = [KEEP * stage.extrapolation * cap for cap in self.watch_cap[codes].tolist()]
        near = [theta <= each for theta, each in zip(thetas.tolist(), most, strict=True)]
        home = ALIKE * self.home[codes] * self.mixture.threshold[codes]
        knew = self.evidence[codes] > 4 * evidence
        return np.array(near, dtype=np.bool_) & (self.watch_mean[codes] <= home) & knew

    def _keep_floors(self, codes: IntArray, thetas: IntArray) -> None:
        """`CapWatch.least_after` for many keys."""
        highest, floors = self.watch_highest[codes], self.floor[codes]
        least = np.where(highest > self.watch_cap[codes], np.maximum(highest, thetas), 1)
        self.floor[codes] = np.maximum(floors, least)
        self.watch_highest[codes] = np.maximum(highest, thetas)

    def _hidden(self, code: int, mean: float, doubt: float) -> int:
        watch = CapWatch()
        vars(watch).update(self._watch(code))
        return math.floor(watch.missing(mean, doubt) + 0.5)

    def _warm_up_sums(
        self, codes: IntArray, values: IntArray, share: Fraction, secrets: SecretsOfPhases
    ) -> tuple[WarmUpSumsOfMixtures, FloatArray]:
        """Noisy sums of warm-ups, capped at θ; and their noise variances, in θ².

        Privacy: as `noisy_sum`. Values are capped here, next to the noise.
        """
        pipeline, count = self._pipeline, values.shape[1]
        noisy: IntArray = np.empty(codes.size, dtype=np.int64)
        doubts, variances = np.empty(codes.size), np.empty(codes.size)
        measured: dict[int, tuple[int, Layout]] = {}
        thetas = self.mixture.threshold[codes].tolist()
        for (theta, start), same in grouped_streams(thetas, self.phase_start[codes].tolist()):
            number, layout = self._trees.warm_up(1 - share, count, theta, pipeline.ceiling)
            measured[theta] = number, layout
            identity = phase_noise_identity(pipeline, Ends(theta), start, values=count)
            sources = (KeySource.of(secrets[at].key(b"warm-up", identity)) for at in same)
            level = 0, 1, layout.scales[0]
            (noise,) = self._draws.draw(sources, [(0, 0)] * len(same), [level])
            noisy[same] = np.minimum(values[same], layout.cap).sum(axis=1) + noise[:, 0]
            (leaf,) = leaf_noise_path(layout.nodes, [each / theta**2 for each in layout.variances])
            doubts[same], variances[same] = math.sqrt(layout.variances[0]), leaf.inner or 0.0
        numbers, layouts = zip(*map(measured.__getitem__, thetas), strict=True)
        return WarmUpSumsOfMixtures(list(layouts), list(numbers), noisy, doubts), variances

    # -- windows ---------------------------------------------------------------------------------

    def choose_again(self, codes: IntArray) -> None:
        """`RefinementRun._choose_again` for keys whose windows ended with a block."""
        mixture, lattice = self.mixture, self._pipeline.lattice
        level, doubt = mixture.measured[codes], mixture.doubt[codes]
        self._next_phases(codes)
        fallen, theta = np.array(self._fallen(codes)), mixture.threshold[codes]
        surely, likely = level - 2 * doubt, LIKELY * mixture.mean(codes)
        surely = np.where(fallen > 1, np.maximum(surely, likely), surely)
        lost = (fallen > 0) & (self.floor[codes] == 1)
        known = np.floor(np.clip(surely / theta, 0.0, 1.0) * self.windows.size[codes])
        secrets, thetas = self._secrets_of(codes), np.empty(codes.size, dtype=np.int64)
        ages = mixture.position[codes] - mixture.warm_up_start[codes]
        late = mixture.position[codes] > late_from(self._trees.horizon)
        sizes = self.windows.size[codes], mixture.part[codes], ages
        for (values, part, age), same in grouped_streams(*(each.tolist() for each in sizes)):
            some, share = codes[same], 1 - self._trees.blocks[part]
            stage, _ = stage_of_selection(self._pipeline, self._refinement, values, share, age=age)
            places = self.floor[some], theta[same], known[same].astype(np.int64)
            levels = lost[same], np.maximum(0.0, surely[same]), late[same]
            each = zip(*(one.tolist() for one in (*places, *levels)), strict=True)
            facts = [facts_of_selection(stage, lattice, *one) for one in each]
            above = self.windows.rows(some, stage.candidates(lattice).size)
            for (aims_lower,), rows in grouped_streams(
                [int(one.late_price is not None) for one in facts]
            ):
                rule, these = (stage.late if aims_lower else stage), [same[row] for row in rows]
                mine = [facts[row] for row in rows], [secrets[at] for at in these]
                thetas[these] = self._chosen(rule, above[rows], *mine, some[rows])
            above.fill(0)
            self.evidence[some] = int(16 * share * values)
        self.windows.wipe(codes)
        mixture.rescale(codes, thetas)
        self._settle(codes, level + 2 * doubt)
        self._note_phases(codes, secrets, None)
        self._begin_phases(codes)
        self.published[codes] = mixture.prediction[codes]

    def open_windows(self, codes: IntArray) -> None:
        """Open windows for keys whose last block asks for one.

        θ stays, in a phase of its own, and can only rise (`OutgrownEnds.opens_window`).
        """
        mixture = self.mixture
        self.floor[codes] = np.maximum(self.floor[codes], mixture.threshold[codes])
        self._next_phases(codes)
        self._note_phases(codes, self._secrets_of(codes), None)
        self._begin_phases(codes, again=True)
        self.published[codes] = mixture.prediction[codes]

    # -- both ------------------------------------------------------------------------------------

    def _next_phases(self, codes: IntArray) -> None:
        self.phase[codes] += 1
        self.phase_start[codes] = self.mixture.position[codes]

    def _secrets_of(self, codes: IntArray) -> SecretsOfPhases:
        numbers = self.phase[codes].tolist()
        return list(map(self._secrets.of, codes.tolist(), numbers))

    def _chosen(
        self,
        stage: TailQuantile,
        above: IntArray,
        facts: list[ChoiceFacts],
        secrets: SecretsOfPhases,
        codes: IntArray,
    ) -> IntArray:
        """θ of each key, chosen from counts."""
        pipeline, lattice = self._pipeline, self._pipeline.lattice
        identities = {
            number: phase_choice_identity(pipeline, number, stage.holdout)
            for number in np.unique(self.phase[codes]).tolist()
        }
        keys = [
            secret.key(b"threshold", identities[number])
            for secret, number in zip(secrets, self.phase[codes].tolist(), strict=True)
        ]
        words = first_noise_words(keys, words_of_choice(stage, lattice))
        found, others = choices_of_rows(stage, above, lattice, facts, words)
        for row in others:
            given = above[row], lattice, Keystream(keys[row])
            found[row] = stage.choose_from(*given, **facts[row]._asdict())
        return found

    def _begin_phases(self, codes: IntArray, *, again: bool = False) -> None:
        """`RefinementState._begin_phase`: windows, noise and first blocks of new phases.

        `again`: a window opens that the schedule does not have.
        """
        mixture, pipeline, refinement = self.mixture, self._pipeline, self._refinement
        parts: IntArray = np.zeros(codes.size, dtype=np.int64)
        if not again:
            self._begin_climbs(codes)
        starts, evidence = mixture.warm_up_start[codes].tolist(), self.evidence[codes].tolist()
        places = mixture.position[codes].tolist()
        self.windows.wipe(codes)
        room = room_far_above(mixture.threshold[codes], pipeline.lattice.top)
        for (at, begun, known, fallen, high), same in grouped_streams(
            places, starts, evidence, self._fallen(codes), room.tolist()
        ):
            horizon, facts = self._trees.horizon, {"warm_up_start": begun, "evidence": known}
            if again:
                due = refinement.window_again(horizon, at, **facts)
            else:
                first = pipeline.warm_up
                due = refinement.window(horizon, at=at, first=first, fallen=fallen, **facts)
                if due is None and known > 0 and high and not fallen:
                    due = refinement.look(self._trees, at, begun)
            if due is not None:
                values, share = due
                age = at + values - begun
                stage, _ = stage_of_selection(pipeline, refinement, values, share, age=age)
                candidates = stage.candidates(pipeline.lattice)
                self.windows.begin_empty(codes[same], values, candidates)
                parts[same] = self._trees.blocks.index(1 - share)
        for code in codes.tolist():
            self._noise.change(code, None)  # made with the noise, which is not needed yet
        mixture.begin_phases(codes, parts)
        self._note_blocks(codes)
        self._noise.expect(codes)
