"""The contract of engines: both ways to run many streams look alike from outside."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidegate.lattice import FloatArray, IntArray


@dataclass
class Released:
    """What was released for each row of a push; `released` is false for rows that were held out."""

    released: NDArray[np.bool_]
    positions: IntArray
    values: FloatArray
    levels: FloatArray

    @classmethod
    def empty(cls, rows: int) -> Released:
        """Nothing yet: zeros, never memory that may hold something else."""
        released = np.zeros(rows, dtype=np.bool_)
        return cls(released, np.zeros(rows, dtype=np.int64), np.zeros(rows), np.zeros(rows))
