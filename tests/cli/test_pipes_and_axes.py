"""What a stranger types: JSON Lines and keys by a pipe, a .tsv out, times below a picture."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invoking import run

ROWS = 400
SETTINGS = ["--epsilon", "20", "--bound", "10", "--horizon", "256", "--quiet"]


def lines(*, nested: bool) -> str:
    """Trips of two zones, a minute apart."""
    rows = []
    for number in range(ROWS):
        time = f"2024-01-01T{number // 60:02d}:{number % 60:02d}:00"
        row: dict[str, Any] = {"zone": f"z{number % 2}", "at": time}
        row |= {"trip": {"fare": number % 7}} if nested else {"fare": number % 7}
        rows.append(json.dumps(row) + "\n")
    return "".join(rows)


def piped(text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """By a true pipe: the process is the point."""
    command = [sys.executable, "-m", "tidegate", "release", *words, *SETTINGS]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def keys_file(folder: Path) -> str:
    (folder / "keys.txt").write_text("z0\nz1\n")
    return str(folder / "keys.txt")


@pytest.mark.parametrize("to_file", [False, True])
def test_keys_by_a_pipe(tmp_path: Path, to_file: bool) -> None:
    """It ended with an error of ours, whatever came in: a pipe was asked for its place."""
    out = tmp_path / "out.csv"
    words = ["--column", "trip.fare", "--by", "zone", "--keys", keys_file(tmp_path)]
    found = piped(lines(nested=True), *words, *(["-o", str(out)] if to_file else []))
    assert found.returncode == 0, found.stderr
    rows = (out.read_text() if to_file else found.stdout).splitlines()
    if to_file:
        assert rows.pop(0) == "key,position,value,level"
    else:  # as the input
        assert list(json.loads(rows[0])) == ["key", "position", "value", "level"]
    assert len(rows) == ROWS


def test_json_lines_by_a_pipe_come_out_as_json_lines() -> None:
    found = piped(lines(nested=True), "--column", "trip.fare", "--time", "at")
    assert found.returncode == 0, found.stderr
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert len(rows) == ROWS
    assert rows[0]["time"] == "2024-01-01T00:00:00"


def test_csv_by_a_pipe_and_a_format_that_is_given_stay() -> None:
    text = "fare\n" + "".join(f"{number % 7}\n" for number in range(ROWS))
    assert piped(text, "--column", "fare").stdout.startswith("position,value,level\n")
    words = ["--column", "fare", "--output-format", "csv"]
    assert piped(lines(nested=False), *words).stdout.startswith("position,value,level\n")


def test_show_has_times_below_its_line(tmp_path: Path) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.csv"
    source.write_text(lines(nested=False))
    timed = ["--column", "fare", "--time", "at", "--zone", "Europe/Berlin", "-o", out]
    assert run("release", source, *timed, *SETTINGS).exit_code == 0
    shown = run("show", out, "--width", 90).output.splitlines()
    axis = shown[next(at for at, line in enumerate(shown) if line.startswith("level:")) - 1]
    assert axis.split() == [f"2024-01-01T{clock}:00+01:00" for clock in ("00:00", "03:20", "06:39")]
    assert len(axis) == 90
    short = run("show", out, "--width", 60).output
    assert "2024-01-01T00:00:00+01:00          2024-01-01T06:39:00+01:00\n" in short


def test_counts_and_bounds_of_events_are_told_apart(tmp_path: Path) -> None:
    """`--count --bound` asked for a bound, which was there."""
    source = tmp_path / "in.jsonl"
    source.write_text(lines(nested=False))
    words = ["release", source, "--time", "at", "--every", "1h"]
    words += ["--start", "2024-01-01", "--until", "2024-01-02", "--epsilon", 1]
    both = run(*words, "--count", "--bound", 10).output
    assert "--count counts events" in both
    assert "is required" not in both
    assert "--bound is required for sums of events" in run(*words, "--column", "fare").output
