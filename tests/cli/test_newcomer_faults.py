"""Faults that a newcomer met: warnings that were dropped, runs that fail, ranges without rows."""

import json
import re

import numpy as np
import pytest

import tidegate as tg
from tests.cli.invoking import run
from tidegate.io import read_metadata
from tidegate.tables.plain_text import plain_number

COUNT = 24 * 30
WHEN = np.datetime64("2024-01-01T00:00") + np.arange(COUNT).astype("timedelta64[h]")
HOW = ("--column", "value", "--time", "when", "--epsilon", "5", "--bound", "50")


def write(path, values, times=WHEN):
    lines = (f"{when},{value}\n" for when, value in zip(times, values, strict=True))
    path.write_text("when,value\n" + "".join(lines))
    return path


def test_every_answer_warns_of_values_at_the_cap(tmp_path):
    source, output = write(tmp_path / "in.csv", np.full(COUNT, 49)), tmp_path / "out.csv"
    words = "most values lie close to the cap: if many were cut there, the true sum is larger"
    assert f"warning: {words}" in run("release", source, "-o", output, *HOW).stderr
    for asked in (("0", "720"), ("--every", "1w")):
        (warning,) = json.loads(run("query", output, *asked, "--json").stdout)["warnings"]
        assert words in warning
    weeks = run("query", output, "--every", "1w").stdout
    assert words in weeks
    assert "of 5 ranges" in weeks
    assert words in run("show", output).stdout


