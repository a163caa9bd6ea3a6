"""Runs what could depend on the machine on every Python, numpy and processor that can be had.

    python tools/check_matrix.py                 every cell, then a table
    python tools/check_matrix.py --only 3.14     those of one Python

A cell is a Python, a version of numpy, and a processor. The processor is this machine's, with the
features that numpy has code for taken away one after the other (NPY_DISABLE_CPU_FEATURES); "other
last bits" stands for those that this machine does not have (tests/last_bits.py). A Python or a
numpy that cannot be had is named in the table with the reason. A cell that fails fails the check.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pythons import NotFoundError, find

CHECKOUT = Path(__file__).resolve().parent.parent
FOLDER = CHECKOUT / ".matrix"

# Laws, samplers, pinned bits and precision: what is released must not depend on the machine.
TESTS = (
    "tests/adaptive/test_adaptive_machines.py",
    "tests/core/test_tops_reference.py",
    "tests/laws/test_law_chunks.py",
    "tests/laws/test_law_equivariance.py",
    "tests/laws/test_law_post_processing.py",
    "tests/laws/test_law_sums.py",
    "tests/local/test_vectors.py",
    "tests/noise",
    "tests/privacy/test_equivariance.py",
    "tests/privacy/test_noise_identity.py",
    "tests/privacy/test_precision_attack.py",
)

OWN = "%d.%d" % sys.version_info[:2]  # noqa: UP031 - an f-string would be longer
NEEDED = ("numpy", "cryptography", "pytest", "pytest-xdist", "hypothesis", "scipy")
OLDEST = ("numpy==1.26.0", "cryptography==42.0.0")  # the lower limits in pyproject.toml

PROBE = """
import json, numpy
try:
    from numpy._core import _multiarray_umath as core
except ImportError:
    from numpy.core import _multiarray_umath as core
there = [name for name in core.__cpu_dispatch__ if core.__cpu_features__[name]]
print(json.dumps([numpy.__version__, there]))
"""


@dataclass(frozen=True)
class Environment:
    """A Python with the newest or the oldest packages that we support."""

    python: str
    packages: tuple[str, ...] = NEEDED

    @property
    def age(self) -> str:
        return "newest" if self.packages == NEEDED else "oldest"

    def make(self) -> Path:
        """The interpreter of the environment, made if it is not there yet."""
        if self == Environment(OWN):
            return Path(sys.executable)
        folder = FOLDER / f"{self.python}-{self.age}"
        python = folder / "bin" / "python"
        made = folder / "made.txt"
        if made.exists() and made.read_text().split() == [*self.packages]:
            return python
        base = find(self.python, FOLDER)
        run([base, "-m", "venv", "--clear", "--without-pip", folder])
        pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
        # Compiling all of scipy takes longer than the tests; what is imported is compiled then.
        run([*pip, "install", "-qq", "--no-compile", "--only-binary=:all:", *self.packages])
        made.write_text(" ".join(self.packages))
        return python


ENVIRONMENTS = (
    Environment(OWN),
    Environment("3.11", (*NEEDED, *OLDEST)),
    *(Environment(python) for python in ("3.11", "3.12", "3.13", "3.14") if python != OWN),
)


@dataclass(frozen=True)
class Cell:
    """One run of the tests."""

    environment: Environment
    without: tuple[str, ...] = ()
    """Features of the processor that numpy must not use."""
    last_bits: bool = False

    @property
    def processor(self) -> str:
        if self.last_bits:
            return "other last bits"
        if len(self.without) > 3:
            return f"without {self.without[0]} to {self.without[-1]}"
        return f"without {' '.join(self.without)}" if self.without else "as it is"


def run(command: list[object]) -> str:
    """The output of a command; a failure gives its last line as the reason."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise NotFoundError(lines[-1] if lines else f"{command[0]} failed")
    return done.stdout


def environment_variables(without: tuple[str, ...]) -> dict[str, str]:
    """A clean slate for numpy, our package from the checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NPY_")}
    kept |= {"PYTHONPATH": str(CHECKOUT / "src")}
    return kept | ({"NPY_DISABLE_CPU_FEATURES": " ".join(without)} if without else {})


def probe(python: Path, without: tuple[str, ...] = ()) -> tuple[str, list[str]]:
    """numpy's version, and the features beyond the least that it uses here."""
    answer = subprocess.check_output([python, "-c", PROBE], env=environment_variables(without))
    version, features = json.loads(answer)
    return version, features


def cells(environment: Environment, python: Path) -> Iterator[Cell]:
    """The processor as it is, and with ever less of it.

    A feature is taken away together with all after it: numpy does not do that by itself, and a
    processor with the larger but without the smaller one does not exist.
    """
    features = probe(python)[1]
    if environment == Environment(OWN):  # as it is: that is `make test`
        yield Cell(environment, last_bits=True)
        for first in range(len(features)):
            yield Cell(environment, without=tuple(features[first:]))
        return
    yield Cell(environment)
    if features and environment in (ENVIRONMENTS[1], ENVIRONMENTS[-1]):
        yield Cell(environment, without=tuple(features))


def test(cell: Cell, python: Path) -> str:
    """An empty text if all is well, or what is wrong."""
    if left := set(probe(python, cell.without)[1]) & set(cell.without):
        return f"numpy still uses {' '.join(sorted(left))}"
    command: list[str | Path] = [python, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
    command += ["-p", "tests.last_bits"] if cell.last_bits else []
    done = subprocess.run(
        [*command, *TESTS],
        cwd=CHECKOUT,
        env=environment_variables(cell.without),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stdout[-20_000:], done.stderr[-5_000:], sep="\n")
    return done.stdout.strip().splitlines()[-1] if done.returncode else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="a version of Python: its cells alone")
    options = parser.parse_args()

    rows: list[list[str]] = []
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for environment in ENVIRONMENTS:
        if options.only and options.only not in environment.python:
            continue
        try:
            python = environment.make()
            version = f"{probe(python)[0]} ({environment.age})"
        except NotFoundError as error:
            rows.append([environment.python, environment.age, "", f"could not be had: {error}"])
            count["skipped"] += 1
            continue
        for cell in cells(environment, python):
            start = time.monotonic()
            wrong = test(cell, python)
            count["failed" if wrong else "passed"] += 1
            outcome = f"FAILED: {wrong}" if wrong else "passed"
            outcome += f" in {time.monotonic() - start:.0f} s"
            rows.append([environment.python, version, cell.processor, outcome])
            print(*rows[-1], sep=" | ", flush=True)
    print("\nWhat could depend on the machine:")
    for row in (["Python", "numpy", "processor", "result"], *rows):
        print(f"{row[0]:7} {row[1]:16} {row[2]:26} {row[3]}".rstrip())
    print(", ".join(f"{number} {word}" for word, number in count.items()))
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
