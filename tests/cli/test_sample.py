"""`tidegate sample`: the same file every time, and the other commands read it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tidegate as tg
from tidegate.cli.app import app
from tidegate.io import open_source


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["sample", *arguments])
    return result.exit_code, result.output


def test_a_file_holds_the_readings_of_the_generator(tmp_path: Path) -> None:
    path = tmp_path / "meters.csv"
    code, output = run(str(path), "--days", "2", "--seed", "5")
    assert (code, "2,880 made-up readings" in output) == (0, True)
    with open_source(path, column="watts") as source:
        values = np.concatenate([batch.values for batch in source.batches()])
    times, watts = tg.synthetic.meter(days=2, seed=5)
    assert np.array_equal(values, watts, equal_nan=True)
    assert np.isnan(values).any()
    lines = path.read_text().splitlines()
    assert lines[0] == "time,watts"
    assert [line.partition(",")[0] for line in lines[1:]] == [f"{time}Z" for time in times]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "meters.csv"
    path.write_text("mine")
    code, output = run(str(path))
    assert (code, "exists" in output) == (2, True)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("wrong", [["--days", "0"], ["--days", "99999"], ["--seed", "-1"]])
def test_settings_are_checked(tmp_path: Path, wrong: list[str]) -> None:
    code, output = run(str(tmp_path / "m.csv"), *wrong)
    assert (code, wrong[0].removeprefix("--") in output) == (2, True)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_missing_is_said(tmp_path: Path) -> None:
    code, output = run(str(tmp_path / "none" / "m.csv"))
    assert code != 0
    assert "Traceback" not in output
