"""Round arrays of floats by adding a large number, for sweeps of samplers over many values."""

from __future__ import annotations

import numpy as np

from tidegate.lattice import FloatArray

# Added and taken away, they round a float to a whole number: one that is at least 0, and any.
WHOLE, CENTRE = 2.0**52, 1.5 * 2.0**52


def near_integers(rest: FloatArray, doubt: float) -> list[int]:
    """Where the `rest` is within `doubt` of 0 or 1: another integer may be the right one."""
    rest = np.abs(rest - 0.5)
    if rest.max(initial=0.0) <= 0.5 - doubt:
        return []
    found: list[int] = np.flatnonzero(rest > 0.5 - doubt).tolist()
    return found
