"""Events by key: sums per tick for every declared key, as single releases would give them."""

from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="needs pyspark: pip install '.[spark]'")

import pandas as pd

import tidegate as tg
import tidegate.spark as ts
from tidegate.errors import SettingError, SnapshotError
from tidegate.ledger import CapExceeded
from tidegate.ownership import Ownership
from tidegate.run.earlier_pipelines import earlier_pipelines
from tidegate.run.event_release import EventRelease
from tidegate.spark.event_shard import EventShard, check_cap_of_events
from tidegate.spark.executor_settings import ExecutorSettings
from tidegate.spark.release_labels import label_of
from tidegate.spark.release_of_events import event_function
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


def shard(frame: pd.DataFrame, key_file: Path, stages: Any = None) -> pd.DataFrame:
    marks = pd.DataFrame({"key": ["empty", "north", "south"], "at": np.nan, "value": 0.0})
    work = event_function(stages or pipeline(), MasterSecret(f"file:{key_file}"), "run", UNTIL)
    return work((0,), pd.concat([frame, marks], ignore_index=True))


def test_every_key_has_every_tick_and_arrival_decides_nothing(key_file: Path) -> None:
    frame = log(900)
    found = shard(frame, key_file)
    counts = found.groupby("key")["position"].agg(["min", "max", "count"])
    assert counts.to_numpy().tolist() == [[0, 191, 192]] * 3  # the empty one, too
    pd.testing.assert_frame_equal(found, shard(frame.sample(frac=1, random_state=3), key_file))
    whole = found[found["key"] == "north"]["value"].sum()
    assert abs(whole - frame[frame["key"] == "north"]["value"].sum()) < 500


def test_events_are_counted(key_file: Path) -> None:
    counting = tg.events(epsilon=1, every="15min", start=START)
    frame = log(900).assign(value=1.0)  # as without a column of values
    found = shard(frame, key_file, counting)
    north = found[found["key"] == "north"]["value"].sum()
    assert abs(north - (frame["key"] == "north").sum()) < 100


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


def test_an_event_without_a_time_is_in_no_tick(spark: Any, key_file: Path) -> None:
    """Caught: it was taken for the mark of its key, whose rows came out twice: seen without noise.

    A stream ended with it, in an error of pandas.
    """
    frame = log(300)
    lost = pd.DataFrame({"key": ["north", "south"], "at": np.nan, "value": 3.0})
    pd.testing.assert_frame_equal(shard(frame, key_file), shard(pd.concat([frame, lost]), key_file))
    schema = "key string, at timestamp, value double"
    given = spark.createDataFrame([("north", None, 3.0), (None, datetime.now(UTC), 3.0)], schema)
    options: dict[str, Any] = {"key": "key", "time": "at", "secret": f"file:{key_file}"}
    options |= {"keys": ["north", "empty"], "until": UNTIL, "shards": 2, "value": "value"}
    found = ts.release_events(given, pipeline(), **options).toPandas()
    assert found.groupby("key")["position"].count().to_dict() == {"empty": 192, "north": 192}


def test_columns_are_converted_before(spark: Any, key_file: Path) -> None:
    """Caught: Spark converted them, and its error shows the content that it stumbled over."""
    given = spark.createDataFrame(
        [("north", "8675309 o'clock", "8675309 euros")], "k string, t string, v string"
    )
    options: dict[str, Any] = {
        "key": "k",
        "secret": f"file:{key_file}",
        "keys": ["north"],
        "until": UNTIL,
    }
    with pytest.raises(SettingError, match="time: must be a timestamp"):
        ts.release_events(given, pipeline(), time="t", value="v", **options)
    timed = given.selectExpr("k", "current_timestamp() AS t", "v")
    with pytest.raises(SettingError, match="value: must be a number"):
        ts.release_events(timed, pipeline(), time="t", value="v", **options)
    with pytest.raises(SettingError, match="value: must be a number"):
        ts.pack(timed, key="k", order="t", value="v")
    tops = tg.tops(epsilon=1, bound=20, holdout=1, horizon=100)
    with pytest.raises(SettingError, match="value: must be a number"):
        ts.shared_threshold(timed, tops, value="v", released=True)


# -- streams ---------------------------------------------------------------------------------------


def batches(frame: pd.DataFrame) -> list[tuple[pd.DataFrame, list[str]]]:
    """Events and clock of micro-batches: some early, some with their clock, one too late."""
    frame = frame.sort_values("at", ignore_index=True)
    late = frame.iloc[[0]]
    return [
        (frame.iloc[:400], []),
        (frame.iloc[400:500].sample(frac=1, random_state=1), ["2024-02-01T06:00Z"]),
        (late, ["2024-02-01T06:20Z", "2024-02-01T05:00Z"]),
        (frame.iloc[500:], [UNTIL]),
    ]


def expected(parts: list[Any], query: str, name: str, key_file: Path) -> list[Any]:
    """What one process releases for one key."""
    epoch = MasterSecret(f"file:{key_file}").epoch(query)
    release = EventRelease(pipeline(), epoch.of_key(name), ownership=Ownership())
    found = []
    for events, clock in parts:
        mine = events[events["key"] == name].sort_values(["at", "value"])
        release.push(pd.to_datetime(mine["at"].astype("int64"), unit="us", utc=True), mine["value"])
        found += [release.advance(until) for until in clock[:1]]
    return found