def test_a_range_of_time_without_rows_is_no_zero(tmp_path):
    times = WHEN.copy()
    times[COUNT // 2 :] += np.timedelta64(60, "D")  # a hole
    source, output = write(tmp_path / "in.csv", np.full(COUNT, 9), times), tmp_path / "out.csv"
    assert run("release", source, "-o", output, *HOW).exit_code == 0
    for ends in (("2030-01-01", "2031-01-01"), ("2020-01-01", "2021-01-01"),
                 ("2024-02-01", "2024-03-01"), ("2024-01-02", "2024-01-02")):  # fmt: skip
        result = run("query", output, "--from", ends[0], "--to", ends[1])
        assert result.exit_code == 2
        assert "no row lies between from and to" in result.stderr
        assert "from 2024-01-01T00:00:00 to 2024-03-30T23:00:00" in result.stderr
    assert run("query", output, "--from", "2030-01-01", "--every", "1d").exit_code == 2
    half = run("query", output, "--from", "2024-01-10", "--to", "2024-05-01").stdout
    assert "reaches beyond the data: the last row is at 2024-03-30T23:00:00" in half
    assert "beyond" not in run("query", output, "--from", "2024-01-10", "--to", "2024-03-31").stdout
    assert "Not every part is full: the last row" in run("query", output, "--every", "2mo").stdout


@pytest.mark.usefixtures("read_once")
@pytest.mark.parametrize("state", [False, True])
def test_a_run_that_fails_says_what_is_left_and_how_to_go_on(tmp_path, state):
    times = WHEN.copy()
    times[500] = times[0]
    source, output = write(tmp_path / "in.csv", np.full(COUNT, 9), times), tmp_path / "out.csv"
    durable = ("--state", tmp_path / "state") if state else ()
    result = run("release", source, "-o", output, *HOW, *durable, "--quiet")
    assert result.exit_code == 4
    assert "time at position 500 is before the one before it" in result.stderr
    assert not read_metadata(output)["complete"]
    for looked in (run("query", output, "0", "400"), run("show", output)):
        assert looked.stdout.count("This file is not complete") == 1
        assert "release the rest of the input into another file" in looked.stdout
    opened = tg.open(output)
    assert "not complete" in repr(opened)
    for answer in (opened.query(0, 400), opened.query(), opened.table("1w"), opened.table(100)):
        assert "This file is not complete" in answer.note
        assert "To finish it, run the same command again" in str(answer)
    write(source, np.full(COUNT, 9))
    if not state:
        assert "holds the first 500 rows" in result.stderr
        assert "They have spent ε = 5 per event" in result.stderr
        assert "only the rows from 500 on" in result.stderr
        return
    assert "500 rows are released and stay valid" in result.stderr
    assert "run the same command again" in result.stderr
    assert run("release", source, "-o", output, *HOW, *durable, "--quiet").exit_code == 0
    assert "not complete" not in run("query", output, "0", "400").stdout
    assert "not complete" not in f"{tg.open(output)!r} {tg.open(output).query()}"


def write_keyed(folder, bad):
    rows = [f"{when},9,2,{'north' if hour % 2 else 'south'}" for hour, when in enumerate(WHEN)]
    (folder / "in.csv").write_text("\n".join(["when,value,tip,zone", *rows, bad]) + "\n")
    (folder / "keys").write_text("north\nsouth\n")
    return folder / "in.csv", folder / "out.csv", ("--by", "zone", "--keys", folder / "keys")


@pytest.mark.parametrize("kind", ["one", "columns", "keys"])
@pytest.mark.parametrize("bad", ["soon,9,2,north", "2024-02-01,9,2", "2024-02-01,x,2,north"])
def test_a_bad_row_late_in_a_file_costs_nothing(tmp_path, kind, bad):
    source, output, by = write_keyed(tmp_path, bad)
    more = {"one": (), "columns": ("--column", "tip"), "keys": by}[kind]
    result = run("release", source, "-o", output, *HOW, *more)
    assert result.exit_code == 4
    assert "no rows were released, so no epsilon was spent" in result.stderr
    assert list(tmp_path.glob("out*")) == []


@pytest.mark.usefixtures("read_once")
def test_a_keyed_file_that_ends_early_says_so(tmp_path):
    source, output, by = write_keyed(tmp_path, "2024-02-01,x,2,north")
    assert run("release", source, "-o", output, *HOW, *by).exit_code == 4
    file = tg.open(output)
    assert len(file) == COUNT
    assert "not complete" in repr(file)
    total = file.query()
    for answer in (
        total,
        file.query(key="north"),
        file.totals("1w"),
        file.table("1w", key="north"),
    ):
        assert "This file is not complete" in answer.note
    assert "This file is not complete" in repr(file.table("1w"))
    assert run("query", output).stdout.count("This file is not complete") == 1


def test_a_run_that_fails_at_once_spent_nothing(tmp_path):
    source = write(tmp_path / "in.csv", ["x", *[9] * (COUNT - 1)])
    result = run("release", source, "-o", tmp_path / "out.csv", *HOW)
    assert "no rows were released, so no epsilon was spent" in result.stderr
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.usefixtures("read_once")
def test_clocks_that_are_turned_forward_stop_a_run_that_says_so(tmp_path):
    times = np.datetime64("2024-03-25T00:00") + np.arange(COUNT).astype("timedelta64[h]")
    source = write(tmp_path / "in.csv", np.full(COUNT, 9), times)
    result = run("release", source, "-o", tmp_path / "out.csv", *HOW, "--zone", "Europe/Berlin")
    assert "does not exist in Europe/Berlin" in result.stderr
    assert "holds the first 146 rows" in result.stderr
    checked = run("check", source, "--column", "value", "--zone", "Europe/Berlin").stdout
    assert "a release would stop: time at position 146" in checked
    assert "--time" not in checked.splitlines()[-1]


def test_check_says_what_is_wrong_with_a_parquet_file(tmp_path):
    """It was a fault of ours, exit code 70, for a file that is not there or damaged."""
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes(b"PAR1 nothing more")
    for path, words in (
        (tmp_path / "none.parquet", "no such file"),
        (damaged, "not a complete Parquet file"),
    ):
        result = run("check", path, "--column", "fare")
        assert result.exit_code == 4
        assert words in result.stderr


def test_an_epsilon_that_is_far_too_large_is_no_fault(tmp_path):
    source, output = write(tmp_path / "in.csv", np.full(COUNT, 9)), tmp_path / "out.csv"
    how = ("--column", "value", "--bound", "50", "--epsilon", "1000000")
    assert run("release", source, "-o", output, *how).exit_code == 0
    answer = json.loads(run("query", output, "--json").stdout)["answers"][0]
    assert answer["estimate"] == pytest.approx(9 * COUNT, rel=1e-3)


def test_check_tells_infinite_values_and_marks_from_numbers(tmp_path):
    values = np.full(COUNT, 20.0)
    values[:5], values[100:130] = np.inf, -999
    found = run("check", write(tmp_path / "in.csv", values), "--column", "value").stdout
    assert re.search(r"missing +none", found)
    assert re.search(r"infinite +5 rows; each counts as the bound", found)
    assert re.search(r"marker +about 4.20% of the rows are exactly -999", found)


def test_check_says_what_its_cut_takes_off_a_total(tmp_path):
    values = np.full(COUNT, 10.0)
    values[0] = 1_000_000
    found = run("check", write(tmp_path / "in.csv", values), "--column", "value").stdout
    assert "Cutting there takes 99.3% off a total" in found


def test_check_notices_hours_that_cannot_be_told_apart(tmp_path):
    hours = np.datetime64("2024-10-27T00:00") + np.arange(48).astype("timedelta64[h]")
    local = np.sort(np.concatenate((hours, hours)))[:-1]  # two rows each, and 02:00 two more
    local = np.insert(local, 5, hours[[2, 2]])
    source = write(tmp_path / "in.csv", np.full(local.size, 9), local)
    how = ("--column", "value", "--time", "when", "--zone", "Europe/Berlin")
    assert "clocks     3 rows repeat a time of the hour" in run("check", source, *how).stdout
    local = np.concatenate((hours[:3], hours[2:-1]))  # 02:00 comes twice: the order tells them
    source = write(tmp_path / "in.csv", np.full(48, 9), local)
    assert "clocks " not in run("check", source, *how).stdout
    quarters = np.datetime64("2024-10-27T00:00") + np.arange(48 * 4).astype("timedelta64[15m]")
    local = np.concatenate((quarters[:12], quarters[8:-4]))  # the order tells them apart
    source = write(tmp_path / "in.csv", np.full(48 * 4, 9), local)
    assert "clocks " not in run("check", source, *how).stdout


def test_hourly_rows_of_several_keys_tell_the_second_hour(tmp_path):
    hours = np.datetime64("2024-10-26T22:00") + np.arange(48).astype("timedelta64[h]")
    local = hours - np.where(np.arange(48) > 4, 1, 0).astype("timedelta64[h]")  # 02:00 again
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    lines = [f"{when},{zone},9" for when in local for zone in ("north", "south")]
    source.write_text("when,zone,value\n" + "\n".join(lines) + "\n")
    when = ("--column", "value", "--time", "when", "--zone", "Europe/Berlin", "--by", "zone")
    assert "clocks " not in run("check", source, *when).stdout
    how = (*when, "--keys-are-public", "--epsilon", "5", "--bound", "50")
    done = run("release", source, "-o", output, *how)
    assert done.exit_code == 0, done.stderr
    rows = [line.split(",")[:2] for line in output.read_text().splitlines()[1:]]
    for zone in ("north", "south"):
        found = [time for key, time in rows if key == zone]
        assert found[4].startswith("2024-10-27T02:00:00+02:00")
        assert found[5].startswith("2024-10-27T02:00:00+01:00")
        assert len(set(found)) == 48


def test_tables_show_intervals_that_reach_further_up_than_down(tmp_path):
    source, output = write(tmp_path / "in.csv", np.arange(COUNT) % 23), tmp_path / "out.csv"
    assert run("release", source, "-o", output, *HOW).exit_code == 0
    (row,) = json.loads(run("query", output, "--every", "1y", "--json").stdout)["rows"]
    printed = run("query", output, "--every", "1y").stdout
    assert f"{plain_number(row['sum_low'])} to {plain_number(row['sum_high'])}" in printed


def test_a_range_after_all_rows_says_so(tmp_path):
    source, output = write(tmp_path / "in.csv", np.full(COUNT, 9)), tmp_path / "out.csv"
    assert run("release", source, "-o", output, *HOW).exit_code == 0
    late = run("query", output, "--from", "2030-01-01")
    assert "from is after the last row, 2024-01-30T23:00:00" in late.stderr
    early = run("query", output, "--to", "2020-01-01")
    assert "to is before the first row, 2024-01-01T00:00:00" in early.stderr


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_released_file_as_input_is_noticed(tmp_path, kind):
    source = write(tmp_path / "in.csv", np.full(COUNT, 9))
    once, twice = tmp_path / f"once.{kind}", tmp_path / "twice.csv"
    words = "was released by Tidegate before. A second release adds noise"
    assert words not in run("release", source, "-o", once, *HOW).stderr
    again = run("release", once, "-o", twice, "--column", "value", "--epsilon", "5", *HOW[-2:])
    assert words in again.stderr


def test_a_mistake_is_named_once_with_what_to_do(tmp_path):
    source = write(tmp_path / "in.csv", np.full(COUNT, 9))
    several = run("check", source)
    assert "Choose a column with --column: 'when', 'value'" in several.stdout
    assert several.stderr == "tidegate: --column is required: the file has several columns\n"
    array = tmp_path / "in.json"
    array.write_text(json.dumps([{"value": 3}] * 5))
    how = ("-o", tmp_path / "out.csv", "--column", "value", "--epsilon", "1", "--bound", "9")
    assert "is a folder: name a file" in run("release", tmp_path, *how).stderr
    assert "jsonl has an object on every line" in run("release", array, *how).stderr
    lines = run("release", array, "--format", "jsonl", *how).stderr
    assert "row 0 is not a JSON object; every line must be an object of its own" in lines
    run("release", source, *how)
    asked = run("query", tmp_path / "out.csv", "0", "9", "--confidence", "95").stderr
    assert "95 % is 0.95" in asked
