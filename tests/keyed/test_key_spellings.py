"""A key is the same key however it is written, whatever came before, and after a restart."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidegate as tg
from tidegate.errors import InputError, SettingError
from tidegate.keyed.durable_folder import DurableKeyed

PIPELINE = tg.Pipeline(
    threshold=tg.threshold.Fixed(20), perturber=tg.perturb.Hierarchy(epsilon=1, horizon=64)
)
DECLARED = tg.keyed(PIPELINE, keys=["17", "é"])
SAME: list[Any] = [17, 17.0, b"17", "17", np.int8(17), np.uint64(17), np.float32(17)]
SAME += [np.str_("17"), np.bytes_(b"17")]
# Equal to 17, and no key: 17 may be in a cache when they come.
EQUAL: list[Any] = [Decimal(17), Fraction(17), 17 + 0j]
OTHER = [
    "17 ",
    " 17",
    "017",
    "17.0",
    "\uff11\uff17",
    "e\u0301",
    True,
    None,
    float("nan"),
    1.5,
    10**5000,
]


@pytest.mark.parametrize("before", [[], [17, "é"], SAME], ids=["alone", "17", "all spellings"])
def test_what_came_before_decides_nothing(before: list[Any]) -> None:
    """In a cache by equality Decimal(17) was found after 17 had come, and not after a restart."""
    release = DECLARED.start(tg.seeded(1))
    release.push(before, np.ones(len(before)))
    begun, dropped = release.counts()[0], release.dropped
    for key in SAME:
        release.push([key, key], [1, 1])
    assert (release.counts()[0], release.dropped) == (begun + 2 * len(SAME), dropped)
    for key in (*EQUAL, *OTHER):
        release.push([key], [1])
        release.push(["é", key], [1, 1])
    assert release.counts()[0] == begun + 2 * len(SAME)
    assert release.dropped == dropped + 2 * (len(EQUAL) + len(OTHER))


def test_a_restart_decides_nothing() -> None:
    release = DECLARED.start(tg.seeded(1))
    release.push([17, "é"], [1, 1])
    again = DECLARED.resume(release.snapshot())
    for one in (release, again):
        one.push([Decimal(17), 17.0, "17"], [1, 1, 1])
        assert (one.counts()[0], one.dropped) == (3, 1)


@pytest.mark.parametrize("keys", [["é", "e\u0301"], ["17", "17 "], [17, "17"], [17, 17.0]])
def test_keys_that_nobody_could_tell_apart_are_not_declared_together(keys: list[Any]) -> None:
    with pytest.raises(SettingError, match="declared twice"):
        tg.keyed(PIPELINE, keys=keys)


@pytest.mark.parametrize("key", [*EQUAL, 10**5000, (17,), object()], ids=lambda key: str(type(key)))
def test_open_keys_refuse_what_is_none(key: Any) -> None:
    release = tg.keyed(PIPELINE, keys_are_public=True).start(tg.seeded(1))
    release.push([17, "a"], [1, 1])
    for keys in ([key], ["a", key]):
        with pytest.raises(InputError, match="key at position"):
            release.push(keys, np.ones(len(keys)))
    assert release.keys == ["17", "a"]


@pytest.mark.parametrize("key", [[17], {17}, bytearray(b"17")], ids=repr)
def test_what_cannot_be_looked_up_is_refused(key: Any) -> None:
    release = DECLARED.start(tg.seeded(1))
    with pytest.raises(InputError, match="texts or whole numbers"):
        release.push([key], [1])


def test_columns_of_decimals_are_no_keys() -> None:
    release = DECLARED.start(tg.seeded(1))
    release.push([17], [1])
    release.push(pa.array([Decimal(17), Decimal(3)]), [1, 1])
    assert (release.counts()[0], release.dropped) == (1, 2)


def columns(items: list[Any]) -> dict[str, Any]:
    """The same keys in every kind of column."""
    texts = [None if item is None else str(item) for item in items]
    return {
        "list": items,
        "numpy": np.array(items, dtype=object),
        "masked": np.ma.array([item or 3 for item in items], mask=[not item for item in items]),
        "pandas": pd.Series(items, dtype="Int64"),
        "polars": pl.Series(texts),
        "arrow": pa.array(items),
        "arrow texts": pa.array(texts),
        "arrow dictionary": pa.array(texts).dictionary_encode(),
        "arrow chunks": pa.chunked_array([texts[:1], texts[1:]]),
    }


@pytest.mark.parametrize("kind", columns([17]))
def test_any_column_is_read_alike_with_a_state_and_without(tmp_path: Path, kind: str) -> None:
    """With a state keys of Arrow were none of the declared ones, and all of their rows were lost;
    what was masked counted, as a key and as a value."""
    keys = columns([17, None, 5, 17])[kind]
    values = np.ma.array([3.0, 4.0, 5.0, 1e9], mask=[0, 0, 0, 1])
    memory = DECLARED.start(tg.seeded(1))
    memory.push(keys, values)
    with DurableKeyed.open(tmp_path / "state", DECLARED) as state:
        state.push_rows(keys, values)
        found = state.release
        assert found.counts().tolist() == memory.counts().tolist() == [2, 0]
        assert found.dropped == memory.dropped == 2
        assert state.recogniser().push(np.array([3, 4, 5, 0]), ["17", None, "5", "17"])


@pytest.mark.parametrize("equal", EQUAL, ids=repr)
@pytest.mark.parametrize("turn", [1, -1])
def test_a_row_does_not_decide_about_another_one(tmp_path: Path, equal: Any, turn: int) -> None:
    """Beside Decimal(17) a row of 17 was dropped, or both counted, by which came first."""
    with DurableKeyed.open(tmp_path / "state", DECLARED) as state:
        state.push_rows([17, equal][::turn], [1, 1])
        assert (state.release.counts()[0], state.release.dropped) == (1, 1)
        with pytest.raises(InputError, match="texts or whole numbers"):
            state.push_rows([[17], 17], [1, 1])


@pytest.mark.parametrize("kind", ["M8[s]", "M8[ns]", "int64", "float64"])
def test_a_masked_time_is_missing(kind: str) -> None:
    """What is behind the mask was taken for the time of the row."""
    times = np.ma.array(np.arange(3).astype(kind), mask=[0, 1, 0])
    with pytest.raises(InputError, match="time at position 1 is missing"):
        tg.read_times(times)
    assert tg.read_times(times[::2]).ticks.tolist() == [0, 2 * 10**9 if kind != "M8[ns]" else 2]


def test_keys_that_look_alike_have_noise_of_their_own() -> None:
    """Names that begin or end alike, or differ by case: in objects and in arrays."""
    names = ["1", "10", "100", "01", "a", "A", "aa", "ab", "ba", "ä", "a/b", "a/c"]
    pipeline = tg.Pipeline(
        threshold=tg.threshold.Fixed(20),
        perturber=tg.perturb.Flat(epsilon="1/1000", horizon=64),
        estimator=tg.estimate.Unsmoothed(),
    )
    for record in (True, False):
        release = tg.keyed(pipeline, keys=names).start(tg.seeded(1), record=record)
        rows = release.push(names * 3, np.zeros(3 * len(names))).values
        assert len(set(rows.tolist())) == 3 * len(names)  # noise of scale 20,000
