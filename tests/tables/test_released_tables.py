"""`tg.release` and `tg.open`: whole tables in one call, released files as tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.fresh_process import printed_by
from tests.laws.catalogue import bits
from tidegate.durable import transfer

pd = pytest.importorskip("pandas", reason="tables need the extra [tables]")
pl = pytest.importorskip("polars", reason="tables need the extra [tables]")
pa = pytest.importorskip("pyarrow", reason="tables need the extra [tables]")
duckdb = pytest.importorskip("duckdb", reason="tables need the extra [tables]")

FARES = tg.synthetic.baskets(3000)
SECRET = "471147114711"


def relation() -> Any:
    connection = duckdb.connect()
    connection.register("trips", pa.table({"fare": FARES, "zone": np.arange(3000) % 7}))
    return connection.table("trips")


class ByStream:
    def __init__(self, inside: Any) -> None:
        self._inside = inside

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._inside.__arrow_c_stream__(requested_schema)


TABLES: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame({"zone": "x", "fare": FARES}),
    "pandas nullable": lambda: pd.DataFrame({"fare": pd.array(FARES, dtype="Int64")}),
    "polars": lambda: pl.DataFrame({"zone": "x", "fare": FARES}),
    "arrow": lambda: pa.table({"zone": FARES, "fare": FARES}),
    "arrow chunks": lambda: pa.table({"fare": pa.chunked_array([FARES[:9], FARES[9:]])}),
    "arrow batch": lambda: pa.record_batch({"fare": FARES}),
    "arrow reader": lambda: pa.table({"fare": FARES}).to_reader(),
    "duckdb": relation,
    "dictionary": lambda: {"fare": FARES.tolist(), "zone": None},
    "stream": lambda: ByStream(pa.table({"fare": FARES, "zone": FARES})),
}


def released(table: Any, value: Any = "fare", **more: Any) -> tg.Released:
    return tg.release(table, value, epsilon=1, bound=500, randomness=tg.seeded(3), **more)


EXPECTED = released(FARES, None)


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_of_any_library_gives_the_same_bits(kind: str) -> None:
    found = released(TABLES[kind]())
    assert bits(found.rows().values) == bits(EXPECTED.rows().values)
    assert found.query(100, 2000) == EXPECTED.query(100, 2000)
    assert found.title == "Released: fare"


def test_it_releases_what_a_pipeline_does() -> None:
    running = tg.adaptive(epsilon=1, bound=500, horizon=3000).start(tg.seeded(3))
    assert bits(running.push(FARES)) == bits(EXPECTED.rows().values)
    assert running.query(100, 2000) == EXPECTED.query(100, 2000)
    assert running.threshold == EXPECTED.threshold


def test_the_guarantee_is_that_of_the_settings() -> None:
    fresh = tg.release(FARES, epsilon="0.5", bound=500)
    assert fresh.guarantee == str(tg.adaptive(epsilon="0.5", bound=500).guarantee)
    windows = tg.release(FARES, epsilon=9, bound=500, unit=tg.units.Window(length=3))
    assert "window of 3" in windows.guarantee


def test_users_come_from_a_column() -> None:
    table = pd.DataFrame({"fare": FARES, "rider": np.arange(3000) % 50})
    unit = tg.units.UserHorizon(most=60)
    one = released(table, users="rider", unit=unit)
    two = released(table["fare"], None, users=table["rider"], unit=unit)
    assert bits(one.rows().values) == bits(two.rows().values)


def test_another_method_can_be_named() -> None:
    found = released(FARES, None, method="tops", holdout=500)
    assert len(found) == 2500
    assert found.rows().values.size == 2500


def test_a_short_table_has_its_sum_measured() -> None:
    found = released([5, 6, 7], None)
    assert len(found) == 3
    assert found.query(0, 3).standard_error > 0


@pytest.mark.parametrize(
    "empty",
    [
        {"fare": []},
        pd.DataFrame({"fare": []}),
        pl.DataFrame({"fare": []}),
        pa.table({"fare": pa.array([], pa.int64())}),
    ],
)
def test_an_empty_table_is_refused_before_anything_is_spent(empty: Any) -> None:
    with pytest.raises(tg.InputError, match="no rows"):
        released(empty)


@pytest.mark.parametrize("kind", [kind for kind in TABLES if kind != "dictionary"])
def test_a_missing_column_is_named_and_the_others_are_not(kind: str) -> None:
    with pytest.raises(tg.SettingError, match="value: the table has no column 'fares'") as error:
        released(TABLES[kind](), "fares")
    assert "zone" not in str(error.value)


def test_a_column_that_is_there_twice_is_refused() -> None:
    twice = pd.DataFrame([[1, 2]], columns=["fare", "fare"])
    with pytest.raises(tg.SettingError, match="or two of them"):
        released(twice)


def test_a_table_needs_the_name_of_a_column() -> None:
    with pytest.raises(tg.SettingError, match="value: name the column"):
        released(pd.DataFrame({"fare": FARES, "tip": FARES}), None)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"fare": [1, SECRET, 2, 3, 4]}),
        pl.DataFrame({"fare": [None, SECRET, None, None, None]}),
        pa.table({"fare": pa.array([None, SECRET, None, None, None])}),
        {"fare": [1, SECRET, 2, 3, 4]},
    ],
)
def test_text_is_refused_by_its_position(table: Any) -> None:
    with pytest.raises(tg.InputError, match="position 1 is not a number") as error:
        released(table)
    assert SECRET not in str(error.value)


def test_settings_are_checked() -> None:
    with pytest.raises(tg.SettingError, match="method: must be one of"):
        released(FARES, None, method="best")
    with pytest.raises(tg.SettingError, match="local model"):
        released(FARES, None, method="topl")
    with pytest.raises(tg.InputError, match="must be a list or an array"):
        released(5, None)


def test_released_rows_as_tables() -> None:
    frame, lazy, table = EXPECTED.to_pandas(), EXPECTED.to_polars(), EXPECTED.to_arrow()
    assert (
        list(frame.columns) == lazy.columns == table.column_names == ["position", "value", "level"]
    )
    for found in (frame["value"], lazy["value"], table["value"]):
        assert bits(np.asarray(found)) == bits(EXPECTED.rows().values)


def test_what_is_released_holds_nothing_raw() -> None:
    values = np.random.default_rng(1).integers(10**11, 10**12, 300)
    found = tg.release(values, epsilon=1, bound=10**12, randomness=tg.seeded(1))
    said = repr(found) + found._repr_html_().replace(",", "") + repr(vars(found))
    assert not [value for value in values.tolist() if str(value) in said]
    assert not any(isinstance(thing, tg.Release) for thing in vars(found).values())


# -- files ---------------------------------------------------------------------------------------


def written(path: Path) -> tg.Released | Any:
    running = tg.adaptive(epsilon=1, bound=500, horizon=3000).start(tg.seeded(3))
    transfer(FARES, running, path)
    return tg.open(path)


@pytest.mark.parametrize("name", ["r.csv", "r.jsonl", "r.parquet", "r.csv.gz", "r.jsonl.gz"])
def test_a_file_is_the_table_that_was_released(tmp_path: Path, name: str) -> None:
    file = written(tmp_path / name)
    assert len(file) == 3000
    assert np.allclose(file.rows().values, EXPECTED.rows().values, rtol=1e-12)
    assert np.allclose(file.rows().levels, EXPECTED.rows().levels, rtol=1e-6)
    one, two = file.query(100, 2000), EXPECTED.query(100, 2000)
    assert one.estimate == pytest.approx(two.estimate)
    assert one.low == pytest.approx(two.low)
    assert file.threshold == EXPECTED.threshold
    assert file.title == name
    assert file.table(every=500).to_pandas().shape[0] == 6
    frame = file.to_pandas()
    assert frame["position"].tolist() == list(range(3000))
    assert file.to_polars()["level"].to_numpy() == pytest.approx(frame["level"].to_numpy())
    assert "<svg" in file._repr_html_()


@pytest.mark.parametrize("make", [pd.Series, pl.Series, pa.array, lambda x: pa.chunked_array([x])])
def test_a_column_is_one_block_of_a_transfer(make: Callable[[Any], Any]) -> None:
    blocks: list[int] = []
    running = tg.adaptive(epsilon=1, bound=500, horizon=3000).start(tg.seeded(3))
    transfer(make(FARES), running, lambda first, values: None, progress=blocks.append)
    assert blocks == [3000]


def test_a_file_whose_extension_says_nothing(tmp_path: Path) -> None:
    running = tg.adaptive(epsilon=1, bound=500, horizon=3000).start(tg.seeded(3))
    transfer(FARES, running, tmp_path / "rows", format="jsonl")
    assert len(tg.open(tmp_path / "rows", format="jsonl").to_pandas()) == 3000


def test_tops_has_its_rows_from_the_first_released_one(tmp_path: Path) -> None:
    running = tg.tops(epsilon=1, bound=500, horizon=1000, holdout=500).start(tg.seeded(3))
    transfer(FARES, running, tmp_path / "r.csv")
    file = tg.open(tmp_path / "r.csv")
    assert len(file) == file.to_pandas().shape[0] == 2500


@pytest.mark.parametrize("name", ["no.csv", "other.csv"])
def test_what_is_no_released_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "other.csv").write_text("position,value\n0,1\n")
    with pytest.raises(tg.TidegateError, match=name):
        tg.open(tmp_path / name)


def test_a_picture_has_level_average_and_band(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="tables need the extra [tables]")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    axes = EXPECTED.plot()
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels[:2] == ["level", "95% band"]
    line = next(one for one in axes.lines if "moving average" in str(one.get_label()))
    window = int(str(line.get_label()).split()[3])
    at, mean = np.asarray(line.get_xdata())[-1], np.asarray(line.get_ydata())[-1]
    assert at == 3000
    assert mean == pytest.approx(EXPECTED.query(3000 - window, 3000).estimate / window)
    _, mine = pyplot.subplots()
    assert written(tmp_path / "r.csv").plot(window=100, ax=mine) is mine
    pyplot.close("all")
    for window in (0, 3001):
        with pytest.raises(tg.SettingError, match="window"):
            EXPECTED.plot(window=window)


def test_importing_the_core_reads_no_files() -> None:
    code = "import sys, tidegate; print('tidegate.io' in sys.modules, tidegate.open.__name__)"
    assert printed_by(code).split() == ["False", "open_released"]
