"""Means of events on the command line: sums and a count in one run, asked together."""

import json
from fractions import Fraction

import numpy as np
import pytest

import tidegate as tg
from tests.cli.invoking import run
from tidegate.io import read_metadata, read_released
from tidegate.ledger import Ledger

DAYS, EACH = 4, 600
RNG = np.random.default_rng(8)
TIMES = np.sort(np.datetime64("2024-02-01T00:00:00") + RNG.integers(0, DAYS * 86_400, DAYS * EACH))
FARES = RNG.gamma(4, 4, TIMES.size).clip(0, 60).round(2)
CLOCK = ("--time", "when", "--every", "1h", "--start", "2024-02-01")
MEANS = ("--column", "fare", "--mean", "--epsilon", "8", "--bound", "60", *CLOCK)
ALL = (*MEANS, "--until", "2024-02-05")


def written(path, count=TIMES.size, fares=FARES):
    rows = zip(TIMES[:count], fares[:count], strict=True)
    path.write_text("when,fare,tip\n" + "".join(f"{a},{b},{b / 8:.2f}\n" for a, b in rows))
    return path


@pytest.fixture
def trips(tmp_path):
    return written(tmp_path / "trips.csv")


def asked(*words):
    found = run("query", *words, "--json")
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def of_day(day):
    return FARES[TIMES.astype("datetime64[D]") == np.datetime64("2024-02-01") + day]


def test_number_sum_and_mean(trips, tmp_path):
    # Catches: a count that adds up values, a mean over ticks, a budget that is spent twice.
    output, state = tmp_path / "private.csv", tmp_path / "state"
    words = ("release", trips, *ALL, "-o", output, "--state", state)
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert "(fare 6.4, count 1.6)" in result.stderr
    with Ledger.open(state / "ledger.jsonl", read_only=True) as ledger:
        (charge,) = ledger.charges()
    parts = [read_metadata(tmp_path / f"private.{name}.csv") for name in ("fare", "count")]
    shares = [Fraction(one["together"]["columns"][one["column"]]) for one in parts]
    assert charge.epsilon == sum(shares) == 8  # derived from the stages, and what they say
    for day, row in enumerate(asked(output, "--every", "1d")["means"]):
        values = of_day(day)
        for name, truth in (
            ("count", values.size),
            ("sum", values.sum()),
            ("mean", values.mean()),
        ):
            assert row[f"{name}_low"] <= truth <= row[f"{name}_high"], (day, name)
            assert row[f"{name}_high"] - row[f"{name}_low"] < truth  # and says something
    (whole,) = asked(output)["means"]
    assert whole["range"] == f"[0, {24 * DAYS})"
    assert whole["mean_low"] <= FARES.mean() <= whole["mean_high"]
    text = run("query", output, "--every", "1d").stdout
    assert "mean fare" in text
    assert "all columns together" in text
    kept = (tmp_path / "private.count.csv").read_bytes()
    assert run(*words, "--quiet").exit_code == 0  # nothing new: nothing is spent or written
    assert (tmp_path / "private.count.csv").read_bytes() == kept


def test_a_growing_log(tmp_path):
    # Catches: columns that stand at different ticks, a count that begins anew.
    output, state = tmp_path / "private.csv", tmp_path / "state"
    log = written(tmp_path / "trips.csv", int(np.sum(np.datetime64("2024-02-03") > TIMES)))
    words = ("release", log, *MEANS, "--horizon", "96", "-o", output, "--state", state)
    assert run(*words, "--until", "2024-02-03").exit_code == 0
    written(log)
    assert run(*words, "--until", "2024-02-05").exit_code == 0
    sizes = [
        sum(values.size for _, values in read_released(tmp_path / f"private.{name}.csv"))
        for name in ("fare", "count")
    ]
    assert sizes == [24 * DAYS] * 2
    (whole,) = asked(output)["means"]
    assert whole["count_low"] <= TIMES.size <= whole["count_high"]


