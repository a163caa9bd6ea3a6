"""Plant errors of 30 % in a copy of the package, and see that the tests that guard them fail.

`tools/planted_errors.toml` lists the errors: a file of the package, a text in it, what replaces it,
and the tests that must fail then. `make power` plants all of them, one after the other, which takes
half an hour of one core; `ARGS="-k laplace"` plants those whose name has this word. A test that
passes is a finding: it guards nothing.

`make test` only checks that the list fits the code (`tests/privacy/test_planted_errors.py`).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_name("planted_errors.toml")
COPIED = (
    "src",
    "tests",
    "experiments",
    "benchmarks",
    "tools",
    "docs",
    "pyproject.toml",
    "conftest.py",
)


@dataclass(frozen=True)
class Planted:
    """One error: `text`, which is there once in `file`, becomes `replacement`."""

    what: str
    file: str
    text: str
    replacement: str
    tests: tuple[str, ...]

    def plant(self, root: Path) -> str:
        """Put the error in; gives what was there."""
        path = root / "src" / "tidegate" / self.file
        before = path.read_text(encoding="utf-8")
        if before.count(self.text) != 1:
            raise SystemExit(
                f"{self.what}: {self.file} has the text {before.count(self.text)} times"
            )
        path.write_text(before.replace(self.text, self.replacement), encoding="utf-8")
        return before


def planted_errors(path: Path = LIST) -> list[Planted]:
    """The list, as it is written."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["error"]
    return [Planted(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


def failed_tests(root: Path, tests: tuple[str, ...], report: Path) -> dict[str, bool]:
    """Run these in the copy: of each, whether any of its cases failed."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    words += [f"--junitxml={report}", *tests]
    report.unlink(missing_ok=True)
    done = subprocess.run(
        words, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1) or not report.exists():
        raise SystemExit(f"pytest could not run:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    failed = dict.fromkeys(tests, False)
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            place = case.get("classname", "").replace(".", "/") + ".py::" + case.get("name", "")
            for test in tests:
                failed[test] |= place == test or place.startswith((f"{test}[", f"{test}::"))
    return failed


def main(arguments: list[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", dest="word", default="", help="only errors whose name has this word")
    parser.add_argument("--list", type=Path, default=LIST, help="another list")
    options = parser.parse_args(arguments)
    wanted = [error for error in planted_errors(options.list) if options.word in error.what]
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "copy"
        root.mkdir()
        for name in COPIED:
            place = ROOT / name
            if place.is_dir():
                shutil.copytree(place, root / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(place, root / name)
        for error in wanted:
            before = error.plant(root)
            try:
                failed = failed_tests(root, error.tests, Path(folder) / "report.xml")
            finally:
                (root / "src" / "tidegate" / error.file).write_text(before, encoding="utf-8")
            for test, caught in failed.items():
                survivors += not caught
                sys.stdout.write(f"{'caught' if caught else 'MISSED'}  {error.what}: {test}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{len(wanted)} errors planted, {survivors} tests did not notice\n")
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
