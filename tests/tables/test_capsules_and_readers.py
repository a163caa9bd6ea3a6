"""Tables that other libraries hand over by Arrow's PyCapsule interface, or only once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate as tg

COUNT = 600
ROWS = pa.table({"fare": np.arange(COUNT) % 7.0, "tip": np.arange(COUNT) % 3.0})
SETTINGS: dict[str, Any] = {"epsilon": 20, "bound": 10}


class Stream:
    """All that is known of it is `__arrow_c_stream__`."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._held.__arrow_c_stream__(requested_schema)


class Array:
    """All that is known of it is `__arrow_c_array__`."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self._held.__arrow_c_array__(requested_schema)


def near(released: Any, truth: float) -> bool:
    return abs(released.query(0, COUNT).estimate - truth) < 0.2 * truth


FARES, TIPS = float(np.sum(ROWS["fare"].to_numpy())), float(np.sum(ROWS["tip"].to_numpy()))
BATCH = ROWS.combine_chunks().to_batches()[0]


@pytest.mark.parametrize("table", [Stream(ROWS), Array(BATCH)], ids=["stream", "array"])
def test_a_table_of_capsules_has_columns(table: Any) -> None:
    assert near(tg.release(table, "tip", **SETTINGS), TIPS)
    both = tg.release(table, ["fare", "tip"], **SETTINGS)
    assert near(both["fare"], FARES)
    assert near(both["tip"], TIPS)
    with pytest.raises(tg.SettingError, match="name the column"):
        tg.release(table, **SETTINGS)


@pytest.mark.parametrize(
    "column",
    [Stream(ROWS["fare"]), Array(ROWS["fare"].combine_chunks()), Stream(ROWS.select(["fare"]))],
    ids=["stream", "array", "only column"],
)
def test_a_column_of_capsules_needs_no_name(column: Any) -> None:
    assert near(tg.release(column, **SETTINGS), FARES)


def test_a_broken_capsule_is_refused_without_its_words() -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            raise ValueError("secret 4711")

    with pytest.raises(tg.InputError, match="cannot be read") as caught:
        tg.release(Broken(), "fare", **SETTINGS)
    assert "4711" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_reader_gives_several_columns_though_it_can_be_read_once() -> None:
    both = tg.release(ROWS.to_reader(), ["fare", "tip"], **SETTINGS)
    assert near(both["fare"], FARES)
    assert near(both["tip"], TIPS)


@pytest.mark.parametrize("first", [[1.0] * COUNT, np.ones(COUNT), ROWS["fare"]])
@pytest.mark.parametrize("second", [[2.0] * COUNT, ["fare", "tip"], "fare"])
def test_a_second_column_is_not_released_instead_of_the_first(first: Any, second: Any) -> None:
    with pytest.raises(tg.InputError, match="has no columns"):
        tg.release(first, second, **SETTINGS)


@pytest.mark.parametrize("zone", ["America/New_York", "UTC", "+02:00"])
def test_rows_of_keys_keep_their_zone(zone: str) -> None:
    """They were given as universal time without a zone: hours off, and nothing said so."""
    times = np.datetime64("2024-01-01T05:00", "s") + np.arange(COUNT).astype("timedelta64[s]")
    given = pa.array(times).cast(pa.timestamp("s", tz=zone))
    run = tg.keyed(tg.adaptive(epsilon=20, bound=10, horizon=64), keys=[1, 2]).start()
    rows = run.push(np.arange(COUNT) % 2 + 1, ROWS["fare"], given)
    assert rows.to_arrow()["time"].type == pa.timestamp("ns", tz=zone)
    assert rows.to_arrow()["time"].cast(pa.timestamp("s", tz=zone)).to_pylist() == given.to_pylist()
    assert str(rows.to_pandas()["time"].dt.tz) in (zone, f"UTC{zone}")
    assert rows.to_polars()["time"].dtype.time_zone == ("UTC" if zone == "+02:00" else zone)


def test_rows_of_keys_without_a_zone_stay_without() -> None:
    times = np.datetime64("2024-01-01T05:00", "s") + np.arange(COUNT).astype("timedelta64[s]")
    run = tg.keyed(tg.adaptive(epsilon=20, bound=10, horizon=64), keys=[1, 2]).start()
    rows = run.push(np.arange(COUNT) % 2 + 1, ROWS["fare"], times)
    assert rows.to_arrow()["time"].type == pa.timestamp("ns")


def test_opening_the_name_of_several_columns_says_which_files_there_are(tmp_path: Path) -> None:
    tg.release(ROWS, ["fare", "tip"], **SETTINGS).save(tmp_path / "out.csv")
    with pytest.raises(tg.TidegateError, match=r"out\.fare\.csv, out\.tip\.csv"):
        tg.open(tmp_path / "out.csv")
    with pytest.raises(tg.TidegateError, match="no such file"):
        tg.open(tmp_path / "other.csv")
