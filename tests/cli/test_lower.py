"""`--lower` from end to end: check proposes it, release keeps values below 0, all else says it."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.cli.invoking import run
from tidegate.io import read_metadata

COUNT = 3000
VALUES = np.round(
    6
    + 18 * np.cos(np.linspace(0, 2 * np.pi, COUNT))
    + np.random.default_rng(1).normal(0, 2, COUNT),
    1,
)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "temperatures.csv"
    path.write_text("celsius\n" + "".join(f"{value}\n" for value in VALUES))
    return path


def test_check_proposes_it_and_the_command_gives_the_right_total(source: Path) -> None:
    result = run("check", source.name, "--column", "celsius", "--epsilon", "3")
    assert result.exit_code == 0, result.output
    assert "without --lower each counts as 0, so a total is too high by" in result.stdout
    command = shlex.split(result.stdout.splitlines()[-1])
    assert command[command.index("--lower") + 1] == "-20"
    released = run(*command[1:])
    assert released.exit_code == 0, released.output
    assert "values count from -" in released.stderr
    asked = run("query", "private.csv", 0, COUNT, "--json")
    facts = json.loads(asked.stdout)
    assert facts["floor"] < 0 < facts["threshold"]
    estimate = facts["answers"][0]["estimate"]
    assert abs(estimate - VALUES.sum()) < 0.1 * np.abs(VALUES).sum()
    assert "Values were capped to [-" in run("query", "private.csv", 0, COUNT).stdout
    shown = run("show", "private.csv").stdout
    assert "lower -20" in shown
    assert " to " in next(line for line in shown.splitlines() if line.startswith("threshold"))
    metadata = read_metadata("private.csv")
    assert metadata is not None
    assert metadata["settings"]["lower"] == "-20"
    assert metadata["floor"] == metadata["phases"][-1]["floor"] < 0
    state = run("state", "show", "state").stdout
    assert "threshold  -" in state


def test_check_with_a_lower_bound_says_what_it_cuts(source: Path) -> None:
    result = run("check", source.name, "--column", "celsius", "--lower", "-10", "--bound", "50")
    assert "With --lower -10" in result.stdout
    assert "without --lower" not in result.stdout
    assert "of what is below 0" in result.stdout
    wrong = run("check", source.name, "--column", "celsius", "--lower", "3")
    assert wrong.exit_code == 2
    assert "--lower must be 0 or below" in wrong.stderr


def test_without_it_release_and_query_say_that_values_below_zero_count_as_zero(
    source: Path,
) -> None:
    settings = ("--epsilon", "3", "--bound", "50")
    released = run("release", source.name, "--header", "-o", "blind.csv", *settings)
    assert released.exit_code == 0, released.output
    assert "values below 0 as 0 (see --lower)" in released.stderr
    assert "alues below 0 counted as 0." in run("query", "blind.csv", 0, COUNT).stdout
    metadata = read_metadata("blind.csv")
    assert metadata is not None
    assert "floor" not in metadata
    assert "lower" not in metadata["settings"]


@pytest.mark.parametrize("preset", ["tops", "adaptive"])
def test_a_config_may_say_it(source: Path, preset: str) -> None:
    Path("release.toml").write_text(
        f'epsilon = 3\nbound = 50\nlower = -20\npreset = "{preset}"\n'
        "header = true\nholdout = 500\nhorizon = 3000\n"
    )
    released = run("release", source.name, "-o", "p.csv", "--config", "release.toml")
    assert released.exit_code == 0, released.output
    again = run("release", source.name, "-o", "q.csv", "--config", "release.toml", "--lower", "1")
    assert again.exit_code == 2
    assert "--lower must be 0 or below" in again.stderr


def test_plans_are_for_the_width_between_both_ends() -> None:
    settings = ("plan", "--epsilon", "1", "--bound", "50", "--lengths", "3000", "--json")
    plain = json.loads(run(*settings, "--threshold", "30").stdout)
    both = json.loads(
        run(*settings, "--threshold", "30", "--lower", "-50", "--floor", "-30").stdout
    )
    worst = json.loads(run(*settings, "--threshold", "30", "--lower", "-50").stdout)
    assert [one["floor"] for one in (plain, both, worst)] == pytest.approx([0, -30, -50])
    widths = [one["expected"][0]["standard_error"] for one in (plain, both, worst)]
    assert widths[0] < 0.6 * widths[1] < 0.9 * widths[2]
    text = run(*settings[:-1], "--threshold", "30", "--lower", "-50", "--floor", "-30").stdout
    assert "Values from -30 to 30 assumed" in text
    wrong = run(*settings, "--lower", "-50", "--floor", "-60")
    assert "--floor must lie between" in wrong.stderr
