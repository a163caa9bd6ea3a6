"""`moving`: every window is the query of its range; late rows count where their time lies."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

import tidegate as tg

RANDOM = np.random.default_rng(3)
VALUES = RANDOM.gamma(2, 10, 300)
TIMES = np.datetime64("2024-01-01T00:00", "ns") + np.arange(300) * np.timedelta64(15, "m")
PIPELINE = tg.tops(1, 100, holdout=20)
NUMBERS = ("estimate", "low", "high", "noise_error", "prediction_error")


def released(times: np.ndarray = TIMES, late: str = "refuse") -> tg.Release:
    release = PIPELINE.start(tg.seeded(1))
    release.push(VALUES, times=times, late=late)
    return release


def assert_same(found: tg.Answers, expected: tg.Answers) -> None:
    for name in NUMBERS:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_windows_of_rows() -> None:
    release = released()
    found = release.moving(50, 30, 0.9, start=10)
    ends = [*range(60, 271, 30), 280]  # multiples of 30, and the last row
    assert found.answers.end.tolist() == ends
    assert_same(found.answers, release.queries(np.array(ends) - 50, ends, 0.9))
    columns = found.columns()
    np.testing.assert_array_equal(columns["mean_high"], columns["sum_high"] / 50)
    assert len(release.moving(40)) == len(range(40, 281, 10))
    assert len(release.moving(281)) == 0


def test_windows_of_time_and_every_way_to_write_them() -> None:
    release = released()
    found = release.moving("6h", "2h")
    begin, end = found.spans.astype("datetime64[ns]")  # type: ignore[union-attr]
    assert_same(found.answers, release.queries(begin, end))
    assert (np.diff(end)[:-1] == np.timedelta64(2, "h")).all()
    assert repr(found) == repr(release.moving(timedelta(hours=6), np.timedelta64(2, "h")))
    part = release.moving("6h", "2h", from_=str(begin[3]), to=str(end[6]))
    np.testing.assert_array_equal(part.answers.estimate, found.answers.estimate[3:7])
    record = tg.load_record(release.save_record())  # which has no times
    assert_same(record.moving(50, 30).answers, release.moving(50, 30).answers)


def test_late_rows_count_where_their_time_lies() -> None:
    times = TIMES.copy()
    times[150] = times[60]  # comes 90 rows late
    release = released(times, late="keep")
    found = release.moving("6h", "3h")
    begin, end = found.spans.astype("datetime64[ns]")  # type: ignore[union-attr]
    assert_same(found.answers, release.queries(begin, end))
    inside = (begin <= times[60]) & (times[60] < end)
    gone = (begin <= TIMES[150]) & (TIMES[150] < end)
    # Windows that begin in the hold-out are left out, and the last one ends with the last row.
    whole = end - begin == np.timedelta64(6, "h")
    np.testing.assert_array_equal(found.rows[whole], (24 + 1 * inside - 1 * gone)[whole])


def test_what_makes_no_window_is_refused() -> None:
    release = released()
    for wrong in (
        {"over": 0}, {"over": "1mo"}, {"over": "soon"}, {"over": 10, "every": "1h"},
        {"over": "1h", "every": 10}, {"over": 10, "from_": "2024-01-02"},
        {"over": "1h", "start": 3}, {"over": timedelta(seconds=0.5)}, {"over": 2.5},
    ):  # fmt: skip
        with pytest.raises((tg.QueryError, tg.SettingError)):
            release.moving(**wrong)  # type: ignore[arg-type]
