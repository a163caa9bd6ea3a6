"""Several columns of one log with keys: a durable keyed release for each, one ledger for their sum.

**Privacy.** An event has one key, and only the streams of that key read it: one in each column. The
columns of a key cost Σ ε_i together (sequential composition); keys are parallel. The ledger is
charged with that sum, derived from the specifications, before any column reads an event.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidegate.durable.charging import ChargedCost
from tidegate.durable.columns_on_disk import ColumnsOnDisk
from tidegate.guarantee import sequential
from tidegate.keyed.durable_folder import DurableKeyed
from tidegate.run.pipeline import Pipeline


class DurableKeyedColumns(ColumnsOnDisk[DurableKeyed]):
    """Made by `DurableKeyedColumns.open(folder, {"fare": tidegate.keyed(…), …})`."""

    @staticmethod
    def _column(folder: Path, wanted: Any, **how: Any) -> DurableKeyed:
        return DurableKeyed.open(folder, wanted, **how)

    @staticmethod
    def _costs(wanted: list[Any]) -> Iterator[ChargedCost]:
        yield ChargedCost("stream", 0, None, sequential(*(one.guarantee for one in wanted)))

    @staticmethod
    def _pipeline(wanted: Any) -> Pipeline:
        found: Pipeline = wanted.pipeline
        return found
