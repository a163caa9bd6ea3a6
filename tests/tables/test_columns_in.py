"""Columns of other libraries go in: missing values keep their places, text is refused unseen."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tidegate as tg
from tests.fresh_process import printed_by
from tests.laws.catalogue import bits
from tidegate.lattice import Lattice

pd = pytest.importorskip("pandas", reason="tables need the extra [tables]")
pl = pytest.importorskip("polars", reason="tables need the extra [tables]")
pa = pytest.importorskip("pyarrow", reason="tables need the extra [tables]")
duckdb = pytest.importorskip("duckdb", reason="tables need the extra [tables]")

WHOLE = Lattice(Fraction(100), Fraction(1))
CENTS = Lattice(Fraction(30), Fraction(1, 100))
NAN, SECRET = float("nan"), "471147114711"
DAY = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


class ByStream:
    """An object of an unknown library, with a stream of Arrow arrays."""

    def __init__(self, inside: Any) -> None:
        self._inside = inside

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._inside.__arrow_c_stream__(requested_schema)


class ByArray:
    """The same with one array."""

    def __init__(self, inside: Any) -> None:
        self._inside = inside

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self._inside.__arrow_c_array__(requested_schema)


def units(values: Any, lattice: Lattice = WHOLE) -> list[int]:
    return lattice.units(lattice.numbers(values)).tolist()


def sql(query: str) -> Any:
    connection = duckdb.connect()
    connection.sql(
        "create table t as select * from (values (1, 1.5::decimal(9, 2), 'a', true), "
        "(null, null, null, null), (300, 3.25, 'c', false)) as rows(whole, exact, word, flag)"
    )
    return connection.sql(query)


def made(values: Any) -> Any:
    """A relation holds its connection, so it is made in the test and not when it is collected."""
    return values() if callable(values) else values


# One row that is missing lies between two that are not, in every form that a library has for it.
MISSING: dict[str, Callable[[], Any]] = {
    "pandas float": lambda: pd.Series([1, NAN, 300]),
    "pandas Int64": lambda: pd.Series([1, None, 300], dtype="Int64"),
    "pandas UInt64": lambda: pd.Series([1, None, 2**64 - 1], dtype="UInt64"),
    "pandas Float64": lambda: pd.Series([1, pd.NA, 300], dtype="Float64"),
    "pandas boolean": lambda: pd.Series([True, None, True], dtype="boolean") * 1,
    "pandas objects": lambda: pd.Series([1, pd.NA, Decimal(300)], dtype=object),
    "pandas objects, None": lambda: pd.Series([1, None, 300], dtype=object),
    "pandas objects, NaT": lambda: pd.Series([1, pd.NaT, 300], dtype=object),
    "pandas arrow": lambda: pd.Series([1, None, 300], dtype="int64[pyarrow]"),
    "pandas arrow decimal": lambda: pd.Series(
        [Decimal(1), None, Decimal(300)], dtype=pd.ArrowDtype(pa.decimal128(9, 2))
    ),
    "pandas categories": lambda: pd.Series([1, None, 300]).astype("category"),
    "pandas sparse": lambda: pd.Series(pd.arrays.SparseArray([1, NAN, 300])),
    "pandas array": lambda: pd.array([1, None, 300]),
    "pandas index": lambda: pd.Index([1, None, 300]),
    "pandas frame": lambda: pd.DataFrame({"watts": [1, None, 300]}),
    "polars": lambda: pl.Series([1, None, 300]),
    "polars float": lambda: pl.Series([1.0, None, 300.0]),
    "polars NaN": lambda: pl.Series([1.0, NAN, 300.0]),
    "polars UInt64": lambda: pl.Series([1, None, 2**64 - 1], dtype=pl.UInt64),
    "polars Int128": lambda: pl.Series([1, None, 2**100], dtype=pl.Int128),
    "polars decimal": lambda: pl.Series([Decimal(1), None, Decimal(300)]),
    "polars objects": lambda: pl.Series([1, None, Decimal(300)], dtype=pl.Object),
    "polars chunks": lambda: pl.concat([pl.Series([1, None]), pl.Series([300])], rechunk=False),
    "polars slice": lambda: pl.Series([9, 1, None, 300, 9])[1:4],
    "polars frame": lambda: pl.DataFrame({"watts": [1, None, 300]}),
    "arrow": lambda: pa.array([1, None, 300]),
    "arrow uint64": lambda: pa.array([1, None, 2**64 - 1], pa.uint64()),
    "arrow half": lambda: pa.array([np.float16(1), None, np.float16(300)], pa.float16()),
    "arrow decimal128": lambda: pa.array([Decimal(1), None, Decimal(300)]),
    "arrow decimal256": lambda: pa.array([1, None, 300], pa.int64()).cast(pa.decimal256(30, 2)),
    "arrow dictionary": lambda: pa.array([1, None, 300]).dictionary_encode(),
    "arrow chunks": lambda: pa.chunked_array([[1], [], [None, 300]]),
    "arrow dictionary chunks": lambda: pa.chunked_array(
        [pa.array([1, None]).dictionary_encode(), pa.array([300]).dictionary_encode()]
    ),
    "arrow slice": lambda: pa.array([9, None, 1, None, 300, None])[2:5],
    "arrow chunks, sliced": lambda: pa.chunked_array([[9, 1], [None, 300, 9]])[1:4],
    "arrow table": lambda: pa.table({"watts": [1, None, 300]}),
    "arrow batch": lambda: pa.record_batch({"watts": [1, None, 300]}),
    "duckdb": lambda: sql("select whole from t"),
    "duckdb column": lambda: sql("from t")["whole"],
    "duckdb decimal": lambda: sql("select (whole * 1.00)::decimal(9, 2) from t"),
    "duckdb hugeint": lambda: sql("select whole::hugeint from t"),
    "stream": lambda: ByStream(pa.chunked_array([[1], [None, 300]])),
    "stream of polars": lambda: ByStream(pl.Series([1, None, 300])),
    "stream of a table": lambda: ByStream(pa.table({"watts": [1, None, 300]})),
    "array": lambda: ByArray(pa.array([9, 1, None, 300])[1:]),
    "array of a batch": lambda: ByArray(pa.record_batch({"watts": [1, None, 300]})),
    "masked": lambda: np.ma.array([1, 7, 300], mask=[False, True, False]),
    "list": lambda: [1, None, 300],
    "list with NA": lambda: [1, pd.NA, 300],
    "list with NaT": lambda: [1, pd.NaT, 300],
}  # fmt: skip


@pytest.mark.parametrize("kind", MISSING)
def test_a_missing_value_counts_as_zero_in_its_place(kind: str) -> None:
    # Catches: a null that is dropped, which would shift every later position.
    last = 1 if kind == "pandas boolean" else 100
    assert units(MISSING[kind]()) == [1, 0, last]


WHOLES: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.Series([5, -5, 300], dtype="int16"),
    "pandas Int64": lambda: pd.Series([5, -5, 300], dtype="Int64"),
    "pandas reversed": lambda: pd.Series([300, 0, -5, 0, 5])[::-2],
    "pandas categories": lambda: pd.Series([5, -5, 300]).astype("category"),
    "polars": lambda: pl.Series([5, -5, 300], dtype=pl.Int16),
    "arrow": lambda: pa.array([5, -5, 300], pa.int16()),
    "duckdb": lambda: sql("select * from (values (5::smallint), (-5), (300))"),
}


@pytest.mark.parametrize("kind", WHOLES)
def test_whole_numbers_are_clamped(kind: str) -> None:
    assert units(WHOLES[kind]()) == [5, 0, 100]


@pytest.mark.parametrize(
    "values",
    [
        pd.Series([0.126, 31, 0.07]),
        pd.Series([Decimal("0.126"), Decimal(31), Decimal("0.07")], dtype=object),
        pl.Series([Decimal("0.126"), Decimal(31), Decimal("0.07")]),
        pa.array([Decimal("0.126"), Decimal(31), Decimal("0.07")]),
        lambda: sql("select unnest([0.126, 31, 0.07]::decimal(9, 3)[])"),
    ],
    ids=["pandas", "pandas decimals", "polars decimals", "arrow decimals", "duckdb decimals"],
)
def test_fractions_are_rounded_to_the_resolution(values: Any) -> None:
    assert units(made(values), CENTS) == [13, 3000, 7]


@pytest.mark.parametrize(
    "flags",
    [
        pd.Series([True, False, True]),
        pd.Series([True, None, True], dtype="boolean"),
        pd.Series([True, None, True], dtype="bool[pyarrow]"),
        pl.Series([True, None, True]),
        pa.array([False, True, None, True])[1:],
        lambda: sql("select not flag is null and whole > 0 from t"),
    ],
)
def test_a_flag_counts_as_one(flags: Any) -> None:
    assert units(made(flags)) == [1, 0, 1]


@pytest.mark.parametrize(
    "empty",
    [
        pd.Series([]),
        pd.Series([], dtype="Int64"),
        pd.Series([], dtype=str),
        pd.DataFrame({"watts": []}),
        pl.Series([], dtype=pl.Int64),
        pl.Series([], dtype=pl.String),
        pl.DataFrame({"watts": []}),
        pa.array([], pa.int64()),
        pa.chunked_array([], pa.float64()),
        pa.table({"watts": pa.array([], pa.int64())}),
        lambda: sql("select whole from t where whole > 1000"),
    ],
)
def test_an_empty_column_is_no_error(empty: Any) -> None:
    release = pipeline().start(tg.seeded(1))
    assert len(release.push(made(empty))) == 0
    assert release.position == 0


@pytest.mark.parametrize(
    "nothing",
    [
        pd.Series([None, None], dtype=object),
        pd.Series([None, None], dtype="string"),
        pd.Series([None, None], dtype="category"),
        pl.Series([None, None]),
        pl.Series([None, None], dtype=pl.String),
        pa.nulls(2),
        pa.array([None, None], pa.string()),
    ],
)
def test_a_column_of_missing_values_is_zeros(nothing: Any) -> None:
    # Many tools give a column in which all is missing a type of its own.
    assert units(nothing) == [0, 0]


REFUSED: dict[str, Callable[[], Any]] = {
    "pandas text": lambda: pd.Series([None, SECRET]),
    "pandas string": lambda: pd.Series([None, SECRET], dtype="string"),
    "pandas objects": lambda: pd.Series([1, SECRET], dtype=object),
    "pandas arrow text": lambda: pd.Series([None, SECRET], dtype="string[pyarrow]"),
    "pandas categories": lambda: pd.Series([None, SECRET]).astype("category"),
    "pandas times": lambda: pd.Series([pd.NaT, DAY]),
    "pandas list": lambda: pd.Series([1, [int(SECRET)]], dtype=object),
    "polars text": lambda: pl.Series([None, SECRET]),
    "polars categories": lambda: pl.Series([None, SECRET], dtype=pl.Categorical),
    "polars enum": lambda: pl.Series([None, SECRET], dtype=pl.Enum([SECRET])),
    "polars times": lambda: pl.Series([None, DAY]),
    "polars objects": lambda: pl.Series([1, SECRET], dtype=pl.Object),
    "polars lists": lambda: pl.Series([None, [int(SECRET)]]),
    "arrow text": lambda: pa.array([None, SECRET]),
    "arrow view": lambda: pa.array([None, SECRET], pa.string_view()),
    "arrow dictionary": lambda: pa.array([None, SECRET]).dictionary_encode(),
    "arrow chunks": lambda: pa.chunked_array([[None], [SECRET]], pa.string()),
    "arrow times": lambda: pa.array([None, int(SECRET)], pa.timestamp("s")),
    "arrow lists": lambda: pa.array([None, [int(SECRET)]]),
    "duckdb text": lambda: sql(f"select unnest([null, '{SECRET}'])"),
    "duckdb enum": lambda: sql(f"select unnest([null, '{SECRET}']::enum('{SECRET}')[])"),
    "stream": lambda: ByStream(pa.chunked_array([[None], [SECRET]], pa.string())),
    "array": lambda: ByArray(pa.array([None, SECRET])),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_text_is_refused_by_its_position_and_never_shown(kind: str) -> None:
    release, untouched = pipeline().start(tg.seeded(1)), pipeline().start(tg.seeded(1))
    for one in (release, untouched):
        one.push(np.arange(20))
    said = "position 21 is not a number"
    if kind.endswith("times"):  # by the type of the column
        said = "values at position 20 are times, not numbers"
    with pytest.raises(tg.InputError, match=said) as caught:
        release.push(REFUSED[kind]())
    assert SECRET not in str(caught.value) + repr(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert bits(release.push(np.arange(50))) == bits(untouched.push(np.arange(50)))


TABLES: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame({"a": [1], SECRET: [2]}),
    "polars": lambda: pl.DataFrame({"a": [1], SECRET: [2]}),
    "polars lazy": lambda: pl.LazyFrame({"a": [1]}),
    "polars expression": lambda: pl.col("a"),
    "arrow": lambda: pa.table({"a": [1], SECRET: [2]}),
    "arrow scalar": lambda: pa.scalar(int(SECRET)),
    "pandas groups": lambda: pd.Series([int(SECRET)]).groupby([0]),
    "duckdb": lambda: sql(f"select 1 as a, 2 as b{SECRET}"),
    "duckdb expression": lambda: duckdb.ColumnExpression("a"),
    "stream": lambda: ByStream(pa.table({"a": [1], SECRET: [2]})),
}


@pytest.mark.parametrize("kind", TABLES)
def test_what_is_not_one_column_is_refused(kind: str) -> None:
    # A first row of a file without header becomes the names of columns: they are not shown either.
    with pytest.raises(
        tg.InputError, match=r"give (one column|a relation|a Series|an Array)"
    ) as error:
        pipeline().start(tg.seeded(1)).push(TABLES[kind]())
    assert SECRET not in str(error.value)


class Broken:
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        raise ValueError(f"could not convert {SECRET}")


def test_errors_of_a_library_are_not_quoted() -> None:
    with pytest.raises(tg.InputError, match=r"position 0 cannot be read .*ValueError") as error:
        pipeline().start(tg.seeded(1)).push(Broken())
    assert SECRET not in str(error.value)
    assert error.value.__context__ is None


def pipeline(**more: Any) -> tg.Pipeline:
    return tg.Pipeline(
        threshold=tg.threshold.Fixed(100),
        perturber=tg.perturb.Hierarchy(epsilon=1, horizon=60, fanout=4, skipped=1),
        **more,
    )


@pytest.mark.parametrize("kind", MISSING)
def test_every_library_gives_the_same_bits(kind: str) -> None:
    # One law: a column of any library is the list of its values.
    first = 1 if kind == "pandas boolean" else 300
    expected = pipeline().start(tg.seeded(1)).push([1, None, first])
    assert bits(pipeline().start(tg.seeded(1)).push(MISSING[kind]())) == bits(expected)


def test_a_series_of_pandas_keeps_index_and_name() -> None:
    index = pd.date_range("2024-01-01", periods=30, freq="h", tz="Europe/Berlin")
    series = pd.Series(range(30), index=index, name="watts")
    released = pipeline().start(tg.seeded(1)).push(series)
    assert type(released) is pd.Series
    assert released.index.equals(index)
    assert released.name == "watts"
    assert bits(released) == bits(pipeline().start(tg.seeded(1)).push(np.arange(30)))


def test_the_index_of_a_held_out_row_is_not_kept() -> None:
    release = tg.tops(epsilon=1, bound=9, horizon=50, holdout=10).start(tg.seeded(1))
    first = release.push(pd.Series(range(4), index=list("abcd")))
    assert (type(first), first.size) == (pd.Series, 0)
    second = release.push(pd.Series(range(10), index=list("efghijklmn")))
    assert second.index.tolist() == list("klmn")


def test_a_series_of_polars_keeps_its_name() -> None:
    released = pipeline().start(tg.seeded(1)).push(pl.Series("watts", range(30)))
    assert type(released) is pl.Series
    assert (released.name, released.dtype) == ("watts", pl.Float64)
    assert bits(released.to_numpy()) == bits(pipeline().start(tg.seeded(1)).push(np.arange(30)))


@pytest.mark.parametrize(
    "make", [pa.array, lambda x: pa.chunked_array([x]), pd.Index, pl.DataFrame]
)
def test_all_else_gives_an_array(make: Callable[[Any], Any]) -> None:
    assert type(pipeline().start(tg.seeded(1)).push(make([1, 2, 3]))) is np.ndarray


def test_users_may_be_a_column_too() -> None:
    unit = tg.units.UserHorizon(most=2)
    outs = [
        tg.adaptive(epsilon=5, bound=9, horizon=2000, unit=unit)
        .start(tg.seeded(3))
        .push(make([5, 6, 7, 8]), users=make(["a", "b", None, "a"]))
        for make in (list, pd.Series, pl.Series, pa.array)
    ]
    assert len({bits(np.asarray(out)) for out in outs}) == 1


@pytest.mark.parametrize("missing", [pd.NA, pd.NaT, None, NAN], ids=str)
def test_one_missing_value_counts_as_zero(missing: Any) -> None:
    one, two = pipeline().start(tg.seeded(1)), pipeline().start(tg.seeded(1))
    assert bits([one.push(missing) for _ in range(9)]) == bits([two.push(0) for _ in range(9)])


def test_the_input_is_not_modified() -> None:
    series, column = pd.Series([NAN, -5.0, 300.0]), pl.Series([None, -5.0, 300.0])
    before = series.copy(), column.clone()
    for values in (series, column):
        pipeline().start(tg.seeded(1)).push(values)
    pd.testing.assert_series_equal(series, before[0])
    assert column.equals(before[1])


def test_the_core_imports_none_of_them() -> None:
    # Catches: an import at the top of a module, which everybody would pay for.
    code = (
        "import sys, tidegate; release = tidegate.adaptive(epsilon=1, bound=9).start();"
        "release.push([1, 2]); release.push(3);"
        "print([*{'pandas', 'polars', 'pyarrow', 'duckdb', 'pyspark'} & set(sys.modules)])"
    )
    assert printed_by(code).strip() == "[]"
