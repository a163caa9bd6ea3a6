"""`--period`: rows, or a length of time where rows are evenly spaced."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import tidegate as tg
from tidegate.cli.app import app

HOURS = 600
COMMON = ["--epsilon", "1", "--bound", "50", "--quiet"]


def table(path: Path, minutes: int) -> str:
    """Hourly rows, the third of them this many minutes late."""
    rows = [
        f"2024-02-{1 + hour // 24:02}T{hour % 24:02}:{minutes * (hour == 2):02},{hour % 24}"
        for hour in range(HOURS)
    ]
    path.write_text("\n".join(["when,value", *rows, ""]))
    return str(path)


def released_period(tmp_path: Path, *options: str, minutes: int = 0) -> tuple[object, str]:
    source, output = table(tmp_path / "in.csv", minutes), tmp_path / "out.csv"
    arguments = ["release", source, "-o", str(output), "--column", "value", *COMMON, *options]
    result = CliRunner().invoke(app, arguments)
    if result.exit_code:
        return None, result.stderr
    return tg.open(output).pipeline.estimator.settings().get("period"), result.stderr


@pytest.mark.parametrize(
    ("options", "period"),
    [
        (["--period", "24"], [24]),
        (["--period", "24,168"], [24, 168]),
        (["--period", "1d, 2d,5", "--time", "when"], [24, 48, 5]),
        ([], None),
    ],
)
def test_periods_as_rows_and_as_time(tmp_path: Path, options: list[str], period: object) -> None:
    assert released_period(tmp_path, *options)[0] == period


def test_a_period_in_the_config(tmp_path: Path) -> None:
    config = tmp_path / "release.toml"
    config.write_text("period = 24\n")
    assert released_period(tmp_path, "--config", str(config))[0] == [24]


@pytest.mark.parametrize(
    ("options", "minutes", "message"),
    [
        (["--period", "1d"], 0, "a length of time needs --time"),
        (["--period", "1d", "--time", "when"], 5, "not evenly spaced"),
        (["--period", "90min", "--time", "when"], 0, "not a whole number of rows"),
        (
            ["--period", "1d", "--time", "when", "--by", "when", "--keys-are-public"],
            0,
            "rows of a key",
        ),
        (["--period", "1"], 0, "at least 3"),
        (["--period", "24", "--preset", "tops"], 0, "adaptive, adaptive-gaussian have it"),
    ],
)
def test_what_is_refused(tmp_path: Path, options: list[str], minutes: int, message: str) -> None:
    found, complaint = released_period(tmp_path, *options, minutes=minutes)
    assert found is None
    assert message in complaint
    assert not (tmp_path / "out.csv").exists()
