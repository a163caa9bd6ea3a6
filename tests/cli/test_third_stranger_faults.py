"""Faults that a third stranger met: a wrong column of keys, sentences about what is not there."""

from itertools import pairwise

import numpy as np
import pytest

import tidegate as tg
from tests.cli.invoking import run
from tidegate.cli import file_options


@pytest.mark.parametrize("more", [(), ("--state", "state")])
def test_a_column_that_is_no_key_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch, more):
    """Trips by their number took 21 GB, and the machine killed the run after rows were out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(file_options, "_MOST_PUBLIC_KEYS", 50)
    rows = [f"trip{at},{'ABC'[at % 3]},{at % 7}" for at in range(300)]
    (tmp_path / "trips.csv").write_text("trip,station,v\n" + "\n".join(rows) + "\n")
    how = ("--column", "v", "--keys-are-public", "--epsilon", 1, "--bound", 10, "-o", "out.csv")
    said = run("release", "trips.csv", *how, "--by", "trip", *more)
    assert said.exit_code == 2
    assert "--by has more than 50 keys in the first rows" in said.stderr
    assert "--keys FILE" in said.stderr
    assert not (tmp_path / "out.csv").exists()
    assert not (tmp_path / "state").exists()
    assert run("release", "trips.csv", *how, "--by", "station", *more).exit_code == 0


def test_keys_that_come_later_are_no_reason_to_refuse(tmp_path, monkeypatch):
    """A fleet may grow: only the first rows are looked at."""
    monkeypatch.setattr(file_options, "_MOST_PUBLIC_KEYS", 50)
    rows = [f"{'ABC'[at % 3] if at < 100 else at},1" for at in range(180)]
    (tmp_path / "rows.csv").write_text("who,v\n" + "\n".join(rows) + "\n")
    how = ("--column", "v", "--by", "who", "--keys-are-public", "--epsilon", 1, "--bound", 2)
    assert run("release", tmp_path / "rows.csv", *how, "-o", tmp_path / "o.csv").exit_code == 0


def test_a_range_without_rows_is_not_called_wide(tmp_path):
    """The sum of no values is 0, and known."""
    (tmp_path / "v.csv").write_text("value\n" + "3\n" * 200)
    how = ("--epsilon", 5, "--bound", 5, "-o", tmp_path / "out.csv")
    run("release", tmp_path / "v.csv", *how)
    assert "hardly anything" not in run("query", tmp_path / "out.csv", 7, 7).stdout


def test_rehearsals_are_explained_only_where_there_are_some(tmp_path):
    """Events by key have none in their table, and the note said what they are."""
    days = [f"2024-01-{1 + at // 24:02}T{at % 24:02}:30,{'AB'[at % 2]},5" for at in range(480)]
    (tmp_path / "log.csv").write_text("when,ward,v\n" + "\n".join(days) + "\n")
    asked = ("check", tmp_path / "log.csv", "--column", "v")
    plain = run(*asked).stdout
    keyed = run(*asked, "--time", "when", "--by", "ward", "--every", "1h").stdout
    assert "Rehearsals: whole releases" in plain
    assert "Noise: half of" in plain
    assert "Rehearsals: whole" not in keyed
    assert "Noise: half of" in keyed


def test_a_key_file_that_is_none_says_how_to_make_one(tmp_path):
    (tmp_path / "v.csv").write_text("value\n1\n")
    (tmp_path / "key").write_text("secret")
    how = ("--epsilon", 1, "--bound", 5, "-o", tmp_path / "out.csv", "--state", tmp_path / "state")
    said = run("release", tmp_path / "v.csv", *how, "--key-file", tmp_path / "key")
    assert said.exit_code == 2
    assert "head -c 32 /dev/urandom > FILE" in said.stderr


@pytest.mark.parametrize("days", [5, 16, 60, 400])
def test_dates_under_a_picture_do_not_overlap(days):
    """Two whole dates were written over each other where months meet."""
    plt = pytest.importorskip("matplotlib.pyplot")
    times = np.arange(24 * days) * np.timedelta64(1, "h") + np.datetime64("2025-10-20T00:00")
    table = {"t": times, "v": np.ones(times.size)}
    axes = tg.release(table, value="v", time="t", epsilon=5, bound=2).plot()
    axes.figure.canvas.draw()
    boxes = [one.get_window_extent() for one in axes.get_xticklabels() if one.get_text()]
    left, right = axes.get_window_extent().intervalx
    shown = sorted((box.x0, box.x1) for box in boxes if left <= (box.x0 + box.x1) / 2 <= right)
    plt.close(axes.figure)
    assert len(shown) > 2
    assert all(one[1] < two[0] for one, two in pairwise(shown))


@pytest.mark.parametrize("more", [(), ("--by", "who", "--keys-are-public"), ("--column", "x")])
def test_a_misspelt_key_costs_nothing(tmp_path, more):
    """Every row was missing, all of them were released, and a warning came after."""
    rows = "".join(f'{{"x": {at % 7}, "who": "a"}}\n' for at in range(500))
    (tmp_path / "v.jsonl").write_text(rows)
    output = tmp_path / "out.csv"
    how = ("--epsilon", 1, "--bound", 10, "-o", output)
    said = run("release", tmp_path / "v.jsonl", "--column", "xx", *more, *how)
    assert said.exit_code == 2
    assert "no row has a number there, and the first row has no key 'xx'" in said.stderr
    assert "no epsilon was spent" in said.stderr
    assert not list(tmp_path.glob("out*"))


def test_a_key_that_begins_late_is_released_with_a_warning(tmp_path):
    rows = [f'{{"y": 1{f", {chr(34)}x{chr(34)}: 3" if at > 50 else ""}}}\n' for at in range(300)]
    (tmp_path / "v.jsonl").write_text("".join(rows))
    how = ("--column", "x", "--epsilon", 1, "--bound", 10, "-o", tmp_path / "out.csv")
    said = run("release", tmp_path / "v.jsonl", *how)
    assert said.exit_code == 0
    assert "the first row has no key 'x'" in said.stderr


def _told(tmp_path, values, *more):
    (tmp_path / "v.csv").write_text("value\n" + "\n".join(map(str, values)) + "\n")
    how = ("--epsilon", 1, "--bound", 100, "-o", tmp_path / "out.csv", "--overwrite", *more)
    said = run("release", tmp_path / "v.csv", "--column", "value", *how)
    assert said.exit_code == 0
    return [line for line in said.stderr.splitlines() if "it is not private" in line]


@pytest.mark.parametrize("number", [int, float])
def test_what_the_bounds_cut_is_told_to_the_operator(tmp_path, number):
    """Rare rides of days were 6 % of all hours, and nothing said that no interval had them."""
    usual = [number(10)] * 990
    [said] = _told(tmp_path, [*usual, *[number(1100)] * 10], "--horizon", 100)
    assert "47.8% of the size of all values lies beyond 0 to 100 (--lower, --bound)" in said
    [said] = _told(tmp_path, [*usual, *[number(-100)] * 10], "--horizon", 100)
    assert "9.2% of the size" in said
    low = ("--lower", -100, "--horizon", 100)
    assert not _told(tmp_path, [*usual, *[number(-100)] * 10], *low)
    assert not _told(tmp_path, usual, "--quiet")


def test_missing_values_are_told_to_the_operator(tmp_path):
    """They count as 0, so a mean is too low: `check` said so, and `release` did not."""
    [said] = _told(tmp_path, [*[10.5] * 900, *["NaN"] * 100], "--horizon", 100)
    assert "10.0% of the values were missing, and each counts as 0" in said
    assert not _told(tmp_path, [*[10.5] * 999, "NaN"], "--horizon", 100)
