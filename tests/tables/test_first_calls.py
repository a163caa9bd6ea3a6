"""What a newcomer gives: taken as it is meant, or refused with what to write instead."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

import tidegate as tg
from tidegate.errors import InputError, QueryError, SettingError, SnapshotError, TidegateError
from tidegate.plan import expect, setting_warnings

VALUES = np.random.default_rng(1).gamma(2, 5, 2880)
BUDGET = {"epsilon": 1, "bound": 200}
DAY = 1440


@pytest.fixture(scope="module")
def times():
    pandas = pytest.importorskip("pandas")
    return pandas.date_range("2024-01-01", periods=VALUES.size, freq="min")


@pytest.mark.parametrize("method", ["tops", "flat", "square_root", "pak"])
def test_a_hold_out_that_nobody_chose_leaves_rows_to_release(method) -> None:
    released = tg.release(VALUES, method=method, **BUDGET)
    assert VALUES.size // 2 < len(released) < VALUES.size
    assert released.query().end == len(released)


def test_a_hold_out_that_leaves_nothing_is_refused_before_anything_is_spent() -> None:
    for given in ({"holdout": VALUES.size}, {"epsilon": 0.01}):
        with pytest.raises(
            SettingError, match=r"holdout: takes .* rows: nothing would be released"
        ):
            tg.release(VALUES, method="tops", **{**BUDGET, **given})


def test_what_is_no_table_is_refused_with_what_to_give() -> None:
    polars = pytest.importorskip("polars")
    for table, words in (
        (polars.LazyFrame({"v": VALUES}), r"collect\(\) it first"),
        ([{"v": 1.0}] * 100, "list of rows: give columns"),
        ("values.csv", "is a path: read it first"),
        (tg.adaptive(1, 200), "is a pipeline"),
        (VALUES, "ndarray has no columns"),
    ):
        with pytest.raises(InputError, match=words):
            tg.release(table, "v", **BUDGET)
    with pytest.raises(SettingError, match="for a table of 1 rows"):
        tg.release([5], **BUDGET)


@pytest.mark.parametrize(
    ("name", "words"), [("by", "keyed"), ("keys", "keyed"), ("every", r"tidegate\.events")]
)
def test_settings_of_other_streams_say_where_they_belong(name, words) -> None:
    with pytest.raises(SettingError, match=f"{name}: is not a setting of adaptive: .*{words}"):
        tg.release({"v": VALUES}, "v", **BUDGET, **{name: "1h"})


def test_an_index_of_times_is_not_lost(times) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"v": VALUES, 7: VALUES}, index=times)
    for released in (
        tg.release(frame["v"], **BUDGET),
        tg.release(frame, "v", **BUDGET),
        tg.release(frame, "v", time="index", **BUDGET),
        tg.release(frame, 7, **BUDGET),
        tg.release(frame[["v"]], **BUDGET),
    ):
        assert released.table("1d").rows.tolist() == [DAY, DAY]
    assert "time" not in tg.release({"v": VALUES}, **BUDGET).columns()
    with pytest.raises(SettingError, match="time: the index of the table has no times"):
        tg.release(frame.reset_index(drop=True), "v", time="index", **BUDGET)


def test_ranges_by_time_are_given_alike_everywhere(times) -> None:
    released = tg.release(VALUES, time=times, **BUDGET)
    keyed = tg.keyed(tg.adaptive(1, 200, horizon=VALUES.size), keys=["a"]).start()
    keyed.push(["a"] * VALUES.size, VALUES, times=times)
    for ask in (released.query, keyed.query, lambda *where: keyed.query(*where, key="a")):
        found = ask("2024-01-01", "2024-01-02")
        assert found.end - found.start == DAY
        assert ask(0.0, 1e3).end == 1000
        assert ask().end == VALUES.size
        with pytest.raises(QueryError, match="start must be a position, a whole number; or a time"):
            ask(0.5, 10)
    for every in (timedelta(days=1), np.timedelta64(1, "D"), "1d"):
        assert len(released.table(every)) == len(keyed.table(every)["a"]) == 2
        assert len(keyed.totals(every)) == 2
    with pytest.raises(QueryError, match="whole seconds"):
        released.table(timedelta(milliseconds=5))
    assert released.queries(["2024-01-01"], ["2024-01-02"])[0] == replace(
        released.query("2024-01-01", "2024-01-02"), span=""
    )
    assert "2 sums of 1 keys with 95% intervals" in str(keyed.table("1d"))
    assert "<table" in keyed.table("1d")._repr_html_()


def test_bytes_and_paths_are_told_apart() -> None:
    for given in (None, "state.bin"):
        for read in (tg.adaptive(1, 200).resume, tg.load_record):
            with pytest.raises(SnapshotError, match=r"give its bytes, such as Path\(path\)"):
                read(given)
    with pytest.raises(SettingError, match="path: must be the path of a released file"):
        tg.open(None)


def test_plans_take_one_length_and_central_pipelines() -> None:
    (one,) = expect(tg.adaptive(1, 200), 1440)
    assert one.length == 1440
    with pytest.raises(SettingError, match="must be one of the central model"):
        expect(tg.topl(1, 200), [1440])


def test_events_that_wait_say_how_ticks_are_released() -> None:
    log = tg.events(1, 200, every="1h", start="2024-01-01", horizon=168).start()
    log.push(["2024-01-01T00:10"], [3])
    with pytest.raises(QueryError, match=r"16 more ticks\. Ticks are released by advance\(until\)"):
        log.query(0, 1)


def test_a_late_row_names_the_argument() -> None:
    with pytest.raises(InputError, match="late='keep'"):
        tg.adaptive(1, 200).start().push([1, 2], times=["2024-01-02", "2024-01-01"])


def test_units_are_given_in_short() -> None:
    assert tg.units.Window(24) == tg.units.Window(length=24)
    assert tg.adaptive(1, 200, unit="window:24") == tg.adaptive(1, 200, unit=tg.units.Window(24))
    assert tg.units.UserHorizon(8).most == 8
    with pytest.raises(TidegateError, match="must be event, window:60 or user-horizon:8"):
        tg.adaptive(1, 200, unit="day")


def test_an_epsilon_that_protects_nothing_is_doubted() -> None:
    (said,) = setting_warnings(tg.adaptive(500, 1))
    assert "The order is epsilon, bound" in said
    assert not setting_warnings(tg.adaptive(1, 500))


@pytest.mark.parametrize("name", ["private.csv", "private.parquet"])
@pytest.mark.parametrize("method", ["adaptive", "tops"])
def test_what_was_released_can_be_kept(tmp_path, times, name, method) -> None:
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    released = tg.release(VALUES, time=times, method=method, **BUDGET)
    released.save(tmp_path / name)
    file = tg.open(tmp_path / name)
    assert file.guarantee == released.guarantee
    assert np.allclose(file.columns()["value"], released.columns()["value"])
    one, other = file.query(100, 2000), released.query(100, 2000)
    assert (one.estimate, one.low, one.high) == pytest.approx(
        (other.estimate, other.low, other.high), rel=1e-6
    )
    assert len(file.table("1d")) == len(released.table("1d"))


def test_the_limit_of_users_is_told() -> None:
    users = np.repeat([f"rider {one}" for one in range(10)], VALUES.size // 10)
    given = {"users": users, "epsilon": 20, "bound": 200, "unit": tg.units.UserHorizon(20)}
    released = tg.release(VALUES, **given)
    assert f"{VALUES.size - 10 * 20:,} rows counted as 0" in repr(released)
    same = tg.release(VALUES[::-1] * 0, **given)  # no value decides
    assert same.note == released.note
    assert not tg.release(VALUES, **BUDGET).note


def test_answers_are_told_as_they_were_asked(times) -> None:
    released = tg.release(VALUES * 4e3, time=times, epsilon=1, bound=800_000)
    keyed = tg.keyed(tg.adaptive(1, 200, horizon=VALUES.size), keys=["a"]).start()
    keyed.push(["a"] * VALUES.size, VALUES, times=times)
    for source in (released, keyed):
        day = str(source.query("2024-01-01", "2024-01-02"))
        assert day.startswith("sum from 2024-01-01T00:00:00 to 2024-01-02T00:00:00: ")
        rest = str(source.query("2024-01-02"))
        assert "from 2024-01-02T00:00:00 to the last row, at 2024-01-02T23:59:00" in rest
    by_position = released.query(0, DAY)
    assert str(by_position).startswith(f"sum over [0, {DAY}): ")
    assert released.query("2024-01-01", "2024-01-02") == by_position
    assert "e+" not in f"{by_position}{released.table('1d')}{released.table(DAY)}"


@pytest.mark.parametrize(("name", "ours"), [("column", "value"), ("times", "time")])
def test_arguments_of_other_places_are_named(name: str, ours: str) -> None:
    settings: dict[str, object] = {"epsilon": 1, "bound": 5, name: "fare"}
    with pytest.raises(SettingError, match=f"{name}: is called '{ours}' where"):
        tg.release({"fare": [1.0, 2.0]}, **settings)  # type: ignore[arg-type]
