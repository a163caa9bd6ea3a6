"""The first answer of a newcomer: never an empty file, never a confident wrong number."""

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from tidegate.cli.app import app
from tidegate.cli.exit_codes_and_signals import stopping_on_signal
from tidegate.io import read_metadata

GOOD = ("--epsilon", "1", "--bound", "12.5", "--holdout", "500", "--horizon", "3500")


def run(*words: Any) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words], prog_name="tidegate")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


@pytest.fixture
def source(tmp_path: Path) -> Path:
    values = np.random.default_rng(3).gamma(2.0, 1.0, 4000)
    path = tmp_path / "meters.csv"
    path.write_text("value\n" + "".join(f"{value:.2f}\n" for value in values))
    return path


def test_obvious_settings_give_a_good_answer(source: Path, tmp_path: Path) -> None:
    """A bound of 12.5 and decimals: 30 % too low, with the defaults of then."""
    output = tmp_path / "private.csv"
    result = run("release", source, "-o", output, *GOOD)
    assert result.exit_code == 0, result.output
    assert read_metadata(output)["settings"]["perturber"]["kind"] == "perturb.AdaptiveTrees"
    answer = json.loads(run("query", output, 0, 3500, "--json").stdout)["answers"][0]
    true = np.loadtxt(source, skiprows=1)[500:].sum()
    assert answer["estimate"] == pytest.approx(true, rel=0.02)
    # The summary is there though nobody looks at a terminal, and speaks of this release.
    assert "released 3,500 of 4,000 rows" in result.stderr
    assert "ε = 1 per event" in result.stderr
    reach = answer["high"] - answer["estimate"], answer["estimate"] - answer["low"]
    assert f"+ {reach[0]:.4g} and − {reach[1]:.4g} (95 %)" in result.stderr
    assert run("release", source, "-o", tmp_path / "b.csv", *GOOD, "--quiet").stderr == ""


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "csv.gz"])
def test_an_output_is_never_replaced_by_nothing(source: Path, tmp_path: Path, kind: str) -> None:
    output = tmp_path / f"private.{kind}"
    assert run("release", source, "-o", output, *GOOD).exit_code == 0
    kept = {path: path.read_bytes() for path in tmp_path.glob("private*")}
    usual = ("--preset", "tops", "--epsilon", "1", "--bound", "12.5", "--overwrite", "--quiet")
    for words in (("-o", output, *usual), ("-o", tmp_path / f"new.{kind}", *usual)):
        result = run("release", source, *words)
        assert result.exit_code == 5
        assert "nothing was released" in result.stderr  # --quiet or not
        assert "61,536 more rows, or --holdout 250" in result.stderr
    assert {path: path.read_bytes() for path in tmp_path.glob("private*")} == kept
    assert not list(tmp_path.glob("new*"))


def test_a_state_that_holds_out_says_how_to_go_on(source: Path, tmp_path: Path) -> None:
    settings = ("--preset", "tops", "--epsilon", "1", "--bound", "12.5")
    words = ("-o", tmp_path / "a.csv", *settings, "--state", tmp_path / "s")
    result = run("release", source, *words)
    assert result.exit_code == 5
    assert "same command again when there are 61,536 more rows" in result.stderr
    assert not (tmp_path / "a.csv").exists()


