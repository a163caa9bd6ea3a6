"""The examples of docs/guides/spark.md run in order, on small files; that of Kafka on a plan."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="needs pyspark: pip install '.[spark]'")

import pandas as pd

import tidegate.spark as ts
from tests.depth import at_the_gate
from tests.spark.streams import fixed

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "spark.md"
HELD_OUT, ROWS = 4096, 4200
# Folders of the page; Java resolves names where it was started.
PLACES = r'(?<!TempView\()"(readings|sample|trips|regions|private|checkpoint|counts)"'


def blocks(key_file: Path) -> list[str]:
    """The code of the page, in order. The secret is where the test has it."""
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("file:/run/secrets/tidegate") == 1
    text = text.replace("/run/secrets/tidegate", str(key_file))
    return [part.split("```")[0] for part in text.split("```python\n")[1:]]


def files(place: Path) -> None:
    """What the page reads."""
    at = pd.date_range("2024-02-01", periods=ROWS, freq="min", tz="UTC")
    watts = np.round(np.random.default_rng(1).gamma(2, 500, ROWS), 1)
    one = pd.DataFrame({"n": np.arange(ROWS), "watts": watts, "at": at})
    readings = pd.concat([one.assign(meter="m-1"), one.assign(meter="m-2")])
    trips = pd.DataFrame({"zone": ["Airport", "Nowhere"] * 20, "pickup": at[:40]})
    regions = pd.DataFrame({"key": ["m-1", "m-2"], "region": ["north", "north"]})
    for name, table in (
        ("readings", readings), ("sample", readings), ("trips", trips), ("regions", regions)
    ):  # fmt: skip
        (place / name).mkdir()
        table.to_parquet(place / name / "0.parquet", coerce_timestamps="us")


@at_the_gate  # what it shows is tested one by one beside it
def test_the_examples_of_the_guide_run(spark: Any, key_file: Path, tmp_path: Path) -> None:
    files(tmp_path)
    code = re.sub(PLACES, rf'"{tmp_path}/\1"', "\n".join(blocks(key_file)))
    before, mark, after = code.partition("state = ts.reshard(")
    assert mark
    space: dict[str, Any] = {}
    exec(compile(before, PAGE.name, "exec"), space)
    query = space["query"]
    query.processAllAvailable()
    query.stop()
    exec(compile(mark + after, PAGE.name, "exec"), space)
    released = space["released"].toPandas()
    assert released.groupby("key")["position"].max().to_dict() == dict.fromkeys(
        ("m-1", "m-2"), ROWS - HELD_OUT - 1
    )
    total = space["by_region"].toPandas().iloc[0]
    assert total["keys"] == 2
    assert total["low"] < total["estimate"] < total["high"]
    assert abs(total["estimate"] / released["value"].sum() - 1) < 0.01
    assert {row["key"] for row in space["lows"].collect()} == {"m-1", "m-2"}
    counted = spark.read.parquet(f"{tmp_path}/counts")
    ticks = 29 * 96  # of February
    assert {(row["key"], row["count"]) for row in counted.groupBy("key").count().collect()} == {
        (zone, ticks) for zone in ("Airport", "Harbour", "Old Town")
    }
    assert space["counts"].isStreaming
    assert space["private"].isStreaming


def test_messages_of_kafka_are_read_as_the_guide_says(
    spark: Any, key_file: Path, tmp_path: Path
) -> None:
    """There is no broker here: a stream of files with the columns that Spark gives messages."""
    code = PAGE.with_name("spark-clusters.md").read_text("utf-8").split("```python\n")[1]
    begin, end = code.index("messages = "), code.index("reading = ")
    messages = spark.readStream.schema(
        "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
    ).parquet(str(tmp_path))
    space: dict[str, Any] = {
        "messages": messages, "ts": ts, "pipeline": fixed(), "secret": f"file:{key_file}"
    }  # fmt: skip
    exec(compile(code[:begin] + code[end:].split("```")[0], "spark-clusters.md", "exec"), space)
    assert space["private"].isStreaming
    assert space["private"].schema["value"].dataType.typeName() == "double"
