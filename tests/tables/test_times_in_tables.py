"""Times of tables: in from any library, out with their zone, asked by date."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.laws.catalogue import bits
from tidegate.durable import transfer

pd = pytest.importorskip("pandas", reason="tables need the extra [tables]")
pl = pytest.importorskip("polars", reason="tables need the extra [tables]")
pa = pytest.importorskip("pyarrow", reason="tables need the extra [tables]")
duckdb = pytest.importorskip("duckdb", reason="tables need the extra [tables]")

SECONDS, WATTS = tg.synthetic.meter(days=4)
TIMES = SECONDS.astype("datetime64[ms]")
AWARE = pd.DatetimeIndex(TIMES).tz_localize("UTC")
BERLIN = AWARE.tz_convert("Europe/Berlin")


def released(table: Any, **more: Any) -> tg.Released:
    settings = {"value": "watts", "time": "time", "epsilon": 1, "bound": 40_000, **more}
    return tg.release(table, randomness=tg.seeded(3), **settings)


def relation(times: Any = TIMES, zone: str = "UTC") -> Any:
    connection = duckdb.connect()
    connection.execute(f"set TimeZone = '{zone}'")
    connection.register("meters", pa.table({"time": times, "watts": WATTS}))
    return connection.table("meters")


NAIVE: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame({"time": TIMES, "watts": WATTS}),
    "polars": lambda: pl.DataFrame({"time": TIMES, "watts": WATTS}),
    "arrow": lambda: pa.table({"time": TIMES, "watts": WATTS}),
    "text": lambda: {"time": SECONDS.astype(str).tolist(), "watts": WATTS},
    "datetimes": lambda: {"time": TIMES.astype("M8[us]").tolist(), "watts": WATTS},
    "duckdb": relation,
}
ZONED: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame({"time": AWARE, "watts": WATTS}),
    "pandas Berlin": lambda: pd.DataFrame({"time": BERLIN, "watts": WATTS}),
    "pandas arrow": lambda: pd.DataFrame(
        {"time": pd.Series(AWARE).astype("timestamp[ns, tz=UTC][pyarrow]"), "watts": WATTS}
    ),
    "polars": lambda: pl.DataFrame(
        {"time": pl.Series(TIMES).dt.replace_time_zone("UTC"), "watts": WATTS}
    ),
    "arrow": lambda: pa.table({"time": pa.array(TIMES, pa.timestamp("ms", "UTC")), "watts": WATTS}),
    "text": lambda: {"time": [f"{time}Z" for time in SECONDS], "watts": WATTS},
    "duckdb": lambda: relation(AWARE, "UTC"),
    "duckdb Berlin": lambda: relation(BERLIN, "Europe/Berlin"),
}
BASE = released(NAIVE["pandas"]())


@pytest.mark.parametrize("kind", NAIVE)
def test_naive_times_stay_naive(kind: str) -> None:
    found = released(NAIVE[kind]())
    assert bits(found.rows().values) == bits(BASE.rows().values)
    assert found.zone is None
    frame, lazy, table = found.to_pandas(), found.to_polars(), found.to_arrow()
    assert list(frame.columns) == ["time", "position", "value", "level"]
    assert np.array_equal(frame["time"].to_numpy().astype(TIMES.dtype), TIMES)
    assert lazy["time"].dtype.time_zone is None
    assert table.schema.field("time").type.tz is None


@pytest.mark.parametrize("kind", ZONED)
def test_times_with_a_zone_keep_the_instant(kind: str) -> None:
    found = released(ZONED[kind]())
    assert bits(found.rows().values) == bits(BASE.rows().values)
    frame, lazy, table = found.to_pandas(), found.to_polars(), found.to_arrow()
    assert (pd.DatetimeIndex(frame["time"]) == AWARE).all()
    assert lazy["time"].dtype.time_zone == found.zone
    assert table.schema.field("time").type.tz == found.zone
    assert lazy["time"][5] == AWARE[5].to_pydatetime() == table["time"][5].as_py()


def test_a_zone_can_be_given() -> None:
    found = released(NAIVE["pandas"](), zone="Europe/Berlin")
    assert found.zone == "Europe/Berlin"
    wall = pd.DatetimeIndex(found.to_pandas()["time"]).tz_localize(None)
    assert np.array_equal(wall.to_numpy().astype(TIMES.dtype), TIMES)
    offset = released(NAIVE["pandas"](), zone="+02:00").to_polars()["time"]
    assert offset.dtype.time_zone == "UTC"  # polars knows no offsets
    assert offset[0] == datetime(2023, 12, 31, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2024-01-02", "2024-01-04"),
        (date(2024, 1, 2), date(2024, 1, 4)),
        (np.datetime64("2024-01-02"), "2024-01-04T00:00"),
        (pd.Timestamp("2024-01-02"), pd.Timestamp("2024-01-04")),
    ],
)
def test_ranges_by_time_are_ranges_by_position(start: Any, end: Any) -> None:
    assert BASE.query(start, end) == BASE.query(1440, 3 * 1440)
    assert BASE.query(start) == BASE.query(1440, 4 * 1440)


def test_a_range_is_given_once() -> None:
    with pytest.raises(tg.QueryError, match="once"):
        BASE.query("2024-01-02", from_="2024-01-02")
    with pytest.raises(tg.QueryError, match="no times"):
        tg.release(WATTS, epsilon=1, bound=40_000).query("2024-01-02", "2024-01-03")


def test_a_table_by_day_keeps_the_zone() -> None:
    days = released(ZONED["pandas"](), zone="Europe/Berlin").table(every="1d")
    frame = days.to_pandas()
    assert frame["rows"].tolist() == [1380, 1440, 1440, 1440, 60]
    assert str(frame["time"].dt.tz) == "Europe/Berlin"
    assert frame["time"][1] == pd.Timestamp("2024-01-02", tz="Europe/Berlin")
    assert "<svg" in days._repr_html_()
    assert "2024-01-02T00:00:00+01:00" in days._repr_html_()


@pytest.mark.parametrize("name", ["r.csv", "r.jsonl", "r.parquet", "r.csv.gz"])
def test_files_have_times_too(tmp_path: Path, name: str) -> None:
    running = tg.adaptive(epsilon=1, bound=40_000, horizon=WATTS.size).start(tg.seeded(3))
    from tidegate.io import Batch

    times = tg.read_times(AWARE)
    transfer([Batch(WATTS, times=times)], running, tmp_path / name)
    file = tg.open(tmp_path / name)
    assert file.zone == "UTC"
    assert (pd.DatetimeIndex(file.to_pandas()["time"]) == AWARE).all()
    found, expected = file.query("2024-01-02", "2024-01-04"), BASE.query(1440, 3 * 1440)
    assert found.estimate == pytest.approx(expected.estimate)
    assert len(file.table(every="6h")) == 16
    assert "2024-01-04T23:59:00Z" in file._repr_html_()


def test_sums_by_time_in_sql(tmp_path: Path) -> None:
    import tidegate.duckdb
    from tidegate.io import Batch

    running = tg.adaptive(epsilon=1, bound=40_000, horizon=WATTS.size).start(tg.seeded(3))
    path = tmp_path / "r.csv"
    transfer([Batch(WATTS, times=tg.read_times(AWARE))], running, path)
    connection = duckdb.connect()
    tidegate.duckdb.register(connection)
    expected = tg.open(path).query("2024-01-02", "2024-01-04").estimate
    for first, last in (
        ("date '2024-01-02'", "date '2024-01-04'"),
        ("timestamp '2024-01-02'", "timestamp '2024-01-04'"),
        ("timestamptz '2024-01-02 00:00:00Z'", "timestamptz '2024-01-04 00:00:00Z'"),
        ("'2024-01-02T00:00Z'", "'2024-01-04'"),
        ("1440", "'2024-01-04'"),
    ):
        sql = f"select tidegate_sum('{path}', {first}, {last}).estimate"
        assert connection.execute(sql).fetchone() == (expected,)
    with pytest.raises(duckdb.Error, match="neither ISO 8601"):
        connection.execute(f"select tidegate_sum('{path}', 0, 'noon')").fetchone()
    connection.close()


def test_a_picture_has_a_time_axis() -> None:
    pytest.importorskip("matplotlib", reason="tables need the extra [tables]").use("Agg")
    from matplotlib import dates, pyplot

    axes = released(ZONED["pandas"](), zone="Europe/Berlin").plot()
    assert axes.get_xlabel() == "time (Europe/Berlin)"
    last = dates.num2date(axes.get_xlim()[1]).replace(tzinfo=None)
    assert last == datetime(2024, 1, 5, 0, 59)  # noqa: DTZ001  # what the wall clock showed
    pyplot.close("all")


SECRET = "471147114711"


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([*TIMES[:2], None], "time at position 2 is missing"),
        ([*SECONDS[:2].astype(str), SECRET], "time at position 2"),
        ([TIMES[1], TIMES[0], TIMES[2]], "time at position 1"),
        (TIMES[:2], "3 values but 2 times|times"),
    ],
)
def test_bad_times_are_refused_before_anything_is_spent(times: Any, message: str) -> None:
    with pytest.raises(tg.TidegateError, match=message) as error:
        tg.release([1, 2, 3], time=times, epsilon=9, bound=10)
    assert SECRET not in str(error.value)


def test_a_missing_time_column_is_named() -> None:
    with pytest.raises(tg.SettingError, match="time: the table has no column 'when'"):
        released(NAIVE["pandas"](), time="when")


def test_the_index_of_a_frame_may_be_the_time() -> None:
    series = pd.Series(WATTS, index=AWARE, name="watts")
    found = released(series, value=None, time=series.index)
    assert (pd.DatetimeIndex(found.to_pandas()["time"]) == AWARE).all()


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_days_are_those_of_the_columns_own_zone(library):
    """January in Berlin begins at 23:00 of universal time: asked without a zone, that is meant."""
    times = pd.date_range("2024-01-01", periods=48, freq="h", tz="Europe/Berlin")
    column = {"pandas": pd.Series, "polars": pl.Series, "pyarrow": pa.array}[library](times)
    released = tg.release(np.ones(48), time=column, epsilon=10, bound=2)
    assert released.zone == "Europe/Berlin"
    answer = released.query("2024-01-02", "2024-01-03")
    assert (answer.start, answer.end) == (24, 48)
    days = released.table("1d")
    assert days.rows.tolist() == [24, 24]
    first, _, *rows = repr(days).splitlines()[1:]
    assert first.split() == ["from", "rows", "sum", "low", "high"]
    assert [row.split()[:2] for row in rows] == [
        ["2024-01-01T00:00:00+01:00", "24"],
        ["2024-01-02T00:00:00+01:00", "24"],
    ]


@pytest.mark.parametrize("late", [False, True])
def test_many_ranges_by_time_are_asked_at_once(late: bool) -> None:
    times = pd.date_range("2024-01-01", periods=600, freq="15min").to_series(index=range(600))
    if late:
        times[300] = times[10]
    values = np.random.default_rng(0).gamma(2, 5, 600)
    released = tg.release(
        {"v": values, "t": times}, "v", time="t", epsilon=1, bound=50, late="keep"
    )
    starts, ends = ["2024-01-01", "2024-01-02T12:00"], ["2024-01-02", "2024-01-05"]
    found = released.queries(starts, ends)
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        one = released.query(start, end)
        assert (found.estimate[number], found.low[number]) == (one.estimate, one.low)
        assert found.high[number] == one.high
    stamps = (pd.DatetimeIndex([pd.Timestamp(one) for one in some]) for some in (starts, ends))
    dates = released.queries(*stamps)
    assert dates.estimate.tolist() == found.estimate.tolist()
    with pytest.raises(tg.QueryError, match="no row"):
        released.queries(["2025-01-01"], ["2025-01-02"])
    with pytest.raises(tg.QueryError, match="same length"):
        released.queries(starts, ends[:1])
    with pytest.raises(tg.QueryError, match="after"):
        released.queries(ends, starts)


def test_a_period_may_be_a_length_of_time() -> None:
    hours = pd.date_range("2024-01-01", periods=400, freq="h")
    frame = pd.DataFrame({"v": np.ones(400)}, index=hours)
    uneven = frame.iloc[[0, 1, 3, *range(4, 300)]]
    released = tg.release(frame, "v", epsilon=1, bound=5, period=["1d", 168])
    assert released.pipeline.estimator.period == (24, 168)  # type: ignore[attr-defined]
    with pytest.raises(tg.SettingError, match="evenly spaced"):
        tg.release(uneven, "v", epsilon=1, bound=5, period="1d")
    with pytest.raises(tg.SettingError, match="number of rows, such as 96"):
        tg.adaptive(1, 50, period="1d")


def test_several_columns_are_saved_and_opened_together(tmp_path: Path) -> None:
    values = np.random.default_rng(1).gamma(2, 5, (2, 300))
    table = {"fare": values[0], "Tip amount": values[1]}
    released = tg.release(table, [*table], epsilon=1, bound=50)
    names = released.save(tmp_path / "out.csv")
    assert [Path(name).name for name in names] == ["out.fare.csv", "out.Tip_amount.csv"]
    opened = tg.released.open_columns(tmp_path / "out.csv", [*table])
    assert opened.guarantee == released.guarantee
    ratio, known = opened.ratio("Tip amount", "fare"), released.ratio("Tip amount", "fare")
    assert (ratio.estimate, ratio.low) == (known.estimate, known.low)
    with pytest.raises(tg.SettingError, match="copy those"):
        opened.save(tmp_path / "again.csv")


def test_a_relation_of_times_is_read_with_its_zone() -> None:
    """Caught: instants of DuckDB were naive times, and an hour off with another `zone`."""
    times = tg.read_times(relation(BERLIN, "Europe/Berlin")["time"])
    assert times.clock.zone == "Europe/Berlin"
    assert (times.ticks == tg.read_times(AWARE).ticks).all()
    assert tg.read_times(relation()["time"]).clock.zone is None
    in_berlin = released(relation(AWARE, "UTC"), zone="Europe/Berlin")
    assert in_berlin.to_pandas()["time"][0] == AWARE[0]
    with pytest.raises(tg.InputError, match="give one column of times"):
        tg.read_times(relation())
