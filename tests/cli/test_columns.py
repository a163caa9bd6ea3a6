"""Several columns on the command line: one budget, a file for each, ratios between them."""

import json

import numpy as np
import pytest

from tests.cli.invoking import run
from tidegate.io import read_metadata
from tidegate.ledger import Ledger

COUNT = 700
RNG = np.random.default_rng(4)
FARES = RNG.gamma(3, 5, COUNT).round(2)
TIPS = (FARES * 0.2 + RNG.gamma(1, 0.5, COUNT)).round(2)
WHEN = np.datetime64("2024-01-01T00:00") + 30 * np.arange(COUNT).astype("timedelta64[m]")
CONFIG = """
column = ["fare", "tip ($)"]
epsilon = 5
bound = {fare = 100, "tip ($)" = 30}
share = {fare = 0.7}
time = "when"
horizon = 700
"""


@pytest.fixture
def trips(tmp_path):
    rows = zip(WHEN, FARES, TIPS, strict=True)
    path = tmp_path / "trips.csv"
    path.write_text("when,fare,tip ($)\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    return path


def test_a_run_over_two_columns(trips, tmp_path):
    config, state = tmp_path / "release.toml", tmp_path / "state"
    config.write_text(CONFIG)
    output = tmp_path / "private.csv"
    words = ("release", trips, "--config", config, "-o", output, "--state", state)
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert "all columns together spent: ε = 5 per event" in result.stderr
    assert "(fare 3.5, tip ($) 1.5)" in result.stderr
    files = sorted(path.name for path in tmp_path.glob("private.*.csv"))
    assert files == ["private.fare.csv", "private.tip.csv"]
    with Ledger.open(state / "ledger.jsonl", read_only=True) as ledger:
        assert [charge.epsilon for charge in ledger.charges()] == [5]
    kept = (tmp_path / "private.fare.csv").read_bytes()
    assert run(*words, "--quiet").exit_code == 0  # nothing new: the same files
    assert (tmp_path / "private.fare.csv").read_bytes() == kept
    options = ["--column", "fare", "--column", "tip ($)", "--epsilon", "5", "--time", "when"]
    options += ["--bound", "fare=100", "--bound", "30", "--share", "fare=0.7", "--horizon", "700"]
    same = run("release", trips, *options, "-o", output, "--state", state, "--quiet")
    assert same.exit_code == 0, same.output  # the command line says the same as the file
    asked = run("query", output, "--column", "tip ($)", "0", str(COUNT), "--json")
    (answer,) = json.loads(asked.stdout)["answers"]
    assert answer["low"] <= TIPS.sum() <= answer["high"]
    asked = run("query", output, "--ratio", "tip ($)/fare", "0", str(COUNT), "--json")
    found = json.loads(asked.stdout)
    (row,) = found["ratios"]
    assert row["low"] <= TIPS.sum() / FARES.sum() <= row["high"]
    assert "ε = 5" in found["guarantee"]
    weeks = run("query", output, "--ratio", "tip ($)/fare", "--every", "1w").stdout
    assert "2024-01-08T00:00:00" in weeks
    assert "With all columns of the run (fare, tip ($)): ε = 5" in (
        run("show", output, "--column", "fare").stdout
    )


def test_what_is_refused(trips, tmp_path):
    two = ("release", trips, "--column", "fare", "--column", "tip ($)", "--epsilon", "1")
    output = ("-o", tmp_path / "private.csv")
    for words, problem in (
        ((*two, "--bound", "100"), "--output is needed for several columns"),
        ((*two, *output, "--bound", "fare=100"), "--bound is required for 'tip ($)'"),
        ((*two, *output, "--bound", "far=100"), "bound: 'far' is not a --column of this run"),
        ((*two, *output, "--bound", "9", "--share", "fare=2"), "--share must leave something"),
        ((*two, "--column", "fare", *output, "--bound", "9"), "'fare' is given twice"),
        ((*two[:4], "--epsilon", "1", "--bound", "9", "--share", "fare=1"), "several columns"),
        ((*two[:4], "--epsilon", "1", "--bound", "tip=9"), "which is not the --column"),
    ):
        result = run(*words)
        assert result.exit_code == 2, problem
        assert problem in result.stderr
    assert not list(tmp_path.glob("private*"))
    result = run(*two, *output, "--bound", "100", "--quiet")
    assert result.exit_code == 0, result.output
    assert read_metadata(tmp_path / "private.fare.csv")["epsilon"] == "1/2"
    for words, problem in (
        (
            ("query", *output[1:], "0", "9"),
            "--column is required, since several were released: private.fare.csv, pri",
        ),
        (("query", *output[1:], "0", "9", "--ratio", "fare"), "must name two columns"),
        (("query", *output[1:], "0", "9", "--ratio", "tip/fare"), "is not of the column 'tip'"),
    ):
        assert problem in run(*words).stderr


@pytest.mark.usefixtures("read_once")
def test_a_bad_row_of_one_column_stops_both(trips, tmp_path):
    lines = trips.read_text().splitlines(keepends=True)
    lines[501] = lines[501].rsplit(",", 1)[0] + ",none of yours\n"
    trips.write_text("".join(lines))
    two = ("--column", "fare", "--column", "tip ($)", "--epsilon", "1", "--bound", "100")
    words = ("release", trips, *two, "-o", tmp_path / "private.csv", "--quiet")
    result = run(*words)
    assert result.exit_code == 4
    assert "value at row 500, column 'tip ($)' is not a number" in result.stderr
    assert "holds the first 500 rows" in result.stderr
    assert "none of yours" not in result.output
    for name in ("fare", "tip"):
        facts = read_metadata(tmp_path / f"private.{name}.csv")
        assert (facts["released"], facts["complete"]) == (500, False)


def test_the_state_of_several_columns_names_its_folders(trips, tmp_path):
    two = ("--column", "fare", "--column", "tip ($)", "--epsilon", "1", "--bound", "100")
    state = tmp_path / "state"
    words = ("release", trips, *two, "-o", tmp_path / "private.csv", "--quiet", "--state", state)
    assert run(*words).exit_code == 0
    assert "name the folder of one (0-fare, 1-tip)" in run("state", "show", state).stderr
    assert "ε = 0.5 per event" in run("state", "show", state / "0-fare").stdout
