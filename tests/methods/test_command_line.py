"""New kinds of method from file to file: release, resume, query, show."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.laws.catalogue import stream
from tidegate.cli.app import app

CASES = {
    "fast": ["--horizon", "60", "--set", "samples=20"],
    "budget-distribution": ["--unit", "window:4"],
    "square-root": ["--horizon", "64", "--holdout", "37", "--delta", "1e-6", "--set", "block=4"],
    "binary-tree": ["--horizon", "64", "--holdout", "0"],
}


def run(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("name", CASES)
def test_from_file_to_file(name, tmp_path):
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    values = stream(400)
    settings = ["--preset", name, "--epsilon", "9", "--bound", "40", *CASES[name]]
    for end in (150, 400):  # the second run resumes, and completes the file
        source.write_text("value\n" + "\n".join(map(str, values[:end])) + "\n")
        run("release", source, "-o", output, *settings, "--state", tmp_path / "state", "-q")
    rows = np.array([float(line.split(",")[1]) for line in output.read_text().split()[1:]])
    assert rows.size == 400 - (37 if name == "square-root" else 0)
    answers = json.loads(run("query", output, 8, 328, "--json"))
    answer = answers["answers"][0]
    assert answer["low"] < answer["estimate"] < answer["high"]
    if name != "square-root":  # there, 8 and 328 are ends of blocks that look back
        assert answer["estimate"] == pytest.approx(rows[8:328].sum())
    assert "window" in answers["guarantee"] or name in ("square-root", "binary-tree")
    assert str(rows.size) in run("show", output)
