"""Releases by a real Spark in this process: streams, replays, batches, shards."""

import gc
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="needs pyspark: pip install '.[spark]'")

import pandas as pd

import tidegate.spark as ts
from tests.spark.streams import adaptive, alone, fixed, made_up
from tidegate.errors import SettingError
from tidegate.spark.release_labels import label_of

DATA = made_up(5, 260)
_names = count()


class SinkFailure(Exception):  # noqa: N818  # what happened
    """What a sink raises after it has shown its rows to the world."""


class Query:
    """A streaming query over files in a folder: a batch for each file, or for several."""

    def __init__(
        self, spark: Any, place: Path, key_file: Path, files_a_batch: int = 1, **options: Any
    ) -> None:
        self.spark, self.place, self.secret = spark, place, f"file:{key_file}"
        self.files_a_batch = files_a_batch
        self.options = {"keys_are_public": True, "shards": 4, **options}
        self.checkpoint = place / "checkpoint"
        (place / "in").mkdir(parents=True, exist_ok=True)
        self.seen: list[tuple[int, pd.DataFrame]] = []

    def put(self, start: int, end: int, *more: tuple[str, int, float], keys: int = 5) -> None:
        """A file with shuffled rows of the first keys."""
        names = list(DATA)[:keys]
        rows = [(key, at, float(DATA[key][at])) for key in names for at in range(start, end)]
        rows += more
        np.random.default_rng(start).shuffle(rows)  # type: ignore[arg-type]
        frame = pd.DataFrame(rows, columns=["meter", "n", "watts"])
        frame = frame.astype({"n": "int64", "watts": "float64"})
        frame["at"] = pd.to_datetime(1_700_000_000 + 60 * frame["n"], unit="s", utc=True)
        name = self.place / "in" / f"{next(_names):05}.parquet"
        frame.to_parquet(name, coerce_timestamps="us")

    def run(self, failing: int | None = None, twice: int | None = None) -> str:
        """All that is there; the id of the query. A batch may fail, or be evaluated twice."""
        schema = "meter string, n long, watts double, at timestamp"
        source = self.spark.readStream.schema(schema).option(
            "maxFilesPerTrigger", self.files_a_batch
        )

        def sink(rows: Any, batch: int) -> None:
            for _ in range(2 if batch == twice else 1):
                self.seen.append((batch, rows.toPandas()))
            if batch == failing:
                raise SinkFailure

        released = ts.release(
            source.parquet(str(self.place / "in")),
            fixed(),
            key="meter",
            order="n",
            value="watts",
            time="at",
            secret=self.secret,
            **self.options,
        )
        query = (
            released.writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return f"{query.id}/{label_of(None, 'meter', 'n', 'watts', 'at')}"

    def rows(self) -> pd.DataFrame:
        """Everything that was seen, each row once: repeats must be equal."""
        whole = pd.concat([frame for _, frame in self.seen])
        once = whole.drop_duplicates()
        assert not once.duplicated(["key", "epoch", "position"]).any()
        return once.sort_values(["key", "position"])


@pytest.fixture(scope="module")
def finished(spark: Any, key_file: Path, tmp_path_factory: Any) -> Iterator[tuple[Query, str]]:
    """A query that was started again: its sink had failed after the world had seen the rows.

    Its second batch is evaluated twice, as by sinks that count rows before they write them.
    """
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "37")  # several frames a shard
    query = Query(spark, tmp_path_factory.mktemp("stream"), key_file)
    query.put(0, 100)
    with pytest.raises(Exception, match="SinkFailure"):
        query.run(failing=0)
    late = [("key-1", 3, 49.0), ("key-2", 99, 49.0), ("key-3", 101, 49.5)]
    query.put(100, 200, *late)
    yield query, query.run(twice=1)
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


def check(rows: pd.DataFrame, name: str, end: int, query: str, key_file: Path) -> None:
    expected = alone(fixed(), query, name, DATA[name][:end], key_file)
    mine = rows[rows["key"] == name]
    assert mine["position"].tolist() == list(range(end))
    assert mine["value"].to_numpy().tobytes() == expected.values.tobytes()
    assert mine["level"].to_numpy().tobytes() == expected.levels.tobytes()


def test_every_key_gets_what_a_single_process_would_give(
    finished: tuple[Query, str], key_file: Path
) -> None:
    query, number = finished
    rows = query.rows()
    for name in DATA:
        check(rows, name, 200, number, key_file)
    stamps = rows["time"].astype("int64") // 10**9
    assert (stamps == 1_700_000_000 + 60 * rows["position"]).all()