def streaming_plan(key_file: Path, cap: Fraction | None = None) -> ExecutorSettings:
    return ExecutorSettings(
        pipeline=pipeline(), secret=MasterSecret(f"file:{key_file}"), shards=4, gaps="close",
        cap=cap, packed=False, timed=True,
    )  # fmt: skip


def test_a_shard_of_a_stream_releases_with_the_clock(key_file: Path) -> None:
    """State goes through its sealed form after every batch; replays give the same bytes."""
    plan = streaming_plan(key_file)
    frame, found = log(900), []
    state = EventShard.begin(plan, 2, ["empty", "north", "south"], "query").sealed()
    for events, clock in batches(frame):
        at = [datetime.fromisoformat(one).timestamp() * 1e6 for one in clock]
        rows = pd.concat([events, pd.DataFrame({"key": None, "at": at, "value": 0.0})])
        again, shard = (EventShard.resume(plan, 2, state) for _ in range(2))
        part = shard.take(rows)
        pd.testing.assert_frame_equal(part, again.take(rows.sample(frac=1, random_state=7)))
        found.append(part)
        state = shard.sealed()
    with pytest.raises(SnapshotError, match="moved"):
        EventShard.resume(plan, 1, state)
    assert b"north" not in state
    rows = pd.concat(found)
    assert [len(part) for part in found] == [0, 3 * 24, 3 * 1, 3 * (192 - 25)]
    for name in ("empty", "north", "south"):
        alone = expected(batches(frame), "query", name, key_file)
        mine = rows[rows["key"] == name]
        assert mine["position"].tolist() == list(range(192))
        values = np.concatenate([part.values for part in alone])
        assert mine["value"].to_numpy().tobytes() == values.tobytes()


def test_spark_streams_events(spark: Any, key_file: Path, tmp_path: Path) -> None:
    """Two streams of files; a sink that fails after it has shown its rows, and evaluates twice."""
    seen: list[tuple[int, pd.DataFrame]] = []
    parts = batches(log(600))[1::2]
    for number, (events, clock) in enumerate(parts):
        log_part = events.assign(
            at=pd.to_datetime(events["at"].astype("int64"), unit="us", utc=True)
        )
        times = pd.DataFrame({"at": pd.to_datetime(clock, utc=True)})
        for name, table in (("events", log_part), ("clock", times)):
            (tmp_path / name).mkdir(exist_ok=True)
            table.to_parquet(tmp_path / name / f"{number}.parquet", coerce_timestamps="us")

    def stream(name: str, schema: str) -> Any:
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(tmp_path / name))

    def sink(rows: Any, batch: int) -> None:
        seen.append((batch, rows.toPandas()))
        if len(seen) == 1:
            raise OSError("the sink failed")
        if batch:
            seen.append((batch, rows.toPandas()))

    def run() -> str:
        released = ts.release_events(
            stream("events", "key string, at timestamp, value double"), pipeline(), key="key",
            time="at", value="value", keys=["north", "empty"], shards=2,
            clock=stream("clock", "at timestamp"), secret=f"file:{key_file}",
        )  # fmt: skip
        query = (
            released.writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return f"{query.id}/{label_of(None, 'key', 'at', 'value')}"

    with pytest.raises(Exception, match="the sink failed"):
        run()
    query = run()
    shown = [(batch, len(frame)) for batch, frame in seen]  # each batch twice, the same bytes
    assert shown == [(0, 2 * 24), (0, 2 * 24), (1, 2 * 168), (1, 2 * 168)]
    rows = pd.concat([frame for _, frame in seen]).drop_duplicates()
    rows = rows.sort_values(["key", "position"])
    assert rows.groupby("key")["position"].count().to_dict() == {"empty": 192, "north": 192}
    values = np.concatenate([part.values for part in expected(parts, query, "north", key_file)])
    assert rows[rows["key"] == "north"]["value"].to_numpy().tobytes() == values.tobytes()


def test_a_cap_stops_before_anything_is_read(key_file: Path) -> None:
    plan = streaming_plan(key_file, cap=Fraction(2))
    declared = pd.DataFrame({"key": ["north", "south"], "epsilon": ["1", "3/2"]})
    check_cap_of_events(plan, declared[:1])
    with pytest.raises(CapExceeded, match="south"):
        check_cap_of_events(plan, declared)


def test_a_checkpoint_of_before_decision_0126_goes_on(key_file: Path) -> None:
    """Caught: it was of "other settings" for ever, as event streams with a week got one more."""
    weeks = tg.events(epsilon=1, bound=10, every="1h", start="2024-01-01T00:00Z", horizon=1500)
    today = replace(streaming_plan(key_file), pipeline=weeks)
    before = replace(today, pipeline=earlier_pipelines(weeks)[-1])
    state = EventShard.begin(before, 2, ["a"], "query").sealed()
    until = datetime.fromisoformat("2024-01-20T00:00Z").timestamp() * 1e6
    clock = pd.DataFrame({"key": [None], "at": [until], "value": [0.0]})
    for _ in range(2):  # and so does what it leaves
        found = [EventShard.resume(plan, 2, state) for plan in (today, before)]
        frames = [shard.take(clock) for shard in found]
        pd.testing.assert_frame_equal(*frames)
        state = found[0].sealed()
        assert found[0].plan == before
