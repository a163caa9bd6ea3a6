"""A batch of an operator that dies at any line, without Spark: its replay gives the same bytes.

Spark keeps what a task wrote to the state only if the task ends well, and then only its rows. So
here: the state is a copy that is thrown away with whatever was yielded before the exception.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyspark", reason="needs pyspark: pip install '.[spark]'")

from tests.depth import moments
from tests.interruptions import interrupted
from tests.keyed.test_keyed_ownership import HOME
from tests.spark.streams import fixed
from tests.spark.test_shard import QUERY, plan
from tests.spark.test_spark_events import streaming_plan
from tidegate.spark.event_shard import EventShard, EventShardProcessor
from tidegate.spark.shard import Shard
from tidegate.spark.shard_operators import ShardProcessor

FOLLOWED = ("shard_operators.py", "shard.py", "event_shard.py")  # the others change nothing
OTHERS = tuple(
    str(path.relative_to(HOME))
    for path in (*HOME.glob("*.py"), *HOME.glob("*/"), *HOME.glob("spark/*.py"))
    if path.name not in ("__pycache__", "spark", *FOLLOWED)
)


class Task:
    """Runs a processor for one batch; the state counts only if it ends well."""

    def __init__(self, make: Callable[[], Any], committed: bytes) -> None:
        self.make, self.committed, self._working = make, committed, committed

    def getValueState(self, *_: str) -> Task:  # noqa: N802  # names of Spark
        return self

    def get(self) -> tuple[bytes]:
        return (self._working,)

    def update(self, value: tuple[bytes]) -> None:
        self._working = value[0]

    def run(self, rows: pd.DataFrame) -> pd.DataFrame:
        self._working = self.committed
        processor = self.make()
        processor.init(self)
        found = pd.concat(list(processor.handleInputRows((2,), iter([rows]), None)))
        self.committed = self._working
        return found


def readings(key_file: Path) -> tuple[Task, list[pd.DataFrame]]:
    settings = plan(fixed(), key_file, packed=False)
    state = Shard.begin(settings, 2, settings.secret.epoch(QUERY)).sealed()
    frames = [
        pd.DataFrame({"key": list("ab") * 20, "order": np.repeat(np.arange(20), 2) + 20 * at})
        for at in range(2)
    ]
    for frame in frames:
        frame["value"] = frame["order"] % 7 * 1.0
    return Task(lambda: ShardProcessor(settings), state), frames


def events(key_file: Path) -> tuple[Task, list[pd.DataFrame]]:
    settings = streaming_plan(key_file)
    state = EventShard.begin(settings, 2, ["a", "b"], "query").sealed()
    begin, step = 1_706_745_600_000_000, 450 * 10**6  # half a tick
    frames = []
    for at in range(2):
        when = begin + (24 * at + np.arange(24)) * step
        clock = pd.DataFrame({"key": [None], "at": [begin + 24 * (at + 1) * step], "value": 0.0})
        rows = pd.DataFrame({"key": list("ab") * 12, "at": when, "value": 3.0})
        frames.append(pd.concat([rows, clock]))
    return Task(lambda: EventShardProcessor(settings), state), frames


@pytest.mark.parametrize("kind", [readings, events], ids=["readings", "events"])
def test_an_exception_at_any_line(kind: Any, key_file: Path) -> None:
    task, (first, second) = kind(key_file)
    task.run(first)
    before = task.committed
    expected = task.run(second)
    assert len(expected) > 20
    for at in moments():
        task.committed = before
        if not interrupted(lambda: task.run(second), at, pure=OTHERS):
            break
        assert task.committed is before
        pd.testing.assert_frame_equal(task.run(second), expected)
    assert at > 15
