"""Analysts stay in their tools: a function for DuckDB, a namespace for polars."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

import tidegate as tg
from tests.cli.invoking import run
from tidegate.durable import transfer

duckdb = pytest.importorskip("duckdb", reason="tables need the extra [tables]")
pl = pytest.importorskip("polars", reason="tables need the extra [tables]")
pytest.importorskip("pyarrow", reason="tables need the extra [tables]")

for_duckdb = importlib.import_module("tidegate.duckdb")
for_polars = importlib.import_module("tidegate.polars")

FARES = tg.synthetic.baskets(3000)


def written(path: Path, count: int = 3000) -> Path:
    running = tg.adaptive(epsilon=1, bound=500, horizon=3000).start(tg.seeded(3))
    transfer(FARES[:count], running, path)
    return path


@pytest.fixture
def connection():
    made = duckdb.connect()
    for_duckdb.register(made)
    yield made
    made.close()


@pytest.mark.parametrize("name", ["r.csv", "r.parquet", "it's.csv"])
def test_sums_in_sql_are_those_of_the_file(connection, tmp_path: Path, name: str) -> None:
    path = written(tmp_path / name)
    file = tg.open(path)
    sql = "select unnest(tidegate_sum($path, 100, 2000))"
    row = connection.execute(sql, {"path": str(path)}).fetchone()
    answer = file.query(100, 2000)
    assert row == (answer.estimate, answer.low, answer.high, answer.standard_error)
    sql = "select tidegate_sum($path, 100, 2000, confidence := 0.5).low"
    (low,) = connection.execute(sql, {"path": str(path)}).fetchone()
    assert low == file.query(100, 2000, 0.5).low > answer.low


def test_a_column_of_ranges_of_several_files(connection, tmp_path: Path) -> None:
    one, two = written(tmp_path / "a.csv"), written(tmp_path / "b.csv", 2500)
    rows = connection.execute(
        "select i, tidegate_sum(if(i % 2 = 0, $one, $two), i, i + 100).estimate "
        "from range(0, 2400) as rows(i) order by i",
        {"one": str(one), "two": str(two)},
    ).fetchall()
    starts = np.arange(0, 2400)
    expected = [tg.open(path).queries(starts, starts + 100).estimate for path in (one, two)]
    assert [row[1] for row in rows] == [expected[i % 2][i] for i in starts.tolist()]


def test_a_missing_place_has_no_sum(connection, tmp_path: Path) -> None:
    path = written(tmp_path / "r.csv")
    sql = "select tidegate_sum($path, null, 10), tidegate_sum($path, 0, 10) is null"
    assert connection.execute(sql, {"path": str(path)}).fetchone() == (None, False)


def test_a_file_that_has_grown_is_read_again(connection, tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    sql = f"select tidegate_sum('{path}', 0, 2600).estimate"
    written(path, 2500)
    with pytest.raises(duckdb.Error, match="reaches beyond the 2500 values"):
        connection.sql(sql).fetchall()
    written(path, 3000)
    assert connection.execute(sql).fetchone() == (tg.open(path).query(0, 2600).estimate,)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("'here'", "no times: ask by position"),
        ("1.5", "no times: ask by position"),
        ("99999", "reaches beyond"),
        ("-1", "starts before|ends before"),
    ],
)
def test_mistakes_are_explained(connection, tmp_path: Path, place: str, message: str) -> None:
    path = written(tmp_path / "r.csv")
    first, last = ("-1", "5") if place == "-1" else ("0", place)
    with pytest.raises(duckdb.Error, match=message):
        connection.sql(f"select tidegate_sum('{path}', {first}, {last})").fetchall()
    with pytest.raises(duckdb.Error, match=r"nothing\.csv"):
        connection.sql("select tidegate_sum('nothing.csv', 0, 5)").fetchall()


@pytest.fixture
def by_zone(tmp_path: Path) -> Path:
    """Rows of two zones, a minute apart."""
    times = np.datetime64("2024-01-01") + np.arange(3000).astype("timedelta64[m]")
    zones = np.where(np.arange(3000) % 3, "north", "south")
    rows = np.stack([times.astype(str), zones, FARES.astype(str)], axis=1)
    (tmp_path / "in.csv").write_text("\n".join(["at,zone,fare", *map(",".join, rows)]) + "\n")
    (tmp_path / "zones").write_text("north\nsouth\neast\n")
    path = tmp_path / "by zone.csv"
    words = ["--by", "zone", "--keys", tmp_path / "zones", "--column", "fare", "--time", "at"]
    run("release", tmp_path / "in.csv", *words, "--epsilon", 1, "--bound", 500, "-o", path)
    return path


def test_sums_of_a_file_with_keys(connection, by_zone: Path) -> None:
    """Of one key, of a column of keys, and the total, by position and by time, as in Python."""
    file = tg.open(by_zone)

    def asked(sql: str) -> list[tuple[float, ...]]:
        return connection.execute(sql, {"path": str(by_zone)}).fetchall()

    def row(answer) -> tuple[float, ...]:
        return answer.estimate, answer.low, answer.high, answer.standard_error

    day = {"from_": "2024-01-01", "to": "2024-01-02"}
    positions, dates = "$path, 100, 900", "$path, date '2024-01-01', date '2024-01-02'"
    one = "select unnest(tidegate_sum({}, key := 'north'))"
    assert asked(one.format(positions)) == [row(file.query(100, 900, key="north"))]
    assert asked(one.format(dates)) == [row(file.query(**day, key="north"))]
    total = "select unnest(tidegate_sum({}, confidence := 0.9))"
    assert asked(total.format(positions)) == [row(file.query(100, 900, confidence=0.9))]
    assert asked(total.format(dates)) == [row(file.query(**day, confidence=0.9))]
    each = f"select tidegate_sum({dates}, key := zone).high from (values ('south'), ('north'), "
    highs = [(file.query(**day, key=key).high,) for key in ("south", "north")]
    assert asked(each + "(null)) as zones(zone)") == [*highs, (None,)]
    beyond = "$path, date '2030-01-01', date '2031-01-01'"
    assert asked(f"select tidegate_sum({beyond}), tidegate_sum({beyond}, key := 'north')") == [
        (None, None)
    ]


def test_mistakes_with_keys_are_explained(connection, by_zone: Path, tmp_path: Path) -> None:
    plain = written(tmp_path / "r.csv")
    for path, key, message in [
        (by_zone, "east", "has no released rows in this file"),
        (plain, "north", "this file has no keys"),
    ]:
        with pytest.raises(duckdb.Error, match=message):
            connection.sql(f"select tidegate_sum('{path}', 0, 5, key := '{key}')").fetchall()
    with pytest.raises(duckdb.Error, match="give both start and end"):
        connection.sql(f"select tidegate_sum('{by_zone}', 0, '2024-01-02')").fetchall()


def test_frames_of_polars_have_a_namespace() -> None:
    settings = {"epsilon": 1, "bound": 500, "randomness": tg.seeded(3)}
    frame = pl.DataFrame({"fare": FARES, "zone": 1})
    expected = tg.release(FARES, **settings).to_polars()
    assert frame.tidegate.release("fare", **settings).to_polars().equals(expected)
    assert frame["fare"].tidegate.release(**settings).to_polars().equals(expected)


def test_a_released_file_is_a_frame(tmp_path: Path) -> None:
    path = written(tmp_path / "r.parquet")
    frame = for_polars.read_released(path)
    assert frame.equals(tg.open(path).to_polars())
    assert frame.columns == ["position", "value", "level"]
