"""The examples of the guide to Spark and of its how-to run on small files; Kafka's on a plan."""

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

DOCS = Path(__file__).parents[2] / "docs"
PAGE, CLUSTERS = DOCS / "guides" / "spark.md", DOCS / "how-to" / "spark-on-clusters.md"
HELD_OUT, ROWS = 4096, 4200
# Folders of the page; Java resolves names where it was started.
PLACES = r'(?<!TempView\()"(readings|sample|trips|regions|private|checkpoint|counts)"'


def blocks(page: Path) -> list[str]:
    """The code of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [part.split("```")[0] for part in text.split("```python\n")[1:]]


def example(key_file: Path, tmp_path: Path) -> tuple[str, str]:
    """The guide's first release; then another number of shards and the rest of the guide."""
    first, *others = blocks(PAGE)
    assert first.count("file:/run/secrets/tidegate") == 1
    first = first.replace("/run/secrets/tidegate", str(key_file))  # where the test has it
    shards = next(block for block in blocks(CLUSTERS) if "ts.reshard(" in block)
    parts = first, "\n".join([shards, *others])
    before, after = (re.sub(PLACES, rf'"{tmp_path}/\1"', part) for part in parts)
    return before, after


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
    before, after = example(key_file, tmp_path)
    space: dict[str, Any] = {}
    exec(compile(before, PAGE.name, "exec"), space)
    query = space["query"]
    query.processAllAvailable()
    query.stop()
    exec(compile(after, PAGE.name, "exec"), space)
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
    code = blocks(CLUSTERS)[0]
    begin, end = code.index("messages = "), code.index("reading = ")
    messages = spark.readStream.schema(
        "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
    ).parquet(str(tmp_path))
    space: dict[str, Any] = {
        "messages": messages, "ts": ts, "pipeline": fixed(), "secret": f"file:{key_file}"
    }  # fmt: skip
    exec(compile(code[:begin] + code[end:], CLUSTERS.name, "exec"), space)
    assert space["private"].isStreaming
    assert space["private"].schema["value"].dataType.typeName() == "double"
