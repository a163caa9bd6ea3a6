"""An output in a read-only place is refused before a row is read, and no ε is said to be spent."""

import os

import pytest

from tests.cli.invoking import run
from tidegate.cli import release as command


@pytest.mark.parametrize("exists", [False, True])
def test_a_place_that_cannot_be_written_costs_nothing(tmp_path, monkeypatch, exists):
    """The rows were "released" into nothing, and their ε was reported as spent."""
    (tmp_path / "v.csv").write_text("value\n" + "1\n" * 100)
    folder = tmp_path / "shared"
    folder.mkdir()
    output = folder / "out.csv"
    if exists:
        output.write_text("")
    closed = output if exists else folder
    allowed = os.access

    def access(path, mode):  # root may write anywhere but on a read-only disk
        return allowed(path, mode) and str(path) != str(closed)

    monkeypatch.setattr(command.os, "access", access)
    said = run("release", tmp_path / "v.csv", "--epsilon", 1, "--bound", 2, "-o", output)
    assert said.exit_code == 2
    assert f"output: {closed} cannot be written to. Nothing was read or spent" in said.stderr
    assert "spent ε" not in said.stderr
    assert not exists or output.read_text() == ""
