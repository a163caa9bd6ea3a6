"""What there is to run: one cell is one method at one ε on one stream, all its runs.

A cell is known by the digest of everything its numbers depend on: the data's checksum, the method,
both budgets, the protocol, the seed, and the code. So finished cells are found again, two figures
that ask for the same share one, and nothing stale is ever mixed in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import tidegate as tg
from experiments import datasets
from experiments.figures import Figure, Method, Protocol, Setting
from experiments.registry import dataset

# What a result depends on; drawing, reporting and the like may change freely.
_DECISIVE = ("datasets", "jobs", "methods", "scoring", "twins")
# The same of the package: these only bring values in and out, or list names.
_ASIDE = (
    *("__init__", "__main__", "_version", "cli", "demo", "durable", "io", "ledger"),
    *("released", "service", "spark"),
)
_QUICK_RUNS = 2


@dataclass(frozen=True)
class Cell:
    """One cell of a figure. `job` holds all that a worker needs, as plain data."""

    figure: str
    setting: str
    dataset: str
    method: str
    epsilon: float
    job: dict[str, Any]

    @property
    def key(self) -> str:
        return job_key(self.job)


def job_key(job: dict[str, Any], *, whatever_version: bool = False) -> str:
    """What a cell is known by."""
    known = {**job, "version": None} if whatever_version else job
    text = json.dumps(known, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Wanted:
    """What the person asked for, where it differs from the figures' files."""

    quick: bool = False
    runs: int | None = None
    seed: int | None = None
    datasets: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    epsilons: tuple[float, ...] = ()

    def protocol(self, protocol: Protocol) -> Protocol:
        runs = min(protocol.runs, _QUICK_RUNS) if self.quick else protocol.runs
        return replace(
            protocol, runs=self.runs or runs, seed=protocol.seed if self.seed is None else self.seed
        )

    def steps(self, epsilons: list[float]) -> list[float]:
        """All epsilons; if quick the first, one in the middle, and the last."""
        if self.epsilons:
            return [epsilon for epsilon in epsilons if epsilon in self.epsilons]
        if self.quick and len(epsilons) > 3:
            return [epsilons[0], epsilons[(len(epsilons) - 1) // 2], epsilons[-1]]
        return epsilons


def cells(figure: Figure, wanted: Wanted) -> Iterator[Cell]:
    """The cells of a figure, dataset by dataset, so that each is loaded once."""
    for setting in figure.settings:
        for name in used(setting, wanted):
            for method in figure.methods:
                if wanted.methods and method.name not in wanted.methods:
                    continue
                for epsilon in wanted.steps(method.epsilons or setting.epsilons):
                    yield _cell(figure, setting, name, method, epsilon, wanted)


def used(setting: Setting, wanted: Wanted) -> list[str]:
    """The streams of a setting that are asked for and at hand; a paper's stream has a twin."""
    return [
        name
        for name in setting.datasets
        if (not wanted.datasets or name in wanted.datasets) and datasets.at_hand(name)
    ]


def _cell(
    figure: Figure, setting: Setting, name: str, method: Method, epsilon: float, wanted: Wanted
) -> Cell:
    job = {
        "kind": figure.kind,
        "dataset": name,
        "checksum": checksum(name),
        "bound": dataset(name).bound,
        "method": method.spec,
        "epsilon": epsilon,
        "protocol": asdict(wanted.protocol(setting.protocol)),
        "version": version("local" if "local" in method.spec else "central"),
    }
    return Cell(figure.name, setting.name, name, method.name, epsilon, job)


@cache
def checksum(name: str) -> str:
    """Of the stream as it is now."""
    return datasets.whole(name).checksum


@cache
def version(model: str) -> str:
    """Tidegate's version and a digest of the code that decides a result of this model."""
    here, package = Path(__file__).parent, Path(tg.__file__).parent
    paths = [here / f"{name}.py" for name in _DECISIVE]
    paths += sorted(path for path in package.rglob("*.py") if _decides(path, package, model))
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{tg.__version__}+{digest.hexdigest()[:12]}"


def _decides(path: Path, package: Path, model: str) -> bool:
    top = path.relative_to(package).parts[0].removesuffix(".py")
    return top not in _ASIDE and (top != "local" or model == "local")
