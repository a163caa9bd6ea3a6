"""Move keys between keyed releases of one epoch, for spreading keys over several engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tidegate.errors import SnapshotError
from tidegate.keyed.keyed_release import KeyedRelease
from tidegate.ownership import Ownership


def regrouped_keys(
    releases: Sequence[KeyedRelease], count: int, place: Callable[[str], int]
) -> list[KeyedRelease]:
    """The keys of several releases in `count` new ones, which continue bit for bit.

    The noise of a key follows from the epoch and the key alone, so it does not matter which other
    keys share its engine. The old releases must not be used afterwards: two copies of a key would
    put the same noise on different values.

    Args:
        releases: of one specification and one epoch, with public keys and without records.
        count: of the new ones.
        place: which of them a key goes to.
    """
    first = releases[0]
    specification, epoch = first.specification, first._epoch
    for other in releases:
        if (other.specification, other._epoch) != (specification, epoch):
            raise SnapshotError("these releases have different epochs: they cannot be regrouped")
    if specification.shared or specification.keys is not None or first._record_kept:
        raise SnapshotError("only releases with public keys and without a record can be regrouped")
    found = [
        KeyedRelease(specification, epoch, ownership=Ownership("keyed release"), record=False)
        for _ in range(count)
    ]
    for old in releases:
        with old._ownership.lock:
            old._ownership.begin()  # and never done: from here on it is refused
            for code, name in enumerate(old._names.names):
                new = found[place(name)]
                at = new._names.add(name)
                if code in old._ended:
                    new._ended.add(at)
                if old._engine is not None and new._engine is not None:
                    new._engine.restore(
                        _moved_to_group(old._engine.state(True, code, code + 1), at)
                    )
    for new in found:
        new._seen = new.position
    return found


def _moved_to_group(state: dict[str, Any], code: int) -> dict[str, Any]:
    """The state of one key under another code, for array engines and for the object engine."""
    if "start" in state:
        return {**state, "start": code}
    return {**state, "codes": np.full_like(state["codes"], code)}
