"""Times: what is read, how it is written, and that no message shows a time."""

import re
import tracemalloc
import warnings
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidegate as tg
from tests.depth import examples
from tidegate.clock import SECOND, Clock
from tidegate.errors import InputError, SettingError
from tidegate.io.time_reader import TimeReader
from tidegate.timestamps import read_times

NOON = 1_706_788_800 * SECOND  # 2024-02-01T12:00:00Z


@pytest.mark.parametrize(
    ("given_", "ticks", "zone", "unit"),
    [
        ("2024-02-01T12:00:00", NOON, None, None),
        ("2024-02-01 12:00", NOON, None, None),
        ("2024-02-01", NOON - 12 * 3600 * SECOND, None, None),
        ("2024-02-01T12:00:00.000000001", NOON + 1, None, None),
        ("2024-02-01T12:00:00,5Z", NOON + SECOND // 2, "UTC", None),
        ("2024-02-01T13:00:00+01:00", NOON, "UTC", None),
        ("2024-02-01T07:30:00-0430", NOON, "UTC", None),
        (1_706_788_800, NOON, "UTC", "s"),
        (1_706_788_800.25, NOON + SECOND // 4, "UTC", "s"),
        ("1706788800000", NOON, "UTC", "ms"),
        (1_706_788_800_000_000, NOON, "UTC", "us"),
        (1_706_788_800_000_000_001, NOON + 1, "UTC", "ns"),
        (datetime(2024, 2, 1, 12), NOON, None, None),  # noqa: DTZ001  # naive is the point
        (datetime(2024, 2, 1, 13, tzinfo=timezone(timedelta(hours=1))), NOON, "+01:00", None),
        (date(2024, 2, 1), NOON - 12 * 3600 * SECOND, None, None),
        (np.datetime64("2024-02-01T12"), NOON, None, None),
    ],
)
def test_one_time(given_, ticks, zone, unit):
    found = read_times([given_])
    assert found.ticks.tolist() == [ticks]
    assert found.clock == Clock(zone, unit)
    again = read_times(found.clock.texts(found.ticks), clock=found.clock)
    assert again.ticks.tolist() == [ticks]


@given(
    st.lists(st.integers(-9 * 10**18, 9 * 10**18), min_size=1, max_size=40),
    st.sampled_from([None, "UTC", "Europe/Berlin", "Asia/Kathmandu", "-03:30"]),
    st.sampled_from([None, "s", "ms", "us", "ns"]),
)
def test_what_is_written_is_read_back(ticks, zone, unit):
    """In any company: many at once (the fast way) or one by one."""
    clock = Clock(zone if unit is None else zone or "UTC", unit)
    array = np.array(ticks)
    texts = clock.texts(array)
    assert texts == [clock.texts(array[at : at + 1])[0] for at in range(array.size)]
    assert read_times(texts, clock=clock).ticks.tolist() == ticks
    assert [read_times([text], clock=clock).ticks[0] for text in texts] == ticks


@settings(max_examples=examples(40))
@given(st.lists(st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)), min_size=20))  # noqa: DTZ001
def test_many_texts_of_one_kind_are_read_as_one_by_one(moments):
    for text in (
        [moment.isoformat(timespec="seconds") for moment in moments],
        [moment.isoformat(sep=" ", timespec="milliseconds") + "Z" for moment in moments],
    ):
        alone = [read_times([one]).ticks[0] for one in text]
        assert read_times(text).ticks.tolist() == alone


def one_by_one(local, zone):
    found = []
    for one in local:
        found.append(int(read_times([one], zone=zone, before=found).ticks[0]))
    return found


# When clocks are turned back there, by how many minutes.
TURNED_BACK = [
    ("Europe/Berlin", "2024-10-27T01:00", 60),
    ("America/New_York", "2024-11-03T06:00", 60),
    ("Australia/Lord_Howe", "2024-04-06T15:00", 30),
]


