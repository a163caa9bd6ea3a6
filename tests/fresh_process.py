"""A program in a Python of its own, which has imported nothing of ours yet."""

from __future__ import annotations

import subprocess
import sys


def printed_by(program: str, *arguments: object, given: str | None = None) -> str:
    """What a program prints, `given` this as input; it must succeed, and warn of nothing."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout
