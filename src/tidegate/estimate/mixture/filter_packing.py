"""[P | m] of many streams in fewer bytes, bit for bit.

P is symmetric but for the last bits: one half is kept whole, of the other half by how many units in
the last place it differs, in 16 bits. Where that is not enough, the difference is kept by itself.
Models without a swing have zeros in its row and column, which are left out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tidegate.estimate.mixture.models import MEAN, SIZE, SWING
from tidegate.lattice import FloatArray
from tidegate.state_as_bytes import State

_SMALL = np.iinfo(np.int16)


def _places(swing: bool) -> tuple[list[int], list[int], list[int]]:
    """Entries of the flat [P | m]: kept whole, then the other half of P, and their counterparts."""
    used = [entry for entry in range(SIZE) if swing or entry != SWING]
    pairs = [(row, column) for row in used for column in used if row < column]
    upper = [row * (SIZE + 1) + column for row, column in pairs]
    lower = [column * (SIZE + 1) + row for row, column in pairs]
    rest = [entry * (SIZE + 1) + column for entry in used for column in (entry, MEAN)]
    return [*upper, *rest], lower, upper


_WITHOUT, _WITH = _places(False), _places(True)


def packed_filters(
    augmented: FloatArray, swings: NDArray[np.bool_]
) -> dict[str, NDArray[np.generic]]:
    """`augmented` has an entry of [P | m], a stream and a model in its three dimensions."""
    whole, differences = [], []
    for (kept, lower, upper), chosen in ((_WITHOUT, ~swings), (_WITH, swings)):
        some = augmented[:, :, chosen]
        whole.append(some[kept].reshape(-1))
        bits = some.view(np.int64)
        differences.append((bits[lower] - bits[upper]).reshape(-1))
    last_bits = np.concatenate(differences)
    large = np.flatnonzero((last_bits < _SMALL.min) | (last_bits > _SMALL.max))
    small = last_bits.copy()
    small[large] = 0
    return {
        "covariance": np.concatenate(whole),
        "asymmetry": small.astype(np.int16),
        "asymmetric": large.astype(np.int32),
        "asymmetries": last_bits[large],
    }


def unpacked_filters(state: State, streams: int, swings: NDArray[np.bool_]) -> FloatArray:
    """What `packed_filters` was given."""
    last_bits = state["asymmetry"].astype(np.int64)
    last_bits[state["asymmetric"]] = state["asymmetries"]
    found = np.zeros((SIZE * (SIZE + 1), streams, swings.size))
    at = difference_at = 0
    for (kept, lower, upper), chosen in ((_WITHOUT, ~swings), (_WITH, swings)):
        columns = int(np.count_nonzero(chosen))
        some = np.zeros((SIZE * (SIZE + 1), streams, columns))
        size = len(kept) * streams * columns
        some[kept] = state["covariance"][at : at + size].reshape(len(kept), streams, columns)
        at += size
        bits, size = some.view(np.int64), len(lower) * streams * columns
        part = last_bits[difference_at : difference_at + size]
        bits[lower] = bits[upper] + part.reshape(len(lower), streams, columns)
        difference_at += size
        found[:, :, chosen] = some
    if at != state["covariance"].size or difference_at != last_bits.size:
        raise ValueError("the state is of another number of streams")
    return found
