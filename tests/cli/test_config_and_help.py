"""Every option in the TOML file too; one style of help; progress apart from data; rehearsals."""

import json
import sys

import numpy as np
import pytest

from tests.cli.invoking import run
from tidegate.cli.pipeline_from_options import options_with_config
from tidegate.cli.progress import Progress
from tidegate.cli.release_options import KINDS, OPTIONS
from tools import cli_reference

LEAVES = {
    path: command
    for path, command in cli_reference.commands(cli_reference.command_tree())
    if not hasattr(command, "commands")
}
WRITTEN = {bool: ("true", True), int: ("3", 3), str: ('"x"', "x"), list: ('["x", 5]', ["x", "5"])}


def test_every_option_of_release_can_stand_in_the_config(tmp_path):
    config = tmp_path / "release.toml"
    names = {name.replace("_", "-") for name in OPTIONS} - {"config"}
    assert names < KINDS.keys()
    lines = [f"{name} = {WRITTEN[KINDS[name]][0]}" for name in sorted(names)]
    config.write_text("\n".join(lines))
    found = options_with_config(dict.fromkeys(names), config, KINDS)
    assert found == {name: WRITTEN[KINDS[name]][1] for name in names}
    config.write_text('start = 2024-01-01\nuntil = 2024-02-01T12:00:00\nbound = {a = 1, "b c" = 2}')
    found = options_with_config(dict.fromkeys(names), config, KINDS)
    assert found == {
        "start": "2024-01-01",
        "until": "2024-02-01T12:00:00",
        "bound": ["a=1", "b c=2"],
    }
    over = options_with_config({**dict.fromkeys(names), "start": "2023"}, config, KINDS)
    assert over["start"] == "2023"  # the command line counts


@pytest.mark.parametrize("path", LEAVES)
def test_help_ends_with_examples_and_is_as_wide_as_the_terminal(path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    text = run(*path.split()[1:], "--help").stdout
    about, found, examples = text.partition("\n  Examples:\n")
    assert found, "each command has examples"
    assert "--help" in about  # options come before
    assert all(line.startswith("    ") for line in examples.splitlines() if line)
    assert path in examples
    assert LEAVES[path].help.split("\n\n")[0].strip().endswith((".", "?"))
    assert "<list" not in text


class Source:
    rows = None

    def fraction(self):
        return 0.5


def test_progress_knows_the_warm_up_and_keeps_away_from_data(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    for output in (None, "-"):  # rows appear on the terminal: no bar among them
        with Progress(Source(), quiet=False, output=output) as progress:
            assert progress._bar is None
    with Progress(Source(), quiet=False, output="out.csv", first=100) as progress:
        progress.advance(40)
        assert progress._bar.tasks[0].description == "warming up (60 values left)"
        progress.advance(60)
        assert progress._bar.tasks[0].description == "releasing"


def test_a_rehearsal_of_the_local_model_can_be_asked(tmp_path):
    values = np.random.default_rng(1).integers(0, 40, 12_000)
    source, output = tmp_path / "in.csv", tmp_path / "rehearsal.parquet"
    source.write_text("value\n" + "".join(f"{value}\n" for value in values))
    how = ("--epsilon", "2", "--bound", "50", "--seed", "7", "-o", output)
    assert run("local", "simulate", source, *how).exit_code == 0
    asked = run("query", output, "1000", "9000", "--json")
    found = json.loads(asked.stdout)
    assert found["simulation"]
    (answer,) = found["answers"]
    assert answer["low"] < answer["estimate"] < answer["high"]
    assert abs(answer["estimate"] - values.mean() * 8_000) < 3 * (answer["high"] - answer["low"])
    text = run("query", output, "1000", "9000").stdout
    assert "A rehearsal: one process played all devices" in text
    assert run("query", output, "1000", "99999").exit_code == 2
    assert "by position" in run("query", output, "--from", "2024-01-01").stderr
    assert "local simulate" in run("show", output).stderr
