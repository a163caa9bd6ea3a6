"""Results on disk: one JSON file a finished cell, one tidy CSV over all of them."""

from __future__ import annotations

import csv
import json
import math
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.cells import Cell, job_key
from experiments.errors import ExperimentError

COLUMNS = (
    *("figure", "dataset", "method", "epsilon", "metric", "mean", "std", "median", "runs"),
    *("setting", "at", "seed", "ranges", "version", "checksum", "source"),
)


@dataclass(frozen=True)
class Row:
    """One line of the CSV: a metric of a cell, over its runs. `label` names the stream in full."""

    figure: str
    dataset: str
    method: str
    epsilon: float
    metric: str
    mean: float
    std: float
    median: float
    runs: int
    setting: str
    at: str
    seed: int
    ranges: int
    version: str
    checksum: str
    source: str
    label: str = field(default="", compare=False)


class Store:
    """The folder of finished cells. A file is whole or absent: it is renamed into its place.

    With `stale`, a cell that this version of the code has not run is answered by the newest result
    of another version; rows say which version they are from.
    """

    def __init__(self, folder: Path, *, stale: bool = False) -> None:
        self.folder = folder
        self._cells = folder / "cells"
        self._others = self._newest() if stale else {}

    def path(self, cell: Cell) -> Path:
        exact = self._cells / f"{cell.key}.json"
        if self._others and not exact.is_file():
            return self._others.get(job_key(cell.job, whatever_version=True), exact)
        return exact

    def has(self, cell: Cell) -> bool:
        return self.path(cell).is_file()

    def _newest(self) -> dict[str, Path]:
        files = sorted(self._cells.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        return {job_key(_read(path)["job"], whatever_version=True): path for path in files}

    def save(self, cell: Cell, result: dict[str, Any]) -> None:
        try:
            self._cells.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._cells, suffix=".part")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"job": cell.job, **result}, file)
            Path(name).replace(self.path(cell))
        except OSError as error:
            raise ExperimentError(f"cannot write to {self._cells}: {error.strerror}") from None

    def load(self, cell: Cell) -> dict[str, Any]:
        return _read(self.path(cell))

    def processor_seconds(self, cells: Iterable[Cell]) -> float:
        """What finished cells cost, shared ones once: half of it on two free cores."""
        unique = {cell.key: cell for cell in cells}.values()
        return math.fsum(self.load(cell)["processor seconds"] for cell in unique if self.has(cell))


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        message = f"{path} cannot be read ({error}): delete it and run again"
        raise ExperimentError(message) from None
    return found


def rows(cells: Iterable[Cell], store: Store) -> Iterator[Row]:
    """The lines of all finished cells, in the order of the figures."""
    for cell in cells:
        if not store.has(cell):
            continue
        result = store.load(cell)
        protocol = cell.job["protocol"]
        for key, runs in result["series"].items():
            metric, _, place = key.partition("@")
            yield Row(
                figure=cell.figure,
                dataset=cell.dataset,
                method=cell.method,
                epsilon=cell.epsilon,
                metric=metric,
                mean=float(np.mean(runs)),
                std=float(np.std(runs, ddof=1)) if len(runs) > 1 else 0.0,
                median=float(np.median(runs)),
                runs=len(runs),
                setting=cell.setting,
                at=place,
                seed=protocol["seed"],
                ranges=protocol["ranges"],
                version=result["job"]["version"],
                checksum=cell.job["checksum"],
                source="; ".join([result["source"], *result["notes"]]),
                label=result["label"],
            )


def write_csv(path: Path, lines: Iterable[Row]) -> None:
    """One tidy table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    with temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for line in lines:
            writer.writerow([_text(getattr(line, column)) for column in COLUMNS])
    temporary.replace(path)


def join_csv(path: Path, parts: Iterable[Path]) -> int:
    """The tables of several figures as one; how many lines."""
    texts = [part.read_text(encoding="utf-8").partition("\n")[2] for part in parts]
    path.write_text(",".join(COLUMNS) + "\n" + "".join(texts), encoding="utf-8")
    return sum(text.count("\n") for text in texts)


def _text(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)
