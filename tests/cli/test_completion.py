"""Completion in a real bash: the script that `--show-completion` prints, and what it offers."""

import os
import shutil
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("tidegate rel", {"release"}),
        ("tidegate release --hol", {"--holdout"}),
        ("tidegate state e", {"erase"}),
        ("tidegate query --j", {"--json"}),
        ("tidegate release --preset a", {"adaptive"}),
        ("tidegate release --preset pak-", {"pak-with-tops-threshold", "pak-with-tops-stream"}),
        ("tidegate release --smoother me", {"mean", "median"}),
        ("tidegate release --emit n", {"new"}),
        ("tidegate plan --preset t", {"tops"}),
        ("tidegate query --format p", {"parquet"}),
    ],
)
def test_bash_offers_commands_options_and_their_values(tmp_path, words, offered):
    command = tmp_path / "tidegate"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tidegate "$@"\n')
    command.chmod(0o755)
    script = (
        'eval "$(tidegate --show-completion bash)"\n'
        f"COMP_WORDS=({words}); COMP_CWORD={len(words.split()) - 1}\n"
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
    assert set(done.stdout.split()) == offered
