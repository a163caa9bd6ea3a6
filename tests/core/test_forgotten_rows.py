"""Rows that have left the record: no table may count them as 0, or a part of them as all."""

import numpy as np
import pytest

import tidegate as tg
from tidegate.errors import QueryError
from tidegate.record.times.time_ranges_and_tables import TimeTable
from tidegate.service.answers_json import table_as_json as served

HOURS, MINUTES = 24, 60
START = np.datetime64("2024-01-01T00:00", "ns")
TIMES = START + np.arange(HOURS * MINUTES) * np.timedelta64(1, "m")
VALUES = np.full(TIMES.size, 10.0)
SHORT = {"horizon": 60, "history": 10 * MINUTES + 7}


def all_whole(table: TimeTable) -> bool:
    return (table.rows == MINUTES).all() and (table.answers.estimate > 2.0 * MINUTES).all()


def a_stream():
    release = tg.adaptive(1, 20, **SHORT).start()
    release.push(VALUES, times=TIMES)
    return release


def events():
    release = tg.events(5, 20, every="1min", start="2024-01-01", **SHORT).start()
    release.push(TIMES, VALUES)
    release.advance(TIMES[-1] + np.timedelta64(1, "m"))
    return release


@pytest.mark.parametrize("made", [a_stream, events])
def test_no_sum_is_given_over_a_gap_of_the_record(made) -> None:
    """Segments of first thresholds may outlive the blocks after them: they are of no use then."""
    record = made().record
    assert record.start > 5 * MINUTES
    with pytest.raises(QueryError, match="older than the record"):
        record.query(0, record.end)


@pytest.mark.parametrize("made", [a_stream, events])
def test_a_table_begins_with_the_first_part_that_the_record_knows_whole(made) -> None:
    release = made()
    record = release.record
    assert record.start > 0
    table = release.table("1h")
    begins = -(-record.start // MINUTES)
    assert table.times[0] == str(START + np.timedelta64(begins, "h"))[:19]
    assert len(table) == HOURS - begins
    assert all_whole(table)
    assert "left out" in table.note
    assert "left out" in str(table)


def test_parts_lie_where_they_would_if_nothing_was_forgotten() -> None:
    """Parts of 7 hours count from the first midnight of the stream, whatever is kept of it."""
    found = a_stream().table("7h").edges
    assert (found[0] - TIMES[:1].astype(np.int64)[0]) % (7 * 3600 * 10**9) == 0


def test_a_range_that_begins_before_the_record_is_refused() -> None:
    release = a_stream()
    begins = str(TIMES[release.record.start])[:19]
    for ask in (
        lambda: release.table("1h", from_="2024-01-01T05:00"),
        lambda: release.query("2024-01-01T05:00", "2024-01-01T06:00"),
        lambda: release.query(to="2024-01-01T23:00"),
    ):
        with pytest.raises(QueryError, match=f"the record begins at {begins}"):
            ask()
    with pytest.raises(QueryError, match="no part is whole"):
        release.table("1mo")
    later = release.table("1h", from_="2024-01-01T20:00")
    assert all_whole(later)
    assert not later.note


def test_a_late_row_is_neither_lost_nor_brought_back_by_the_cut() -> None:
    release = tg.adaptive(1, 20, **SHORT).start()
    times = TIMES.copy()
    times[-5:] = TIMES[0]  # of an hour that the record has forgotten
    release.push(VALUES, times=times, late="keep")
    table = release.table("1h")
    assert (table.rows[:-1] == MINUTES).all()
    assert table.rows[-1] == MINUTES - 5


def test_keys_have_the_parts_that_all_of_them_know() -> None:
    keyed = tg.keyed(tg.adaptive(1, 20, **SHORT), keys=["busy", "calm"]).start()
    calm = TIMES[-2 * MINUTES :]
    keyed.push(
        ["busy"] * TIMES.size + ["calm"] * calm.size,
        np.concatenate((VALUES, VALUES[: calm.size])),
        times=np.concatenate((TIMES, calm)),
    )
    table = keyed.table("1h")
    assert all_whole(table["busy"])
    assert table["calm"].rows.tolist() == [0] * (len(table["busy"]) - 2) + [MINUTES] * 2
    assert "left out" in table.note
    totals = keyed.totals("1h")
    assert (totals.edges == table["busy"].edges).all()
    assert totals.note == table.note
    for ask in (keyed.table, keyed.totals):
        with pytest.raises(QueryError, match="the record begins at"):
            ask("1h", from_="2024-01-01")
    said = served(keyed.view(), {"every": "1h", "confidence": 0.95, "total": False})
    assert "left out" in said["note"]


@pytest.mark.parametrize("settings", [{"horizon": 60}, {"method": "fast", "horizon": 20}])
def test_a_released_table_can_be_asked_about_all_its_rows(settings) -> None:
    released = tg.release(VALUES, time=TIMES, epsilon=5, bound=20, **settings)
    assert len(released) == len(released.columns()["value"]) == TIMES.size
    assert released.query(0, len(released)).low < VALUES.sum()
    table = released.table("1h")
    assert len(table) == HOURS
    assert all_whole(table)


def test_a_longer_record_leaves_the_noise_as_it_is() -> None:
    """What is kept is no setting of the noise: with the same seed, the same rows."""
    pipeline = tg.adaptive(1, 20, horizon=60)
    rows = pipeline.start(tg.seeded(3)).push(VALUES)
    released = tg.release(VALUES, epsilon=1, bound=20, horizon=60, randomness=tg.seeded(3))
    assert (released.columns()["value"] == rows).all()
