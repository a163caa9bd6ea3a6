"""Ticks that are not the parts that are asked for: shorter parts, cut ticks, days of 25 hours."""

import numpy as np
import pytest

import tidegate as tg
from tests.cli.invoking import run

WEEK = ("--start", "2025-10-23", "--until", "2025-10-30", "--zone", "Europe/Berlin")
HOURS = [f"2025-10-{day}T{hour:02}:30" for day in range(23, 30) for hour in range(24)]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """An event in every hour of two wards, over the end of summer time."""
    path = tmp_path_factory.mktemp("ticks") / "log.csv"
    rows = [f"{time},{'AB'[at % 2]},{3 + at % 5}" for at, time in enumerate(HOURS)]
    path.write_text("when,ward,v\n" + "\n".join(rows) + "\n")
    return path


def released(log, name, *how, zone=WEEK):
    output = log.with_name(name)
    common = ("--column", "v", "--time", "when", "--epsilon", 5, "--bound", 10, "--overwrite")
    return output, run("release", log, *common, *zone, *how, "-o", output)


@pytest.fixture(scope="module")
def wards(log):
    (log.with_name("wards.txt")).write_text("A\nB\n")
    keys = ("--by", "ward", "--keys", log.with_name("wards.txt"))
    return released(log, "wards.csv", "--every", "6h", *keys)[0]


def test_parts_shorter_than_a_tick_are_refused(log, wards):
    """They had no rows, so they had the sum 0, with an interval from 0 to 0, and events."""
    daily = released(log, "daily.csv", "--every", "1d")[0]
    for file, every in ((daily, "1h"), (daily, "23h"), (wards, "3h"), (wards, "30min")):
        for form in ((), ("--json",)):
            said = run("query", file, "--every", every, *form)
            assert said.exit_code == 2
            assert said.stdout == ""
            assert "shorter than the ticks of this release" in said.stderr
    assert run("query", wards, "--every", "3h", "--total").exit_code == 2
    assert "which are 6h long" in run("query", wards, "--every", "3h").stderr
    assert run("query", daily, "--every", "1d").exit_code == 0
    assert run("query", daily, "--every", "1mo").exit_code == 0


def test_readings_keep_parts_without_rows():
    """A row of readings is a value at a time: between two the sum is 0."""
    times = np.arange("2024-01-01", "2024-01-11", dtype="datetime64[D]")
    table = tg.release({"t": times, "v": np.ones(10)}, value="v", time="t", epsilon=5, bound=2)
    assert len(table.table("12h")) == 19
    assert not table.table("12h").note


@pytest.mark.parametrize("more", [(), ("--mean",), ("--by",), ("--by", "--mean")])
def test_a_tick_that_an_edge_cuts_is_told(log, wards, more):
    keys = ("ward", "--keys", wards.with_name("wards.txt"))
    how = [part for one in more for part in ((one, *keys) if one == "--by" else (one,))]
    file = released(log, f"six{''.join(more)}.csv", "--every", "6h", *how)[0]
    inside = "--from", "2025-10-24T03:00", "--to", "2025-10-25T07:00"
    whole = "--from", "2025-10-24T00:00", "--to", "2025-10-25T06:00"
    for form in ((), ("--every", "1d"), ("--json",)):
        assert "2 edges lie inside a tick of 6h" in run("query", file, *inside, *form).stdout
        assert " inside a tick" not in run("query", file, *whole, *form).stdout
    one = run("query", file, "--from", "2025-10-24T03:00", "--json").stdout  # the end is open
    assert "An edge lies inside a tick of 6h" in one


def test_many_ranges_of_time_tell_it_too():
    release = tg.events(epsilon=1, every="1d", start="2025-10-20", zone="Europe/Berlin").start()
    release.finish("2025-11-03")
    whole = release.queries(["2025-10-21", "2025-10-22"], ["2025-10-22", "2025-10-24"])
    assert whole.note == ""
    cut = release.queries(["2025-10-21"], ["2025-10-28"])
    assert "An edge lies inside a tick of 1d" in cut.note


def test_days_that_clocks_shift_are_told_before_anything_is_spent(log):
    """Every day after the change held an hour of the day before, under its own date."""
    file, said = released(log, "shift.csv", "--every", "1d")
    first, *_ = said.stderr.splitlines()
    assert "from 2025-10-26T23:00:00+01:00 on they are not days of the calendar" in first
    assert "edges lie inside a tick of 1d" in run("query", file, "--every", "1d").stdout


@pytest.mark.parametrize(
    ("every", "zone"),
    [
        ("1h", WEEK),
        ("1d", ("--start", "2025-10-23", "--until", "2025-10-30")),
        ("1d", (*WEEK[:2], "--until", "2025-10-27", *WEEK[4:])),
        ("1d", (*WEEK[:4], "--zone", "Asia/Tokyo")),
    ],
)
def test_days_that_no_clock_shifts_are_released_in_silence(log, every, zone):
    assert "calendar" not in released(log, "still.csv", "--every", every, zone=zone)[1].stderr


def test_events_of_an_unfinished_tick_are_not_called_later_than_the_end(log):
    """They came before --until, and the sentence said after."""
    said = released(log, "weeks.csv", "--every", "2d")[1].stderr
    assert "events after the last tick that is over at --until" in said
