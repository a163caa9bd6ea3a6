"""Releases by a real Spark in this process: streams, replays, batches, shards."""

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

    def put(self, start: int, end: int, more: list[tuple[str, int, float]] | None = None) -> None:
        """A file with shuffled rows of all keys."""
        rows = [
            (key, at, float(values[at])) for key, values in DATA.items() for at in range(start, end)
        ] + (more or [])
        np.random.default_rng(start).shuffle(rows)  # type: ignore[arg-type]
        frame = pd.DataFrame(rows, columns=["meter", "n", "watts"])
        frame = frame.astype({"n": "int64", "watts": "float64"})
        frame["at"] = pd.to_datetime(1_700_000_000 + 60 * frame["n"], unit="s", utc=True)
        name = self.place / "in" / f"{next(_names):05}.parquet"
        frame.to_parquet(name, coerce_timestamps="us")

    def run(self, failing: tuple[int, ...] = ()) -> str:
        """All that is there; the id of the query."""
        schema = "meter string, n long, watts double, at timestamp"
        source = self.spark.readStream.schema(schema).option(
            "maxFilesPerTrigger", self.files_a_batch
        )
        left = list(failing)

        def sink(rows: Any, batch: int) -> None:
            self.seen.append((batch, rows.toPandas()))
            if batch in left:
                left.remove(batch)
                raise SinkFailure

        released = ts.release(
            source.parquet(str(self.place / "in")),
            self.options.pop("pipeline", fixed()),
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
        return str(query.id)

    def rows(self) -> pd.DataFrame:
        """Everything that was seen, each row once: repeats must be equal."""
        whole = pd.concat([frame for _, frame in self.seen])
        once = whole.drop_duplicates()
        assert not once.duplicated(["key", "epoch", "position"]).any()
        return once.sort_values(["key", "position"])


@pytest.fixture(scope="module")
def finished(spark: Any, key_file: Path, tmp_path_factory: Any) -> Iterator[tuple[Query, str]]:
    """A query whose sink failed twice, after the world had seen the rows."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "37")  # several frames a shard
    query = Query(spark, tmp_path_factory.mktemp("stream"), key_file)
    query.put(0, 100)
    with pytest.raises(Exception, match="SinkFailure"):
        query.run(failing=(0,))
    late = [("key-1", 3, 49.0), ("key-2", 99, 49.0), ("key-3", 101, 49.5)]
    query.put(100, 150, late)
    query.put(150, 200)
    with pytest.raises(Exception, match="SinkFailure"):
        query.run(failing=(1,))
    yield query, query.run()
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
    """The world saw batches 0 and 1 before they were committed, and sees them again."""
    query, _ = finished
    order = ["key", "position"]
    for batch in (0, 1):
        first, again = (frame.sort_values(order) for at, frame in query.seen if at == batch)
        assert first.to_numpy().tolist() == again.to_numpy().tolist()
        assert len(first) == len(DATA) * (100, 50)[batch]


def test_keys_go_on_with_another_number_of_shards(
    finished: tuple[Query, str], key_file: Path, spark: Any
) -> None:
    query, number = finished
    secret = f"file:{key_file}"
    state = ts.reshard(spark, query.checkpoint, fixed(), shards=4, to=3, secret=secret)
    other = Query(spark, query.place, key_file, files_a_batch=3, shards=3, initial=state)
    other.checkpoint = query.place / "other"
    other.put(200, 260)
    assert other.run() != number  # a new checkpoint, read from its start: old rows are dropped
    other.seen += query.seen
    for name in DATA:
        check(other.rows(), name, 260, number, key_file)


def test_a_new_checkpoint_is_a_new_epoch_and_is_charged(
    finished: tuple[Query, str], key_file: Path, spark: Any
) -> None:
    query, number = finished
    before = spark.createDataFrame(query.rows()[["key", "epoch", "epsilon"]].drop_duplicates())
    capped = Query(spark, query.place, key_file, cap="1.5", spent=before)
    capped.checkpoint = query.place / "capped"
    with pytest.raises(Exception, match="CapExceeded"):
        capped.run()
    assert not any(len(frame) for _, frame in capped.seen)
    again = Query(spark, query.place, key_file, files_a_batch=3, cap=2, spent=before)
    again.checkpoint = query.place / "again"
    assert again.run() != number
    epochs = {*query.rows()["epoch"]} | {*again.rows()["epoch"]}
    assert len(epochs) == 2
    both = pd.concat([query.rows(), again.rows()])[["key", "epoch", "epsilon"]].drop_duplicates()
    spent = ts.spent_by_key(spark.createDataFrame(both)).toPandas()
    assert set(spent["epsilon"]) == {"2"}
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
    from tidegate.spark.operators import shard_function
    from tidegate.spark.plan import Plan
    from tidegate.spark.secret import MasterSecret

    plan = Plan(
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
