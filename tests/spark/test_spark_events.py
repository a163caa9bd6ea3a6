"""Events by key: sums per tick for every declared key, as single releases would give them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="needs pyspark: pip install '.[spark]'")

import pandas as pd

import tidegate as tg
import tidegate.spark as ts
from tidegate.errors import SettingError
from tidegate.spark.events import event_function
from tidegate.spark.secret import MasterSecret

START, UNTIL = "2024-02-01T00:00Z", "2024-02-03T00:00Z"


def pipeline() -> Any:
    return tg.events(epsilon=1, bound=20, every="15min", start=START)


def log(count: int) -> pd.DataFrame:
    random = np.random.default_rng(2)
    start = 1_706_745_600_000_000
    return pd.DataFrame(
        {
            "key": random.choice(["north", "south"], count),
            "at": start + random.integers(0, 2 * 86_400, count) * 1_000_000.0,
            "value": np.round(random.gamma(2, 3, count), 1),
        }
    )


def shard(frame: pd.DataFrame, key_file: Path) -> pd.DataFrame:
    marks = pd.DataFrame({"key": ["empty", "north", "south"], "at": np.nan, "value": 0.0})
    work = event_function(pipeline(), MasterSecret(f"file:{key_file}"), "run", UNTIL)
    return work((0,), pd.concat([frame, marks], ignore_index=True))


def test_every_key_has_every_tick_and_arrival_decides_nothing(key_file: Path) -> None:
    frame = log(900)
    found = shard(frame, key_file)
    counts = found.groupby("key")["position"].agg(["min", "max", "count"])
    assert counts.to_numpy().tolist() == [[0, 191, 192]] * 3  # the empty one, too
    pd.testing.assert_frame_equal(found, shard(frame.sample(frac=1, random_state=3), key_file))
    whole = found[found["key"] == "north"]["value"].sum()
    assert abs(whole - frame[frame["key"] == "north"]["value"].sum()) < 500


def test_one_event_more_changes_the_noise_and_nothing_else_of_the_shape(key_file: Path) -> None:
    frame = log(900)
    first, other = shard(frame, key_file), shard(frame.iloc[:-1], key_file)
    assert first["epoch"][0] != other["epoch"][0]
    pd.testing.assert_frame_equal(
        first[["key", "position", "time", "epsilon"]], other[["key", "position", "time", "epsilon"]]
    )


def test_spark_releases_events(spark: Any, key_file: Path) -> None:
    frame = log(300)
    frame["at"] = pd.to_datetime(frame["at"].astype("int64"), unit="us", utc=True)
    given = spark.createDataFrame(frame)
    options: dict[str, Any] = {"key": "key", "time": "at", "secret": f"file:{key_file}"}
    options |= {"keys": ["north", "empty"], "until": UNTIL, "shards": 2}
    found = ts.release_events(given, pipeline(), value="value", **options).toPandas()
    assert found.groupby("key")["position"].count().to_dict() == {"empty": 192, "north": 192}
    assert found["time"].min() == pd.Timestamp("2024-02-01")
    naive = tg.events(epsilon=1, bound=20, every="15min", start="2024-02-01")
    with pytest.raises(SettingError, match="must have a zone"):
        ts.release_events(given, naive, **options)
    with pytest.raises(SettingError, match="one for events"):
        ts.release_events(given, tg.adaptive(epsilon=1, bound=20, horizon=100), **options)