def test_a_second_run_needs_to_be_told_to_overwrite(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "private.csv"
    assert run("release", source, "-o", output, *GOOD).exit_code == 0
    before = output.read_bytes()
    refused = run("release", source, "-o", output, *GOOD)
    assert refused.exit_code == 2
    assert "spend epsilon" in refused.stderr
    assert "--overwrite" in refused.stderr
    assert output.read_bytes() == before
    again = run("release", source, "-o", output, *GOOD, "--overwrite")
    assert again.exit_code == 0
    assert "epsilon was spent anew" in again.stderr
    assert output.read_bytes() != before
    state = ("--state", tmp_path / "s", "--overwrite")
    assert run("release", source, "-o", tmp_path / "x.csv", *GOOD, *state).exit_code == 2
    (tmp_path / "empty.csv").touch()  # such as mktemp makes
    assert run("release", source, "-o", tmp_path / "empty.csv", *GOOD).exit_code == 0


def test_values_that_were_cut_are_not_passed_over(source: Path, tmp_path: Path) -> None:
    """A threshold far below the values: the sum is small and sure of itself; the text says so."""
    output, settings = tmp_path / "a.csv", ("--epsilon", "1", "--bound", "0.5", "--holdout", "500")
    result = run("release", source, "-o", output, *settings, "--horizon", "3500")
    assert "true sum is larger" in result.stderr
    assert "true sum is larger" in run("query", output, 0, 3500).stdout
    fine = run("release", source, "-o", tmp_path / "b.csv", *GOOD)
    assert "true sum is larger" not in fine.stderr


def test_a_short_file_tells_its_own_length(tmp_path: Path) -> None:
    """Without --horizon a warm-up for 2^20 values would swallow all of 600 rows."""
    short = tmp_path / "short.csv"
    short.write_text("value\n" + "3\n" * 600)
    result = run("release", short, "-o", tmp_path / "a.csv", "--epsilon", 3, "--bound", 12)
    assert result.exit_code == 0, result.output
    assert read_metadata(tmp_path / "a.csv")["settings"]["perturber"]["horizon"] == 602
    answer = json.loads(run("query", tmp_path / "a.csv", 0, 600, "--json").stdout)["answers"][0]
    assert answer["estimate"] == pytest.approx(1800, rel=0.25)


def test_a_threshold_by_chance_is_not_passed_over(source: Path, tmp_path: Path) -> None:
    doubtful = ("--epsilon", "0.1", "--bound", "12.5", "--holdout", "100", "--horizon", "3900")
    result = run("release", source, "-o", tmp_path / "a.csv", *doubtful)
    assert result.exit_code == 0
    assert "warning: The threshold is little better than chance" in result.stderr
    assert "Use a hold-out of 500 values" in result.stderr


def test_hopeless_settings_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    absent = tmp_path / "absent.csv"
    unit = ("--epsilon", "0.1", "--bound", "10", "--unit", "window:1440")
    paper = ("--preset", "tops")
    result = run("release", absent, *unit, *paper)
    assert result.exit_code == 2
    assert "Use epsilon 1.1 or more, or a hold-out of 720,000 values" in result.stderr
    planned = run("plan", *unit, *paper)
    assert (planned.exit_code, "Use epsilon 1.1" in planned.stderr) == (2, True)
    short = run("release", absent, *unit, "--horizon", 10_000)
    assert short.exit_code == 2
    assert "Use epsilon 0.44 or more, or a horizon of 43,200 values" in short.stderr
    above = run("plan", "--epsilon", "1", "--bound", "10", "--threshold", "20")
    assert above.exit_code == 2
    assert "--threshold must not exceed the bound 10" in above.stderr


def test_what_is_not_there_has_one_exit_code(tmp_path: Path) -> None:
    absent, settings = tmp_path / "absent.csv", ("--epsilon", 1, "--bound", 9)
    (tmp_path / "in.csv").write_text("1\n")
    for words in (
        ("release", absent, *settings),
        ("release", tmp_path / "in.csv", "--config", tmp_path / "no.toml"),
        (
            "release",
            tmp_path / "in.csv",
            *settings,
            "--state",
            tmp_path / "s",
            "--key-file",
            absent,
        ),
        ("check", absent),
        ("query", absent, 0, 5),
        ("show", absent),
        ("state", "show", tmp_path / "nowhere"),
        ("ledger", tmp_path / "nowhere"),
        ("local", "query", tmp_path / "no.db", 0, 5),
        ("local", "simulate", absent, *settings),
    ):
        assert run(*words).exit_code == 4, words


def test_events_outside_the_ticks_are_counted_for_the_operator(tmp_path: Path) -> None:
    """A wrong year must not look like a quiet week."""
    (tmp_path / "log.csv").write_text("at\n2024-02-01T00:10\n2024-02-01T00:20\n2024-02-09T00:00\n")
    words = ["release", tmp_path / "log.csv", "--time", "at", "--every", "1h", "--count"]
    words += ["--epsilon", 1, "--start", "2024-02-02", "--until", "2024-02-03"]
    for state in ([], ["--state", tmp_path / "state"]):
        told = run(*words, "-o", tmp_path / f"{len(state)}.csv", *state).stderr
        assert "dropped 2 events: before --start" in told
        assert "there are events after the last tick that is over at --until" in told


def test_a_cap_at_the_bound_is_said(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("watts\n" + "7\n3\n9\n" * 700)
    words = ["--column", "watts", "--epsilon", 1, "-o", tmp_path / "out.csv", "--overwrite"]
    told = run("release", tmp_path / "in.csv", *words, "--bound", 5).stderr
    assert "Values above the bound (5) count as that bound" in told
    answer = run("query", tmp_path / "out.csv").stdout
    assert "Values above the bound (5) count as that bound" in answer
    assert "Use a larger bound." in answer
    assert (
        "above the bound" not in run("release", tmp_path / "in.csv", *words, "--bound", 500).stderr
    )


def test_an_interval_wider_than_the_sum_is_said(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("watts\n" + "0\n" * 2000)
    words = ["--column", "watts", "--epsilon", 1, "--bound", 50, "-o", tmp_path / "out.csv"]
    run("release", tmp_path / "in.csv", *words, "--preset", "flat", "--holdout", 500)
    assert "intervals are wider than the sums" in run("query", tmp_path / "out.csv").stdout


def test_a_bound_far_above_the_cap_is_said(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("watts\n" + "7\n3\n9\n" * 700)
    words = ["--column", "watts", "--epsilon", 3, "-o", tmp_path / "out.csv", "--overwrite"]
    for bound, said in ((10_000_000, True), (20, False)):
        run("release", tmp_path / "in.csv", *words, "--bound", bound)
        answer = run("query", tmp_path / "out.csv", 1000, 2000).stdout
        assert ("A smaller bound gives shorter intervals." in " ".join(answer.split())) is said


def test_check_does_not_recommend_a_bound_that_cuts(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("watts\n" + "7\n3\n90\n" * 700)
    told = run("check", tmp_path / "in.csv", "--column", "watts", "--bound", 5).stdout
    assert "if values are cut at about 5:" in told
    assert "off a total: no estimate and no interval has that part" in told
    assert "--bound 100 " in told.partition("To release it")[2]


def test_an_empty_file_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("watts\n")
    words = ["--column", "watts", "--epsilon", 1, "--bound", 50, "-o", tmp_path / "out.csv"]
    assert "the input has no rows" in run("release", tmp_path / "in.csv", *words).stderr


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_got_lost_stops_the_run_at_the_next_block() -> None:
    """Python drops exceptions of finalizers, and a signal may come there."""
    done: list[int] = []

    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    with stopping_on_signal(None) as stop:
        advance = stop.then(done.append)
        advance(1)
        Finalized()
        with pytest.raises(KeyboardInterrupt):
            advance(2)
    assert done == [1]


def test_keys_that_match_nothing_are_said(tmp_path: Path) -> None:
    """Leading zeros: everything would be dropped, or only noise would come out."""
    (tmp_path / "in.csv").write_text("at,shop,eur\n" + "2024-02-01T00:10,1,7\n" * 300)
    (tmp_path / "keys.txt").write_text("01\n02\n")
    words = ["release", tmp_path / "in.csv", "--by", "shop", "--keys", tmp_path / "keys.txt"]
    words += ["--epsilon", 1, "--bound", 50, "--column", "eur", "--time", "at"]
    readings = run(*words, "-o", tmp_path / "out.csv").stderr
    assert "no row has a declared key" in readings
    ticks = ("--every", "1h", "--start", "2024-02-01", "--until", "2024-02-03")
    events = run(*words, "-o", tmp_path / "ticks.csv", *ticks).stderr
    assert "warning: no event has a declared key" in events
