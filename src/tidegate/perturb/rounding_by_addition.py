"""Round arrays of floats by adding a large number, for sweeps of samplers over many values."""

from __future__ import annotations

import numpy as np

from tidegate.lattice import FloatArray

# Added and taken away, they round a float to a whole number: one that is at least 0, and any.
WHOLE, CENTRE = 2.0**52, 1.5 * 2.0**52


def near_integers(rest: FloatArray, doubt: float) -> list[int]:
    """Where a float is so near an integer that the exact value may round differently."""
    rest = np.abs(rest - 0.5)
    if rest.max(initial=0.0) <= 0.5 - doubt:
        return []
    found: list[int] = np.flatnonzero(rest > 0.5 - doubt).tolist()
    return found
