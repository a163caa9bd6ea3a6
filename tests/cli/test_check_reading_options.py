"""`tidegate check` finds how a file is to be read, and its command works as it stands."""

import shlex
from pathlib import Path

import pytest

from tests.cli.invoking import run

_HOURS = [f"{day:02}.03.2025 {hour:02}:00" for day in range(1, 31) for hour in range(24)]


def _write_meter(path: Path, separator: str, decimal: str, times: list[str] = _HOURS) -> None:
    rows = [
        separator.join((time, str(1 + at % 7 / 4).replace(".", decimal), "Haus A"))
        for at, time in enumerate(times)
    ]
    names = separator.join(("Zeit", "kWh", "Gebäude"))
    path.write_text("\n".join([names, *rows, ""]), encoding="utf-8")


def test_a_german_meter_needs_no_option_to_be_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _write_meter(tmp_path / "meter.csv", ";", ",")
    listed = run("check", "meter.csv")
    assert listed.exit_code == 2
    assert "'Zeit', 'kWh', 'Gebäude'" in listed.stdout
    result = run("check", "meter.csv", "--column", "kWh", "--epsilon", "3", "--bound", "50")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert "read with  --delimiter ';' --decimal ',' (found in the first rows)" in lines
    assert any(line.startswith("from, to   2025-03-01T00:00:00, 2025-03-30T23") for line in lines)
    command = shlex.split(lines[-1])
    assert command[command.index("--time-format") + 1] == "%d.%m.%Y %H:%M"
    released = run(*command[1:])
    assert released.exit_code == 0, released.output
    asked = run("query", "private.csv", "--from", "2025-03-02", "--to", "2025-03-09")
    assert asked.exit_code == 0, asked.output


@pytest.mark.parametrize(("separator", "option"), [("\t", "tab"), ("|", "|")])
def test_tabs_and_bars_are_found(tmp_path: Path, separator: str, option: str) -> None:
    _write_meter(tmp_path / "meter.csv", separator, ".")
    result = run("check", str(tmp_path / "meter.csv"), "--column", "kWh")
    assert result.exit_code == 0, result.output
    assert f"read with  --delimiter '{option}' (found" in result.stdout


def test_what_is_given_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "meter.csv"
    _write_meter(path, ";", ",")
    how = ("--column", "kWh", "--delimiter", ";", "--decimal", ",", "--time", "Zeit")
    given = run("check", str(path), *how, "--time-format", "%d.%m.%Y %H:%M")
    assert given.exit_code == 0, given.output
    assert "read with" not in given.stdout
    wrong = run("check", str(path), "--column", "kWh", "--delimiter", ",")
    assert wrong.exit_code != 0


def test_days_and_months_that_look_alike_are_left_to_the_user(tmp_path: Path) -> None:
    alike = [f"0{1 + at // 24 % 9}/0{1 + at // 216}/2025 {at % 24:02}:00" for at in range(600)]
    _write_meter(tmp_path / "alike.csv", ",", ".", alike)
    result = run("check", str(tmp_path / "alike.csv"), "--column", "kWh", "--time", "Zeit")
    assert result.exit_code == 0, result.output
    assert "--time-format" not in result.stdout.splitlines()[-1]
    assert "order      a release would stop" in result.stdout
    told = [f"{at // 24 + 1:02}/03/2025 {at % 24:02}:00" for at in range(600)]
    _write_meter(tmp_path / "told.csv", ",", ".", told)
    result = run("check", str(tmp_path / "told.csv"), "--column", "kWh")
    assert "--time-format '%d/%m/%Y %H:%M'" in result.stdout.splitlines()[-1]


def test_a_title_above_the_names_is_told(tmp_path: Path) -> None:
    path = tmp_path / "title.csv"
    path.write_text("A title\n\ntime;kWh\n2025-03-01;1,5\n2025-03-02;1,5\n")
    result = run("check", str(path), "--column", "kWh")
    assert result.exit_code != 0
    assert "line 3" in result.stderr
