"""Which streams there are: `datasets.toml`, read and checked."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path

from experiments.errors import ExperimentError

FILE = Path(__file__).parent / "datasets.toml"


@dataclass(frozen=True)
class Table:
    """What the paper prints about a stream."""

    n: int
    p85: int
    p95: int
    p995: int
    p100: int
    mean: float


@dataclass(frozen=True)
class Dataset:
    """One stream: where it comes from, what it should look like, what stands in for it."""

    name: str
    title: str
    what: str
    bound: int
    files: list[str]
    home: str = "beside the project, not public"
    fetch: str | None = None  # an address that can be downloaded without an agreement
    format: str | None = None  # of the original: "fimi", "pairs" or "tlc" (see convert.py)
    column: str | None = None
    times: int = 1  # the stream is times · original + plus
    plus: int = 0
    sha256: str | None = None
    order: str | None = None
    table: Table | None = None
    least: int = 0  # the smallest value of the twin
    course: str = "independent"  # how the twin moves in time
    period: int | None = None
    stands_for: str | None = None


@lru_cache(maxsize=1)
def registry() -> dict[str, Dataset]:
    """All streams by name, the paper's four first."""
    entries = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {name: _dataset(name, dict(entry)) for name, entry in entries.items()}


def dataset(name: str) -> Dataset:
    """One stream; an unknown name is an error that lists the known ones."""
    try:
        return registry()[name]
    except KeyError:
        known = ", ".join(registry())
        raise ExperimentError(f"there is no dataset {name!r}: choose from {known}") from None


def _dataset(name: str, entry: dict[str, object]) -> Dataset:
    known = {part.name for part in fields(Dataset)}
    unknown = sorted(set(entry) - known)
    if unknown:
        raise ExperimentError(f"datasets.toml, [{name}]: unknown key {unknown[0]!r}")
    table = entry.pop("table", None)
    if table is not None:
        entry["table"] = Table(**table)  # type: ignore[arg-type]
    return Dataset(name=name, **entry)  # type: ignore[arg-type]
