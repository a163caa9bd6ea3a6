"""Tools of npm for tests: the TypeScript compiler, for scripts that are typed by their comments."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

# One version, so that the generated declarations are the same everywhere, and tomorrow.
COMPILER = ("typescript@5.9.3", "@types/node@20.19.43")

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")


def run(*command: str | Path, folder: Path) -> str:
    """What a command prints; it must succeed."""
    result = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def compiler() -> Path:
    """The modules of the compiler."""
    return modules(*COMPILER)


def modules(*packages: str) -> Path:
    """Modules of npm, in the environment of these tests: fetched once."""
    folder = Path(sys.prefix) / "-".join(("node", *packages)).replace("/", "-")
    if not folder.exists():
        made = Path(tempfile.mkdtemp(dir=sys.prefix))
        install(*packages, folder=made)
        try:
            made.rename(folder)
        except OSError:  # another run was faster
            shutil.rmtree(made)
    return folder / "node_modules"


def install(*packages: str, folder: Path) -> None:
    """With npm, which waits and asks again; a network that is away for longer is asked thrice."""
    quietly = ("--no-save", "--no-package-lock", "--no-audit", "--no-fund")
    patiently = ("--prefer-offline", "--fetch-retries=5")
    command = ("npm", "install", *quietly, *patiently, "--prefix", folder, *packages)
    for _ in range(3):
        result = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
        if result.returncode == 0:
            return
    raise AssertionError(result.stdout + result.stderr)
