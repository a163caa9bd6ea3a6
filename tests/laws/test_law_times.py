"""Times: an index that agrees with brute force, and times that survive splits, stops and kills."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate as tg
from tests.laws.catalogue import bits, stream
from tidegate.clock import SECOND, Clock
from tidegate.durable import DurableRelease
from tidegate.errors import InputError, QueryError, SettingError, TidegateError
from tidegate.record.times.time_index import TimeIndex, TimeKnots

PIPELINES = {
    "adaptive": tg.adaptive(epsilon=1, bound=60, horizon=512),
    "tops": tg.tops(epsilon=1, bound=60, holdout=50, horizon=512),
}
START = 1_706_745_600 * SECOND


@st.composite
def ticks(draw):
    steps = draw(
        st.lists(st.tuples(st.integers(0, 5), st.integers(1, 12)), min_size=1, max_size=12)
    )
    return 1000 + np.cumsum(np.concatenate([np.full(count, step) for step, count in steps]))


@given(ticks(), st.lists(st.integers(1, 30), max_size=6), st.integers(0, 9), st.booleans())
def test_the_index_agrees_with_brute_force(times, cuts, first, late):
    if late:
        times = times - np.resize([0, 3, 0, 1, 7], times.size)
    ordered = np.maximum.accumulate(times)
    index, at = TimeIndex(Clock()), 0
    for size in [*cuts, times.size]:
        index.push(first + at, times[at : at + size])
        at += min(size, times.size - at)
        index = TimeIndex(Clock(), index.knots)
    whole = TimeKnots.through(ordered, first)
    assert all(map(np.array_equal, index.knots, whole))  # the same for any split
    asked = np.arange(ordered[0] - 2, ordered[-1] + 3)
    found = first + np.searchsorted(ordered, asked, side="left")
    np.testing.assert_array_equal(index.positions(asked), found)
    places = np.arange(first, first + times.size)
    np.testing.assert_array_equal(index.times(places), ordered)
    np.testing.assert_array_equal(TimeKnots.through(times).between(0, times.size), times)


def test_a_regular_stream_needs_two_knots():
    index = TimeIndex(Clock())
    for at in range(0, 10_000, 100):
        index.push(at, START + SECOND * np.arange(at, at + 100))
    assert index.knots.places.tolist() == [0, 9_999]


def texts(count: int) -> list[str]:
    moments = np.datetime64("2024-02-01T00:00") + 15 * np.arange(count).astype("timedelta64[m]")
    return [str(moment) + "Z" for moment in moments]


@pytest.mark.parametrize("name", PIPELINES)
def test_times_change_no_value_and_survive_any_split(name):
    pipeline, values, when = PIPELINES[name], stream(700), texts(700)
    plain = pipeline.start(tg.seeded(3)).push(values)
    whole = pipeline.start(tg.seeded(3))
    rows = whole.push_rows(values, times=when)
    assert bits(rows.values) == bits(plain)
    assert rows.times.size == rows.values.size
    split, at, parts = pipeline.start(tg.seeded(3)), 0, []
    for size in (1, 49, 30, 200, 3, 417):
        parts.append(split.push_rows(values[at : at + size], times=when[at : at + size]))
        at += size
        split = pipeline.resume(split.snapshot())
    assert np.concatenate([part.times for part in parts]).tolist() == rows.times.tolist()
    for one in (split, whole):
        by_time = one.query(from_="2024-02-03", to="2024-02-05T12:00")
        held = pipeline.holdout
        assert (by_time.start, by_time.end) == (192 - held, 432 - held)
        assert by_time == one.query(192 - held, 432 - held)
        table = one.table("1d", from_="2024-02-02", to="2024-02-06")
        assert table.rows.tolist() == [96] * 4
        assert table.times[0] == "2024-02-02T00:00:00Z"
        sums = table.columns()["sum"]
        np.testing.assert_allclose(table.columns()["mean"], sums / 96)
        np.testing.assert_allclose(table.columns()["rate"], sums / 86_400)


def test_tables_by_the_calendar_of_the_zone():
    """Days of 23 and 25 hours, weeks from Monday on, months; as many rows as brute force says."""
    count = 24 * 366
    universal = START + 3600 * SECOND * np.arange(count)
    clock = Clock("Europe/Berlin")
    release = tg.adaptive(epsilon=1, bound=60, horizon=count).start(tg.seeded(1))
    release.push(stream(count), times=tg.read_times(clock.texts(universal), zone=clock.zone))
    local = clock.local(universal).astype("datetime64[ns]")
    for every, unit in (("1d", "D"), ("1mo", "M"), ("1y", "Y")):
        rows = release.table(every).rows
        expected = np.unique(local.astype(f"datetime64[{unit}]"), return_counts=True)[1]
        np.testing.assert_array_equal(rows, expected)
    assert {23, 25} <= set(release.table("1d").rows.tolist())
    weeks = release.table("1w")
    assert all("T00:00:00+0" in text for text in weeks.times)
    assert set(weeks.rows[1:-1].tolist()) == {167, 168, 169}
    assert release.table("6h", from_="2024-03-01", to="2024-03-03").rows.tolist() == [6] * 8
    assert release.table("15min", from_="2024-03-01", to="2024-03-01T01:00").rows.tolist() == [
        1, 0, 0, 0,
    ]  # fmt: skip


def test_what_is_refused(tmp_path):
    pipeline = PIPELINES["adaptive"]
    release = pipeline.start(tg.seeded(1))
    with pytest.raises(InputError, match="2 values but 1 times"):
        release.push([1, 2], times=texts(1))
    with pytest.raises(InputError, match="position 1 is before"):
        release.push([1, 2], times=texts(2)[::-1])
    release.push([1, 2], times=texts(2))
    with pytest.raises(SettingError, match="times"):
        release.push(3)
    with pytest.raises(InputError, match="position 2 is before"):
        release.push(3, times=texts(1)[0])
    assert release.seen == 2  # nothing of a refused push was taken
    release.push(3, times=texts(1)[0], late="keep")
    assert release.seen == 3
    untimed = pipeline.start(tg.seeded(1))
    untimed.push([1] * 300)
    with pytest.raises(SettingError, match="from the first value on"):
        untimed.push(1, times=texts(1)[0])
    with pytest.raises(QueryError, match="no times"):
        untimed.query(from_="2024-01-01", to="2024-01-02")
    release.push([5] * 300, times=texts(303)[3:])
    for wrong in ("hunter2", "2024-02-30"):
        with pytest.raises(QueryError) as caught:
            release.query(from_=wrong)
        assert wrong not in str(caught.value)
    for wrong in ("hunter2", "0d", "1e9d"):
        with pytest.raises(QueryError):
            release.table(wrong)


@pytest.mark.parametrize("name", PIPELINES)
def test_times_are_committed_replayed_and_recognised(name, tmp_path):
    pipeline, values, when = PIPELINES[name], stream(300), texts(300)
    rows = []
    for start in (0, 100, 200):
        part = slice(start, start + 100)
        with DurableRelease.open(tmp_path, pipeline) as run:
            rows += [run.push_rows(values[part], times=when[part])]
    with DurableRelease.open(tmp_path, pipeline) as run:
        again = np.concatenate([piece.times for piece in run.replay_rows()])
        assert again.tolist() == np.concatenate([piece.times for piece in rows]).tolist()
        units = pipeline.lattice.units(pipeline.lattice.numbers(values))
        given_times = tg.read_times(when).ticks
        assert run.recogniser().push(units, None, given_times)
        moved = given_times.copy()
        moved[250] += 1
        assert not run.recogniser().push(units, None, moved)
        assert not run.recogniser().push(units, None, None)
        answer = run.query(from_="2024-02-02", to="2024-02-03")
        assert answer.end - answer.start == 96
        assert run.facts()["time"] == {"zone": "UTC", "unit": None}
        with pytest.raises(TidegateError):
            run.push(values[:1], times=["2024-01-01T00:00Z"])
        run.push(values[:1], times=["2024-03-01T00:00Z"])  # a refused push changes nothing
