"""Messages begin with the option as it was typed, and say what to do next."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tests.cli.invoking import run
from tidegate.cli.exit_codes_and_signals import errors_as_exit_codes
from tidegate.errors import SettingError

ROWS = "when;zone;load\n" + "".join(
    f"{1 + number // 24:02}.01.2024 {number % 24:02}:00;{'ab'[number % 2]};{number % 7},5\n"
    for number in range(400)
)
READ = ("--delimiter", ";", "--decimal", ",", "--column", "load")
SPENT = ("--epsilon", "5", "--bound", "9")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text(ROWS)
    return path


@pytest.mark.parametrize(
    ("setting", "problem", "said"),
    [
        ("user_column", "must be a name", "tidegate: --user-column must be a name\n"),
        ("user_column", "is required", "tidegate: --user-column is required\n"),
        ("user_column", "there is no 'x'", "tidegate: --user-column: there is no 'x'\n"),
        ("fanout", "must be 2 or more", "tidegate: fanout: must be 2 or more\n"),
    ],
)
def test_a_setting_is_named_as_the_command_spells_it(setting, problem, said):
    """One that is no option of this command is named as in Python."""
    small = typer.Typer()

    @small.command()
    def command(user_column: str = "") -> None:
        with errors_as_exit_codes():
            raise SettingError(setting, problem)

    result = CliRunner().invoke(small, [])
    assert (result.exit_code, result.stderr) == (2, said)


def test_what_is_missing(source):
    assert run("release", source, *READ).stderr.startswith(
        "tidegate: --epsilon is required (or set `epsilon` in the config file)\n"
    )
    several = run("release", source, "--delimiter", ";", *SPENT).stderr
    assert "row 0 has several fields; --column chooses one" in several


def test_check_lists_the_columns_where_a_name_is_wrong(source):
    result = run("check", source, *READ[:-1], "lod")
    assert result.exit_code == 2
    assert "Choose a column with --column: 'when', 'zone', 'load'" in result.stdout
    assert result.stderr.startswith("tidegate: --column: there is no 'lod'")


def test_a_clock_that_stays_on_winter_time(source, tmp_path):
    """The night of a meter in March has an hour that summer time leaves out."""
    source.write_text("when;load\n" + "".join(f"31.03.2024 {at:02}:00;1,5\n" for at in range(24)))
    output = tmp_path / "out.csv"
    settings = (*SPENT, "--time", "when", "--time-format", "%d.%m.%Y %H:%M", "-o", output)
    berlin = run("release", source, *READ, *settings, "--zone", "Europe/Berlin").stderr
    assert "clocks were set forward. If yours stays on winter time" in berlin
    zone = berlin.partition("name that zone: ")[2].split()[0]
    run("release", source, *READ, *settings, "--zone", zone)
    assert output.read_text().splitlines()[1].startswith("2024-03-31T00:00:00+01:00,")


def test_a_time_where_a_position_belongs(source, tmp_path):
    out = tmp_path / "out.csv"
    assert run("release", source, *READ, *SPENT, "-o", out).exit_code == 0
    asked = run("query", out, "2024-02-01", "2024-03-01")
    assert asked.exit_code == 2
    assert "'START': must be a position, a whole number. To ask by time, use --from" in asked.stderr
    assert run("query", out, 0, 100).exit_code == 0


def test_the_keys_that_are_there(source, tmp_path):
    out = tmp_path / "out.csv"
    by = ("--by", "zone", "--keys-are-public", "-o", out)
    assert run("release", source, *READ, *SPENT, *by).exit_code == 0
    asked = run("query", out, "--key", "c")
    assert "key 'c' has no released rows in this file; it has a, b\n" in asked.stderr
    assert "--key is required: out.csv has the keys a, b" in run("show", out).stderr


def test_the_list_of_commands_is_cut_nowhere():
    """First lines of help fit a terminal of 80 columns."""
    lines = run("--help").stdout.partition("Commands:")[2].splitlines()
    assert len(lines) > 15
    assert not [line for line in lines if line.endswith("...")]
