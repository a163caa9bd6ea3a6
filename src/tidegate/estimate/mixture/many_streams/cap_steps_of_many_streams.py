"""`CapSteps` of many streams, in arrays: steps and levels, one row for each stream."""

from __future__ import annotations

from operator import itemgetter

import numpy as np

from tidegate.estimate.mixture.cap_steps import CapSteps, moved_cap_step
from tidegate.lattice import FloatArray, IntArray

STEP_COUNTS = ("step", "tried", "patience", "wait", "seen")
STEP_LEVELS = ("before", "pace", "refused", "home", "weight")
_NAMES = (*STEP_COUNTS, *STEP_LEVELS)
# Before anything was measured.
FIRST_COUNTS = [getattr(CapSteps(), name) for name in STEP_COUNTS]
FIRST_LEVELS = [getattr(CapSteps(), name) for name in STEP_LEVELS]


def observe_cap_steps(
    counts: IntArray,
    levels: FloatArray,
    means: FloatArray,
    doubts: FloatArray,
    highest: int,
    ends: tuple[int, int],
) -> FloatArray:
    """Take the means of blocks, in units (0: not measured), and update both arrays.

    They count as shares of the upper of both `ends`; where there is a lower one, a mean below 0
    says nothing about the upper one.

    Gives the share of itself by which a new cap may have moved the level of each stream.
    """
    steps, many = CapSteps(), len(STEP_COUNTS)
    known, of_steps = vars(steps), itemgetter(*_NAMES)
    inflated = np.zeros(means.size)
    above, below = ends
    shares = (np.maximum(means, 0.0) if below else means) / above
    measured, errors = shares.tolist(), (doubts / above).tolist()
    for at in np.flatnonzero(means).tolist():
        known.update(zip(_NAMES, counts[at].tolist() + levels[at].tolist(), strict=True))
        before = steps.step
        steps.observe(measured[at], errors[at], highest)
        found = of_steps(known)
        counts[at], levels[at] = found[:many], found[many:]
        if steps.step != before:
            inflated[at] = moved_cap_step(before, steps.step)
    return inflated
