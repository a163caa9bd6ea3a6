"""A sample for the chooser: a file of a user, or the twin of one of the paper's streams."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.errors import ExperimentError
from experiments.registry import dataset
from experiments.twins import twin

_TWIN = "twin:"


@dataclass(frozen=True)
class Sample:
    """Values in the order of the file; a missing one counts as 0."""

    label: str
    values: NDArray[np.float64]


def load(text: str, column: str | None = None) -> Sample:
    """`twin:pos`, or a file: Parquet, CSV with a header, or one number a line."""
    if text.startswith(_TWIN):
        entry = dataset(text.removeprefix(_TWIN))
        return Sample(f"{entry.title} (synthetic twin)", twin(entry).astype(np.float64))
    path = Path(text)
    if not path.is_file():
        raise ExperimentError(f"there is no file {path}")
    values = _parquet(path, column) if path.suffix == ".parquet" else _text(path, column)
    values = np.where(np.isfinite(values), values, 0.0)
    if values.size == 0:
        raise ExperimentError(f"{path} holds no numbers")
    return Sample(path.name, values)


def _parquet(path: Path, column: str | None) -> NDArray[np.float64]:
    import pyarrow
    import pyarrow.parquet

    try:
        names = pyarrow.parquet.read_schema(path).names
        chosen = _chosen(path, names, column)
        table = pyarrow.parquet.read_table(path, columns=[chosen])
        values: NDArray[np.float64] = table.column(chosen).cast("float64").to_numpy()
    except (pyarrow.ArrowException, OSError) as error:
        raise ExperimentError(f"{path} cannot be read as numbers from Parquet ({error})") from None
    return values


def _text(path: Path, column: str | None) -> NDArray[np.float64]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise ExperimentError(f"{path} is neither Parquet nor text") from None
    if not rows:
        raise ExperimentError(f"{path} holds no numbers")
    index, first = 0, 0
    if column is not None or not _is_number(rows[0][0]):
        index, first = rows[0].index(_chosen(path, rows[0], column)), 1
    numbers = [_number(path, line, row, index) for line, row in enumerate(rows[first:], first + 1)]
    return np.array(numbers, dtype=np.float64)


def _chosen(path: Path, names: list[str], column: str | None) -> str:
    if column is None and len(names) == 1:
        return names[0]
    if column is None:
        column = "value"
    if column not in names:
        raise ExperimentError(
            f"{path} has no column {column!r}: name one of its columns by --column"
        )
    return column


def _number(path: Path, line: int, row: list[str], index: int) -> float:
    text = row[index].strip() if index < len(row) else ""
    if not text:
        return 0.0
    if not _is_number(text):
        raise ExperimentError(f"{path}, line {line}: not a number")
    return float(text)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) or math.isnan(float(text))
    except ValueError:
        return False
