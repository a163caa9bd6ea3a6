"""Mistakes that a newcomer makes: refused before anything is lost, by the name of the option."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tidegate.cli.app import app

SETTINGS = ("--epsilon", 1, "--bound", 100, "--holdout", 8, "--horizon", 64, "--quiet")


def run(*words: Any) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words], prog_name="tidegate")
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "values.csv"
    path.write_text("value\n" + "7\n" * 40)
    return path


@pytest.fixture
def released(tmp_path: Path, source: Path) -> Path:
    path = tmp_path / "private.csv"
    assert run("release", source, "-o", path, *SETTINGS).exit_code == 0
    return path


def refused(result: Result, code: int, *told: str) -> None:
    assert result.exit_code == code, result.output
    for words in told:
        assert words in result.stderr


def test_no_command_writes_over_its_input(source: Path) -> None:
    before = source.read_text()
    refused(run("release", source, "-o", source, *SETTINGS), 2, "--output is the input")
    given = ("--epsilon", 1, "--bound", 100, "--threshold", 20)
    refused(run("local", "simulate", source, "-o", source, *given), 2, "--output is the input")
    assert source.read_text() == before


def test_a_picture_does_not_replace_the_release_or_its_facts(released: Path) -> None:
    facts = released.with_name("private.csv.meta.json")
    for place in (released, facts):
        before = place.read_bytes()
        refused(run("show", released, "--png", place), 2, "png", place.name)
        assert place.read_bytes() == before


def test_the_line_of_text_has_a_widest(released: Path) -> None:
    refused(run("show", released, "--width", 10**5), 2, "--width must lie between 1 and 10000")


@pytest.mark.parametrize("words", [("-o", "out.xls"), ("-o", "out.csv", "--output-format", "xls")])
def test_an_output_of_no_format_costs_nothing(
    tmp_path: Path, source: Path, words: tuple[str, ...]
) -> None:
    state = tmp_path / "state"
    for durable in ((), ("--state", state)):
        refused(run("release", source, *words, *SETTINGS, *durable), 2, "--output-format")
    assert not state.exists()


def test_facts_that_cannot_be_are_a_matter_of_the_file(released: Path) -> None:
    place = released.with_name("private.csv.meta.json")
    facts = json.loads(place.read_text())
    facts["settings"]["perturber"]["epsilon"] = "1e3000000000"
    place.write_text(json.dumps(facts))
    for command in (("query", released, 0, 10), ("show", released)):
        refused(run(*command), 4, str(released), "epsilon: is too large")


def test_a_rehearsal_is_told_from_a_release(tmp_path: Path, source: Path) -> None:
    output = tmp_path / "rehearsal.csv"
    given = ("--epsilon", 1, "--bound", 100, "--threshold", 20, "-o", output)
    assert run("local", "simulate", source, *given).exit_code == 0
    refused(run("show", output), 4, "comes from `tidegate local simulate`")
    assert "A rehearsal" in run("query", output, 0, 10).stdout


def test_messages_name_the_option_that_is_wrong(tmp_path: Path, source: Path) -> None:
    state = tmp_path / "state"
    durable = ("release", source, "-o", tmp_path / "a.csv", *SETTINGS, "--state", state)
    assert run(*durable).exit_code == 0
    refused(run("state", "rekey", state, "--new-key-file", tmp_path / "no"), 4, "new-key-file: ")
    refused(run(*durable, "--unit", "window:0"), 2, "unit: ")
    # Another folder would not add up what the same values have cost.
    refused(run(*durable, "--epsilon", 2), 3, "--new-epoch", "charged on top")
    users = ("--unit", "user-horizon:3", "--user-column", "who")
    refused(run("release", source, *SETTINGS, *users), 2, "user-column: ")
    refused(run("query", tmp_path / "a.csv", 0, 10**30), 2, "beyond every stream")


def test_reports_under_another_name_are_told_what_is_wanted(tmp_path: Path) -> None:
    state, reports = tmp_path / "state.db", tmp_path / "reports.txt"
    assert run("local", "announce", state, "--epsilon", 1, "--bound", 9).exit_code == 0
    reports.write_text("{}\n")
    refused(run("local", "collect", state, reports), 4, "must end in .jsonl")
