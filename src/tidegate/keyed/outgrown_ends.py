"""Whether released sums of many keys have outgrown a cap, or a level has moved.

`CapWatch` and `FloorWatch` in arrays: most leaves and blocks have not, and that is noted. The few
that may have are judged by a watch or a run of their key.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.many_streams.units_and_leaves_of_many_streams import (
    ratios_of_streams,
)
from tidegate.estimate.mixture.outgrown_cap import (
    MOVED,
    MOVED_SURE,
    RISEN,
    CapWatch,
    FloorWatch,
    outgrown_cap_rows,
)
from tidegate.keyed.lower_ends import LowerEnds
from tidegate.keyed.refined_choices import RefinedChoices
from tidegate.lattice import FloatArray, IntArray


class OutgrownEnds(RefinedChoices):
    """All keys in arrays, indexed by code, with what their released sums say about their caps."""

    def _full(
        self, codes: IntArray, mean: FloatArray, margin: FloatArray | float, cap: IntArray
    ) -> NDArray[np.bool_]:
        above = self.mixture.threshold[codes] - self.mixture.below[codes]
        facts = self.home[codes], self.fair[codes], above
        least, full = outgrown_cap_rows(*facts, cap, mean)
        return full & (mean - margin > least)

    def _fallen_below(
        self, lower: LowerEnds, codes: IntArray, mean: FloatArray, margin: FloatArray | float
    ) -> NDArray[np.bool_]:
        """Whether these means lie below the lower caps."""
        below, known = self.mixture.below[codes], lower.columns
        facts = known["home"][codes], known["fair"][codes], below
        least, full = outgrown_cap_rows(*facts, below, -mean)
        return full & (-mean - margin > least) & (below < self._pipeline.lattice.bottom)

    def _end_two_sided(
        self, lower: LowerEnds, codes: IntArray, noisy: IntArray
    ) -> NDArray[np.bool_]:
        """`_end_watched` for both caps: whether blocks show that one is outgrown."""
        (mean, doubt), below = self._measured(codes, noisy), self.mixture.below[codes]
        above, lattice = self.mixture.cap[codes] - below, self._pipeline.lattice
        full = self._full(codes, mean, 0.0, above) & (above < lattice.top)
        full |= self._fallen_below(lower, codes, mean, 0.0)
        for name in ("excess", "variance"):
            getattr(self, name)[codes[~full]] = lower.columns[name][codes[~full]] = 0.0
        sure = np.zeros(codes.size, dtype=np.bool_)
        for at in np.flatnonzero(full).tolist():
            code, watch, floor = int(codes[at]), CapWatch(), FloorWatch()
            vars(watch).update(self._watch(code))
            vars(floor).update(lower.of(code, below.item(at))["watch"])
            seen = mean.item(at), doubt.item(at)
            for one, sign, cap, most in (
                (watch, 1, above.item(at), lattice.top),
                (floor, -1, below.item(at), lattice.bottom),
            ):
                sure[at] |= cap < most and one.block(sign * seen[0], seen[1], cap, 0.0, 0)
            if not sure[at]:
                self.excess[code], self.variance[code] = watch.excess, watch.variance
                lower.columns["excess"][code] = floor.excess
                lower.columns["variance"][code] = floor.variance
        return sure

    def _has_moved(
        self, lower: LowerEnds, codes: IntArray, level: FloatArray, doubt: FloatArray
    ) -> NDArray[np.bool_]:
        """`level_has_moved` where values below 0 count; then a run decides about a window."""
        below = self.mixture.below[codes]
        above = self.mixture.threshold[codes] - below
        highest, lowest = self.home[codes] * above, -lower.columns["home"][codes] * below
        highest, lowest = (
            np.where(highest, highest, lowest),
            np.where(lowest, lowest, highest),
        )
        far, doubt = MOVED * (above + below), doubt * MOVED_SURE
        found: NDArray[np.bool_] = (level - doubt > highest + far) | (level + doubt < lowest - far)
        self._keep_due(codes, found)
        return found

    def looking(self, codes: IntArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which keys have a late look open, and which the window after one (`RefinementLooks`)."""
        shares = self._refinement.look_shares(self._pipeline.perturber)
        numbers = [self._trees.blocks.index(1 - share) for share in shares] or [-1, -1]
        parts = np.where(self.windows.size[codes] > 0, self.mixture.part[codes], 0)
        return parts == numbers[0], parts == numbers[1]

    def opens_window(
        self, codes: IntArray, level: FloatArray, doubt: FloatArray
    ) -> NDArray[np.bool_]:
        """Whether blocks that end with the next value, with these levels, open a window.

        `RefinementState._opens_window`, which is asked before that value is taken.
        """
        theta = self.mixture.threshold[codes]
        found: NDArray[np.bool_] = level - MOVED_SURE * doubt > RISEN * self.home[codes] * theta
        found &= theta < self._pipeline.lattice.top
        self._keep_due(codes, found)
        return found

    def _keep_due(self, codes: IntArray, moved: NDArray[np.bool_]) -> None:
        """Keep those keys whose level has moved and for which a window is due."""
        mixture = self.mixture
        for at in np.flatnonzero(moved).tolist():
            code = int(codes[at])
            places = mixture.position.item(code) + 1, mixture.warm_up_start.item(code)
            facts = self._trees.horizon, *places, self.evidence.item(code)
            moved[at] = self._refinement.window_again(*facts) is not None

    def _measured(self, codes: IntArray, noisy: IntArray) -> tuple[FloatArray, FloatArray]:
        """The means of blocks that end with these leaves, and their standard errors."""
        mixture, row = self.mixture, self.mixture.row[codes]
        mean = ratios_of_streams(mixture.total[codes] + noisy, mixture.tables.length[row])
        return mean, mixture.tables.doubt[row]

    def _end_watched(self, codes: IntArray, noisy: IntArray) -> NDArray[np.bool_]:
        """Whether blocks that end with these leaves show, together with earlier ones, a full cap.

        If not, that is noted. Few blocks look full, and those are judged one by one.
        """
        cap = self.mixture.cap[codes]
        mean, doubt = self._measured(codes, noisy)
        full = self._full(codes, mean, 0.0, cap)
        self.excess[codes[~full]] = self.variance[codes[~full]] = 0.0
        sure = np.zeros(codes.size, dtype=np.bool_)
        for at in np.flatnonzero(full).tolist():
            code, watch = int(codes[at]), CapWatch()
            vars(watch).update(self._watch(code))
            sure[at] = watch.block(mean.item(at), doubt.item(at), cap.item(at), 0.0, 0)
            if not sure[at]:
                self.excess[code], self.variance[code] = watch.excess, watch.variance
        return sure
