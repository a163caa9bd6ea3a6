"""Completion: the script that `--show-completion` prints, in a real bash, and what is offered."""

import os
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from tests.depth import at_the_gate
from tidegate.cli.app import app


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("tidegate rel", {"release"}),
        ("tidegate release --hol", {"--holdout"}),
        ("tidegate state e", {"erase"}),
        ("tidegate query --j", {"--json"}),
        ("tidegate release --preset a", {"adaptive", "adaptive-gaussian"}),
        ("tidegate release --preset pak-", {"pak-with-tops-threshold", "pak-with-tops-stream"}),
        ("tidegate release --estimator me", {"mean", "median"}),
        ("tidegate release --emit n", {"new"}),
        ("tidegate plan --preset t", {"tops"}),
        ("tidegate query --format p", {"parquet"}),
    ],
)
def test_commands_options_and_their_values_are_offered(words, offered):
    """Asked as the script of bash asks."""
    asked = {
        "_TIDEGATE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = CliRunner().invoke(app, [], env=asked, prog_name="tidegate")
    assert set(done.stdout.split()) == offered


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@at_the_gate  # what bash asks is asked above
def test_bash_offers_them(tmp_path):
    command = tmp_path / "tidegate"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tidegate "$@"\n')
    command.chmod(0o755)
    script = (
        'eval "$(tidegate --show-completion bash)"\n'
        "COMP_WORDS=(tidegate release --estimator me); COMP_CWORD=3\n"
        '_tidegate_completion tidegate; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == {"mean", "median"}