@pytest.mark.parametrize(("zone", "when", "back"), TURNED_BACK)
@pytest.mark.parametrize("parts", [1, 2, 3, 6])
def test_the_order_of_rows_tells_an_hour_that_comes_twice(zone, when, back, parts):
    """Regular readings, one in that hour too, around the moment at which clocks are turned back."""
    minutes = back // parts
    step = np.timedelta64(minutes, "m")
    instants = np.datetime64(when, "ns") + step * np.arange(-400 // minutes, 400 // minutes)
    ticks = instants.astype(np.int64)
    clock = Clock(zone)
    shown = clock.local(ticks)
    assert np.count_nonzero(np.diff(shown) != minutes * 60 * SECOND) == 1
    assert np.unique(shown).size == shown.size - parts
    local = shown.astype("datetime64[ns]").astype(str).tolist()
    assert read_times(local, zone=zone).ticks.tolist() == ticks.tolist()
    assert one_by_one(local, zone) == ticks.tolist()  # any split gives the same
    for table in (shown.astype("datetime64[ns]"), pa.array(shown.astype("datetime64[ns]"))):
        assert read_times(table, zone=zone).ticks.tolist() == ticks.tolist()
    reader, found = TimeReader(zone, "refuse"), []
    for start in range(0, len(local), 3):
        times, problem = reader.read(local[start : start + 3])
        assert problem is None
        found += times.ticks.tolist()
    assert found == ticks.tolist()


@pytest.mark.parametrize(("zone", "when", "back"), TURNED_BACK)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_rows_of_a_key_tell_an_hour_that_comes_twice(zone, when, back, size):
    """Readings of three keys, at other steps each, mixed and in batches of any size."""
    start, clock = np.datetime64(when, "ns").astype(np.int64), Clock(zone)
    rng = np.random.default_rng(1)
    # A row of the second hour can be told only if the key has one of the first: "seldom" has none.
    minutes = {"hourly": (back, 0), "often": (back // 3, 0), "seldom": (4 * back, 2 * back)}
    ticks = {
        key: start + (np.arange(-20, 20) * step + first) * 60 * SECOND
        for key, (step, first) in minutes.items()
    }
    keys = rng.permutation(np.repeat(list(ticks), 40))  # each key in its own order
    left = {key: iter(each.tolist()) for key, each in ticks.items()}
    expected = np.array([next(left[key]) for key in keys])
    local = clock.local(expected).astype("datetime64[ns]").astype(str)
    reader, found = TimeReader(zone, "keep"), []
    for at in range(0, keys.size, size):
        times, problem = reader.read(local[at : at + size].tolist(), keys[at : at + size])
        assert problem is None
        found += times.ticks.tolist()
    assert found == expected.tolist()
    mixed = TimeReader(zone, "keep").read(local.tolist())[0].ticks
    assert mixed.tolist() != expected.tolist()  # without keys it cannot be told


@pytest.mark.parametrize(("zone", "when", "back"), TURNED_BACK)
def test_rows_that_come_several_at_a_time_repeat_no_hour(zone, when, back):
    """Two rows at every time, or at irregular ones: an equal time says nothing."""
    start = Clock(zone).local(np.array([np.datetime64(when, "ns").astype(np.int64)]))[0]
    hours = start + np.arange(-4, 2) * back * 60 * SECOND
    for local in (np.repeat(hours, 2), np.insert(hours, 3, [hours[2] + SECOND, hours[3]])):
        found = read_times(local.astype("datetime64[ns]"), zone=zone).ticks
        again = local[np.flatnonzero(np.diff(local) == 0)]
        assert again.size
        assert (np.diff(found)[np.diff(local) == 0] == 0).all()


def test_the_time_of_an_event_does_not_depend_on_another_event():
    """It would move many of them, and who adds or removes one event could see it."""
    texts = ["2024-10-27T02:50", "2024-10-27T02:10", "2024-10-27T02:10", "2024-10-27T02:30"]
    alone = [int(read_times([one], zone="Europe/Berlin").ticks[0]) for one in texts]
    assert read_times(texts, zone="Europe/Berlin", by_order=False).ticks.tolist() == alone
    assert read_times(texts, zone="Europe/Berlin").ticks.tolist() != alone
    times, _ = TimeReader("Europe/Berlin", "keep", events=True).read(texts)
    assert times.ticks.tolist() == alone
    ticks = tg.events(epsilon=1, every="15min", start="2024-10-27", zone="Europe/Berlin").ticks
    assert ticks.read(texts).ticks.tolist() == alone


def test_an_hour_that_comes_twice_and_one_that_does_not_come():
    local = ["2024-10-27T01:30", "2024-10-27T02:30", "2024-10-27T02:00", "2024-10-27T03:00"]
    found = read_times(local, zone="Europe/Berlin")
    assert (np.diff(found.ticks) > 0).all()
    assert found.clock.texts(found.ticks)[1:3] == [
        "2024-10-27T02:30:00+02:00",
        "2024-10-27T02:00:00+01:00",
    ]
    assert one_by_one(local, "Europe/Berlin") == found.ticks.tolist()
    with pytest.raises(InputError, match="position 1 does not exist in Europe/Berlin"):
        read_times(["2024-03-31T01:30", "2024-03-31T02:30"], zone="Europe/Berlin")


SECRETS = ["hunter2", "2024-13-77", "4711.47.11", "99999-01-01", "1600-01-01", "", None, True, {}]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("count", [1, 40])
def test_no_message_shows_a_time(secret, count):
    good = ["2024-02-01T12:00:00"] * count
    with pytest.raises(InputError) as caught:
        read_times([*good, secret], position=100)
    assert f"position {100 + count}" in str(caught.value)
    if isinstance(secret, str) and secret:
        assert secret not in str(caught.value)
        assert not re.search(r"4711|hunter|13-77|99999", str(caught.value))


def test_kinds_are_not_mixed():
    with pytest.raises(InputError, match=r"position 1 .* another kind"):
        read_times(["2024-02-01", "2024-02-01T00:00Z"])
    with pytest.raises(InputError, match="another kind"):
        read_times(["2024-02-01"], clock=Clock("UTC"))
    with pytest.raises(InputError, match="another kind"):
        read_times([1_706_788_800], clock=Clock("UTC"))
    for zone in ("Europe/Nowhere", "secret", "+99", ""):
        with pytest.raises(SettingError, match="zone"):
            Clock(zone)


def test_columns_of_arrow_and_numpy():
    arrow = pytest.importorskip("pyarrow")
    moments = [datetime(2024, 2, 1, 12, tzinfo=UTC), datetime(2024, 2, 1, 13, tzinfo=UTC)]
    for unit in ("s", "ms", "us", "ns"):
        column = arrow.array(moments, arrow.timestamp(unit, tz="Europe/Berlin"))
        for one in (column, arrow.chunked_array([column[:1], column[1:]])):
            assert read_times(one).ticks.tolist() == [NOON, NOON + 3600 * SECOND]
            assert read_times(one).clock.zone == "Europe/Berlin"
            assert read_times(one, zone="UTC").clock.zone == "UTC"
    with pytest.raises(InputError, match="position 1 is missing"):
        read_times(arrow.array([moments[0], None], arrow.timestamp("s", tz="UTC")))
    numbers = np.array([1_706_788_800, 1_706_788_801])
    assert read_times(numbers).ticks.tolist() == [NOON, NOON + SECOND]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize(
    "number", [1e300, -1e300, 1.7e308, 2.0**63, np.longdouble("1e4000"), 9.3e18, 2**64 - 1]
)
def test_numbers_beyond_every_time_are_refused_and_not_computed_with(number, unit):
    # Catches: a product that overflows to infinity, and a cast of it: a warning, or any time.
    clock = Clock("UTC", unit)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for values in (np.array([number]), [number], [0.0, number]):
            with pytest.raises(InputError, match="position"):
                read_times(values, clock=clock)


@pytest.mark.parametrize(
    "texts",
    [
        ["2024-01-01T00:00:00", "2024-01-01T00:00:10.5", "2024-01-01T00:01:10.512"],
        ["2024-03-31T01:30:00+01:00", "2024-03-31T03:00:00+02:00", "2024-03-31T03:00:00.5+02:00"],
        ["2024-01-01T00:00Z", "2024-01-01T00:00:01Z", "2024-01-01"],
        ["999", "1000", "100000000000"],
        ["2024-01-01T00:00:00", "2024-01-01T00:00:10Z"],
        ["2024-01-01", "1704067200"],
        ["2024-01-01T00:00:00", "2024-01-01T00:00:00\0", "2024-01-01T00:00:01"],
        ["2024-01-01T00:00:00", "2024-02-30T00:00:10.5"],
        ["2024-01-01T00:00:00", ""],
    ],
)
def test_many_times_of_different_lengths_are_read_as_each_alone(texts: list[str]) -> None:
    def read(some: list[str]) -> object:
        try:
            found = read_times(some)
        except InputError as error:
            return str(error)
        return found.ticks.tolist(), found.clock

    many, few = texts * 9, texts * 4
    assert len(many) >= 16 > len(texts)
    one_by_one = read(texts)
    if isinstance(one_by_one, str):
        assert read(many) == one_by_one
    else:
        ticks, clock = one_by_one
        assert read(many) == (ticks * 9, clock)
        assert read(few) == (ticks * 4, clock)


@pytest.mark.parametrize("rows", [3, 20, 3000])
@pytest.mark.parametrize(
    "wrong",
    ["2024-02-30T00:00:00", "2023-02-29T00:00:00", "2024-13-01T00:00:00", "2024-00-10T00:00:00",
     "2024-01-00T00:00:00", "2024-01-01T25:00:00", "2024-01-01T24:00:01", "2024-01-01T12:60:00"],
)  # fmt: skip
def test_a_day_or_hour_that_does_not_exist_is_refused_in_any_number_of_rows(rows, wrong):
    """In thousands of rows, numpy's own conversion ended the process."""
    times = ["2024-01-01T00:00:00"] * rows
    times[rows // 2] = wrong
    with pytest.raises(InputError, match=f"time at position {rows // 2} is not a time"):
        read_times(times)


def test_all_days_of_four_hundred_years_are_read_as_numpy_reads_them():
    days = np.arange(np.datetime64("1700-01-01"), np.datetime64("2100-01-01"))
    for texts in (days.astype(str).tolist(), [f"{day}T23:59:59.25" for day in days]):
        expected = np.array(texts, dtype="datetime64[ns]").astype(np.int64)
        assert np.array_equal(read_times(texts).ticks, expected)


@pytest.mark.parametrize("rows", [1, 20])
def test_24_00_is_the_end_of_the_day(rows):
    ticks = read_times(["2024-01-31T24:00:00"] * rows).ticks
    assert set(ticks.tolist()) == {NOON - 12 * 3600 * SECOND}


@pytest.mark.parametrize("rows", [1, 20])
@pytest.mark.parametrize("kind", [str, int, float])
@pytest.mark.parametrize("date_", [20240201, 202402011230])
def test_a_date_without_separators_is_not_taken_for_seconds(rows, kind, date_):
    with pytest.raises(InputError, match="time at position 7 looks like a date") as error:
        read_times([kind(date_)] * rows, position=7)
    assert str(date_) not in str(error.value)


def test_one_long_text_among_many_times_does_not_take_memory_for_each_of_them():
    texts = ["2024-02-01T12:00:00Z"] * 200 + ["9" * 1_000_000]
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="time at position 200 is neither"):
            read_times(texts)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("zone", ["localtime", "posixrules"])
def test_a_zone_that_depends_on_the_machine_is_refused(zone):
    with pytest.raises(SettingError, match="Europe/Berlin"):
        read_times(["2024-03-31T01:30"], zone=zone)


@pytest.mark.parametrize(
    "times", [[Decimal("sNaN")], np.ones((2, 2)), pd.DataFrame({"a": [1], "b": [2]})], ids=repr
)
def test_what_is_no_column_of_times_is_refused_in_our_words(times):
    """Caught: an InvalidOperation, or a ValueError of numpy."""
    with pytest.raises(InputError, match=r"is not a time|must be a list or a column of times"):
        read_times(times)