def test_a_replay_shows_the_same_bytes(finished: tuple[Query, str]) -> None:
    """The world saw both batches before they were committed, and sees them again."""
    query, _ = finished
    order = ["key", "position"]
    for batch in (0, 1):
        first, again = (frame.sort_values(order) for at, frame in query.seen if at == batch)
        assert first.to_numpy().tolist() == again.to_numpy().tolist()
        assert len(first) == len(DATA) * 100


def test_keys_go_on_with_another_number_of_shards(
    finished: tuple[Query, str], key_file: Path, spark: Any
) -> None:
    query, number = finished
    secret = f"file:{key_file}"
    state = ts.reshard(spark, query.checkpoint, fixed(), shards=4, to=3, secret=secret)
    other = Query(spark, query.place, key_file, files_a_batch=9, shards=3, initial=state)
    other.checkpoint = query.place / "other"
    other.put(200, 260)
    assert other.run() != number  # a new checkpoint, read from its start: old rows are dropped
    assert [len(frame) for _, frame in other.seen] == [len(DATA) * 60]
    other.seen += query.seen
    for name in DATA:
        check(other.rows(), name, 260, number, key_file)


def test_a_new_checkpoint_is_a_new_epoch_and_is_charged(
    finished: tuple[Query, str], key_file: Path, spark: Any, tmp_path: Path
) -> None:
    """Up to the cap: the last key has spent more than the others, and comes with batch 1."""
    query, _ = finished
    charged = query.rows()[["key", "epoch", "epsilon"]].drop_duplicates()
    charged.loc[len(charged)] = ["key-4", "an earlier one", "1/2"]
    before = spark.createDataFrame(charged)
    again = Query(spark, tmp_path, key_file, cap=2, spent=before)
    again.put(0, 40, keys=4)
    again.put(40, 50)
    with pytest.raises(Exception, match="CapExceeded"):
        again.run()
    assert [(batch, len(frame)) for batch, frame in again.seen] == [(0, 4 * 40)]
    assert not {*charged["epoch"]} & {*again.rows()["epoch"]}
    both = pd.concat([charged, again.rows()[["key", "epoch", "epsilon"]].drop_duplicates()])
    spent = ts.spent_by_key(spark.createDataFrame(both)).toPandas().set_index("key")
    assert spent["epsilon"].to_dict() == {**dict.fromkeys(DATA, "2"), "key-4": "3/2"}
    assert set(spent["epochs"]) == {2}


def test_a_batch_gives_the_same_bytes_at_every_action(spark: Any, key_file: Path) -> None:
    rows = [(key, at, float(one)) for key, values in DATA.items() for at, one in enumerate(values)]
    frame = spark.createDataFrame(rows, "key string, n long, value double")
    packed = ts.pack(frame, key="key", order="n", value="value")
    options: dict[str, Any] = {
        "keys": ["key-0", "key-3"], "shards": 2, "secret": f"file:{key_file}"
    }  # fmt: skip

    def released(given: Any, pipeline: Any = None) -> Any:
        columns = {"key": "key", "order": "order", "value": "value"}
        return ts.release(given, pipeline or fixed(), **columns, **options)

    one = released(packed)
    first, again = (ts.unpack(one).toPandas().sort_values(["key", "position"]) for _ in range(2))
    pd.testing.assert_frame_equal(first, again)
    assert first.groupby("key")["position"].max().to_dict() == {"key-0": 259, "key-3": 259}
    other = ts.unpack(released(packed)).toPandas()
    assert not {*first["epoch"]} & {*other["epoch"]}  # a second release: charged on top


def test_a_changed_input_never_gets_the_noise_of_another(spark: Any, key_file: Path) -> None:
    """One DataFrame, evaluated twice over a source that changes: two epochs, no shared noise."""
    from tidegate.spark.executor_settings import ExecutorSettings
    from tidegate.spark.secret import MasterSecret
    from tidegate.spark.shard_operators import shard_function

    plan = ExecutorSettings(
        pipeline=adaptive(), secret=MasterSecret(f"file:{key_file}"), shards=1, gaps="close",
        cap=None, packed=False, timed=False,
    )  # fmt: skip
    work = shard_function(plan, "one run")
    nothing = pd.DataFrame({"key": [], "epsilon": []})
    rows = pd.DataFrame({"key": "a", "order": range(200), "value": 10.0})
    first = work((0,), rows, nothing)
    pd.testing.assert_frame_equal(first, work((0,), rows.sample(frac=1, random_state=1), nothing))
    rows.loc[7, "value"] = 11.0
    assert work((0,), rows, nothing)["epoch"][0] != first["epoch"][0]


