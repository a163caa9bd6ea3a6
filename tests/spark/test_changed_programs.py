"""A program that is changed, or a state that comes in pieces: never the same noise on other values.

Spark replays a batch whose rows the world has seen. With other columns, or other positions, the
difference of both attempts would be the difference of raw values.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="needs pyspark: pip install '.[spark]'")

import pandas as pd

from tests.spark.streams import fixed, made_up
from tests.spark.test_shard import QUERY, batch, plan
from tests.spark.test_spark_events import streaming_plan
from tidegate.errors import InputError, SnapshotError
from tidegate.ledger import CapExceeded
from tidegate.sealing import seal, unseal
from tidegate.spark import event_shard, shard_operators
from tidegate.spark.event_shard import EventShard, EventShardProcessor
from tidegate.spark.release_labels import label_of
from tidegate.spark.reshard import _regrouped_shards
from tidegate.spark.sequence_numbers import NOTHING_YET, InputRows, in_order
from tidegate.spark.shard import Shard
from tidegate.spark.shard_operators import ShardProcessor

COLUMNS = ("meter", "n", "watts", None)


class OneState:
    """The state of one shard, as Spark keeps it for a processor."""

    def __init__(self, processor: Any) -> None:
        self.value: tuple[bytes] | None = None
        self.processor = processor
        processor.init(self)

    def getValueState(self, *_: str) -> "OneState":  # noqa: N802  # names of Spark
        return self

    def get(self) -> tuple[bytes] | None:
        return self.value

    def update(self, value: tuple[bytes]) -> None:
        self.value = value


def initial(rows: list[tuple[Any, Any, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["body", "key", "epsilon"], dtype=object)
    return frame.assign(shard=2)


@pytest.fixture
def queried(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (shard_operators, event_shard):
        monkeypatch.setattr(module, "operator_query_id", lambda: QUERY)


def test_a_state_is_bound_to_the_columns_of_its_release(key_file: Path) -> None:
    mine = plan(fixed(), key_file, label=label_of(None, *COLUMNS))
    shard = Shard.begin(mine, 2, mine.epoch(QUERY))
    shard.push(batch(made_up(2, 20), 0, 20))
    state = shard.sealed()
    assert Shard.resume(mine, 2, state).names == ["key-0", "key-1"]
    for other in (
        label_of(None, "meter", "n", "volts", None),
        label_of("mine", *COLUMNS),
        label_of(None, *COLUMNS, gaps="fill"),
    ):
        with pytest.raises(SnapshotError, match=r"same noise on other values.*checkpointLocation"):
            Shard.resume(replace(mine, label=other), 2, state)


@pytest.mark.parametrize("kind", ["readings", "events"])
def test_a_checkpoint_of_before_labels_is_refused(kind: str, key_file: Path) -> None:
    """Its noise has other keys than shards that begin now: half of the keys would be of each."""
    resume: Callable[..., Any]
    if kind == "readings":
        mine, resume = plan(fixed(), key_file), Shard.resume
        state = Shard.begin(mine, 2, mine.epoch(QUERY)).sealed()
    else:
        mine, resume = streaming_plan(key_file), EventShard.resume
        state = EventShard.begin(mine, 2, ["a"], QUERY).sealed()
    key = mine.secret.sealing_key()
    public, body = unseal(state, key)
    old = {name: public[name] for name in public if name not in ("label", "sealed")}
    with pytest.raises(SnapshotError, match=r"older version.*Begin with a new checkpointLocation"):
        resume(mine, 2, seal(old, body, key))
    resume(mine, 2, state)


def test_closed_and_filled_gaps_are_two_releases() -> None:
    """In one query, a union of both had the same noise on other values after the first gap."""
    closed, filled, refused = (label_of(None, *COLUMNS, gaps=one) for one in GAPS)
    assert closed != filled
    assert refused == filled  # the operator may decide to fill what was refused
    assert label_of(None, *COLUMNS) == closed


GAPS = ("close", "fill", "refuse")


def test_initial_state_in_several_frames_keeps_all_charges(key_file: Path, queried: None) -> None:
    """Spark makes frames of 10,000 rows of it; charges may come before the state and after it."""
    mine = plan(fixed(), key_file, cap=Fraction(2))
    before = Shard.begin(mine, 2, mine.epoch("another query"))
    before.spent = {"key-0": Fraction(1)}
    before.push(batch(made_up(1, 20), 0, 20))
    body = before.sealed()
    frames = [
        initial([(None, "key-1", "3/2"), (None, "key-2", "1")]),
        initial([(body, None, None), (None, "key-3", "1/2")]),
        initial([(None, "key-4", "5/4")]),
    ]
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        spark = OneState(ShardProcessor(mine))
        for at in order:
            spark.processor.handleInitialState((2,), frames[at], None)
        assert spark.value is not None
        found = Shard.resume(mine, 2, spark.value[0])
        assert found.names == ["key-0"]
        assert found.spent == {
            "key-0": 1, "key-1": Fraction(3, 2), "key-2": 1, "key-3": Fraction(1, 2),
            "key-4": Fraction(5, 4),
        }  # fmt: skip
        with pytest.raises(CapExceeded, match="key-1"):
            found.push(batch(made_up(2, 40), 20, 40))


def test_declared_keys_in_several_frames_are_all_released(key_file: Path, queried: None) -> None:
    """Caught: only the keys of the last frame were there; others got no rows."""
    spark = OneState(EventShardProcessor(streaming_plan(key_file)))
    for names in (["a", "c"], ["b"]):
        spark.processor.handleInitialState((2,), initial([(None, one, "0") for one in names]), None)
    assert spark.value is not None
    found = EventShard.resume(streaming_plan(key_file), 2, spark.value[0])
    assert list(found.release.keys) == ["a", "b", "c"]


def test_resharding_keeps_the_charges_of_keys_without_rows(key_file: Path) -> None:
    """Caught: a key that had spent before, and came after resharding, was released over its cap."""
    mine = plan(fixed(), key_file, cap=Fraction(2))
    old = Shard.begin(mine, 0, mine.epoch(QUERY))
    old.spent = {"key-0": Fraction(1), "key-1": Fraction(3, 2)}
    old.push(batch(made_up(1, 20), 0, 20))
    new = _regrouped_shards([old], replace(mine, shards=3), {"key-0": 2, "key-1": 1})
    assert [shard.spent for shard in new] == [{}, {"key-1": Fraction(3, 2)}, {"key-0": 1}]
    with pytest.raises(CapExceeded, match="key-1"):
        new[1].push(batch({"key-1": np.ones(5)}, 0, 5))


@pytest.mark.parametrize("first", [NOTHING_YET, -(1 << 61), 1 << 61, (1 << 63) - 3])
def test_sequence_numbers_that_would_wrap_round_are_refused(first: int) -> None:
    """The least one stands for "nothing yet": a row with it was taken again in every batch."""
    rows = InputRows(
        np.array(["a"], dtype=object), np.array([0]), np.array([first]), np.array([5]),
        np.ones(5), None,
    )  # fmt: skip
    with pytest.raises(InputError, match="2\\^61"):
        in_order(rows, np.array([NOTHING_YET]), "close")