def test_missing_values_count_and_ranges_differ(trips, tmp_path):
    # Catches: rows without a value that are no events; a mean of nothing.
    text = trips.read_text().splitlines()
    half = [line if at % 2 else f"{line.partition(',')[0]},," for at, line in enumerate(text)]
    trips.write_text("\n".join([text[0], *half[1:]]) + "\n")
    output = tmp_path / "private.csv"
    assert run("release", trips, *MEANS, "--until", "2024-02-09", "-o", output).exit_code == 0
    (row,) = asked(output, "--from", "2024-02-01", "--to", "2024-02-05")["means"]
    assert row["count_low"] <= TIMES.size <= row["count_high"]
    night = run("query", output, "--from", "2024-02-08T01:00", "--to", "2024-02-08T02:00")
    assert "not known" in night.stdout  # four days without events
    opened = tg.open(output)
    assert opened.query("2024-02-08T01:00", "2024-02-08T02:00").mean is None
    with pytest.raises(tg.QueryError, match="may be no event"):
        opened.mean("2024-02-08T01:00", "2024-02-08T02:00")


def test_several_columns_and_shares(trips, tmp_path):
    config, output = tmp_path / "release.toml", tmp_path / "private.parquet"
    config.write_text(
        'column = ["fare", "tip"]\nmean = true\nepsilon = 8\nbound = {fare = 60, tip = 8}\n'
        'share = {count = 0.5}\ntime = "when"\nevery = "1h"\nstart = "2024-02-01"\n'
        "until = 2024-02-05\n"
    )
    result = run("release", trips, "--config", config, "-o", output)
    assert result.exit_code == 0, result.output
    assert "(fare 2, tip 2, count 4)" in result.stderr
    found = asked(output, "--every", "1w")["means"]
    assert {row["column"] for row in found} == {"fare", "tip"}
    opened = tg.open(output)
    with pytest.raises(tg.QueryError, match="say of which column"):
        opened.mean()
    table = opened.of("tip").table("1d", confidence=0.9)
    assert table.columns()["ticks"].tolist() == [24] * DAYS
    assert table.to_pandas()["mean"].between(0, 8).all()
    days = asked(output, "--every", "1d", "--confidence", "0.9")["means"]
    tips = [row["mean_low"] for row in days if row["column"] == "tip"]
    assert table.columns()["mean_low"].tolist() == tips  # the library says the same
    assert "counts, sums and means" in repr(table)
    assert "<table" in table._repr_html_()
    with pytest.raises(tg.QueryError, match="no mean of 'count'"):
        opened.of("count")


def test_several_sums_without_means(trips, tmp_path):
    output = tmp_path / "private.csv"
    words = ("--column", "fare", "--column", "tip", "--epsilon", "8", "--bound", "60", *CLOCK)
    assert run("release", trips, *words, "--until", "2024-02-05", "-o", output).exit_code == 0
    assert asked(output, "--ratio", "tip/fare")["ratios"][0]["low"] < 0.125
    assert run("query", output).exit_code != 0  # several columns and no count: which one?


def test_what_is_refused(trips, tmp_path):
    output = ("-o", tmp_path / "private.csv")
    until = ("--until", "2024-02-05")
    for words, problem in (
        ((*MEANS[:7], *output), "--mean needs --every"),
        ((*ALL, *output, "--count"), "--count is part of --mean"),
        ((*ALL, *output, "--by", "tip"), "--by needs --keys FILE"),
        (("--mean", "--epsilon", "1", "--bound", "9", *CLOCK, *until, *output), "needs --column"),
        (ALL, "--output is needed for several columns"),
        ((*MEANS, *output), "--until is required"),
        ((*ALL, *output, "--bound", "count=3"), "--bound is not for the count"),
        ((*ALL, *output, "--share", "fare=1"), "--share must leave something"),
        (("--column", "Count", *ALL[2:], *output), "mean: writes a file for 'count'"),
    ):
        result = run("release", trips, *words)
        assert result.exit_code == 2, (words, result.output)
        assert problem in result.output.replace("\n", " "), (problem, result.output)
        assert not list(tmp_path.glob("private*"))  # nothing was spent