def test_settings_are_checked_before_spark_starts(spark: Any, key_file: Path) -> None:
    frame = spark.createDataFrame([("a", 1, 2.0, "x")], "key string, n long, v double, t string")
    good: dict[str, Any] = {"key": "key", "order": "n", "value": "v", "keys_are_public": True}
    others = {"float": "1.0", "boolean": "true", "binary": "X'FF'", "date": "date'2024-02-01'"}
    for kind, key in others.items():
        other = frame.selectExpr(f"CAST({key} AS {kind}) AS key", "n", "v", "t")
        for df, more in ((other, {}), (frame, {"keys_are_public": False, "keys": other})):
            with pytest.raises(SettingError, match="'key' must be a text or a whole number"):
                ts.release(df, fixed(), **{**good, "secret": f"file:{key_file}", **more})
    for wrong, said in (
        ({"keys_are_public": False}, "keys: must be declared"),
        ({"value": "t"}, "value: must be a number"),
        ({"value": "w"}, "value: there is no column 'w': key, n, v, t"),
        ({"order": "v"}, "order: must be a whole number"),
        ({"time": "t"}, "time: must be a timestamp"),
        ({"shards": 0}, "shards: must be"),
        ({"gaps": "wait"}, "gaps: must be one of close, fill, refuse"),
        ({"secret": "abc"}, "secret: must be 'file:"),
        ({"keys": ["a"]}, "keys: are declared, and said to be public"),
    ):
        with pytest.raises(SettingError) as refused:
            ts.release(frame, fixed(), **{**good, "secret": f"file:{key_file}", **wrong})
        assert str(refused.value).startswith(said)


def test_two_columns_in_one_query_have_noise_of_their_own(
    spark: Any, key_file: Path, tmp_path: Path
) -> None:
    """Caught: the id of the query was all that keyed it, and the difference was the truth."""
    from pyspark.sql import functions as F  # noqa: N812

    (tmp_path / "in").mkdir()
    frame = pd.DataFrame({"zone": "z", "n": range(200), "fare": 3.0, "tip": 11.0})
    frame.to_parquet(tmp_path / "in" / "0.parquet")
    source = spark.readStream.schema("zone string, n long, fare double, tip double")
    trips = source.parquet(str(tmp_path / "in"))
    given: dict[str, Any] = {"key": "zone", "order": "n", "keys_are_public": True, "shards": 2}
    given["secret"] = f"file:{key_file}"
    parts = [
        ts.release(trips, fixed(), value=name, **given).withColumn("column", F.lit(name))
        for name in ("fare", "tip")
    ]
    found: list[pd.DataFrame] = []
    query = (
        parts[0]
        .unionByName(parts[1])
        .writeStream.foreachBatch(lambda rows, _: found.append(rows.toPandas()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = pd.concat(found).sort_values(["column", "position"])
    assert rows.groupby("column")["epoch"].nunique().to_dict() == {"fare": 1, "tip": 1}
    assert rows["epoch"].nunique() == 2
    fare, tip = (rows[rows["column"] == name]["value"].to_numpy() for name in ("fare", "tip"))
    blocks = np.diff(np.cumsum(tip - fare)[7::8], prepend=0.0)  # 8 values each: the truth is 64
    assert np.std(blocks) > 10


def test_releases_that_cannot_be_told_apart_need_a_name(
    spark: Any, key_file: Path, tmp_path: Path
) -> None:
    def stream(name: str) -> Any:
        (tmp_path / name).mkdir(exist_ok=True)
        schema = "zone string, n long, value double"
        return spark.readStream.schema(schema).parquet(str(tmp_path / name))

    given: dict[str, Any] = {"key": "zone", "order": "n", "value": "value", "shards": 2}
    given |= {"keys_are_public": True, "secret": f"file:{key_file}"}
    held = ts.release(stream("fares"), fixed(), **given)
    again = ts.release(stream("fares"), fixed(), **given)  # the same rows: a restart
    with pytest.raises(SettingError, match="same noise"):
        ts.release(stream("tips"), fixed(), **given)
    assert ts.release(stream("tips"), fixed(), **given, name="tips") is not None
    assert (held is again) is False
    del held, again
    gc.collect()
    ts.release(stream("tips"), fixed(), **given)  # the others are gone
