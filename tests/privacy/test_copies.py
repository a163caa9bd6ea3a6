"""There is one of every owner of a state: it can be neither copied nor pickled."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidegate as tg
from tidegate.durable import DurableRelease
from tidegate.durable.durable_columns import DurableColumns
from tidegate.durable.state_stores import FolderStore
from tidegate.errors import TidegateError
from tidegate.keyed.durable_columns_by_key import DurableKeyedColumns
from tidegate.keyed.durable_folder import DurableKeyed
from tidegate.ledger import Ledger
from tidegate.local.device_memory import Memory

TOPS = tg.tops(epsilon=1, bound=10, holdout=64, horizon=1024, rethreshold_every=512)
KEYED = tg.keyed(tg.adaptive(epsilon=1, bound=10, horizon=100), keys=["a"])
MEANS = tg.event_means(epsilon=1, bound=20, every="1h", start="2024-01-01T00:00Z", horizon=64)
KEYED_MEANS = tg.keyed(MEANS, keys=["a"])
OWNERS: dict[str, Callable[[Path], Any]] = {
    "release": lambda _: TOPS.start(),
    "keys": lambda _: KEYED.start(),
    "means": lambda _: MEANS.start(),
    "means by key": lambda _: KEYED_MEANS.start(),
    "durable release": lambda folder: DurableRelease.open(folder / "state", TOPS),
    "store": lambda folder: FolderStore(folder / "state"),
    "durable keys": lambda folder: DurableKeyed.open(folder / "state", KEYED),
    "durable columns": lambda folder: DurableColumns.open(
        folder / "state", {"fare": TOPS, "tip": TOPS}
    ),
    "durable means by key": lambda folder: DurableKeyedColumns.open(
        folder / "state", {"fare": KEYED_MEANS.sums, "count": KEYED_MEANS.counts}
    ),
    "ledger": lambda folder: Ledger.open(folder / "ledger.jsonl"),
    "memory of a device": lambda folder: Memory.open(folder / "device.json"),
    "volatile memory": lambda _: Memory.volatile(),
}


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("owner", OWNERS)
def test_an_owner_of_a_state_is_not_copied(
    owner: str, copied: Callable[[Any], Any], tmp_path: Path
) -> None:
    """Caught: a shallow copy of a durable release counted by itself how many values were taken.

    7,000 values were released through two of them, and the ledger was charged for 3,072. A copy of
    a device's memory had its own sum of what was spent, so a lifetime did not end.
    """
    found = OWNERS[owner](tmp_path)
    with pytest.raises(TidegateError, match="cannot be copied or pickled"):
        copied(found)
    if hasattr(found, "close"):
        found.close()
