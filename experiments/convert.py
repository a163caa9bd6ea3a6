"""From the formats in which the streams are published to plain values, in the order of the file.

Nothing is shuffled, dropped or repeated. A field that is missing or no number counts as 0 in its
place, and so does a negative one; how many there were is said.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from experiments.errors import ExperimentError
from experiments.registry import Dataset

_PACKED: dict[str, Callable[..., IO[str]]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


@dataclass(frozen=True)
class Converted:
    """Values, and how many of them had to be taken as 0."""

    values: NDArray[np.int64]
    blanks: int = 0


def convert(entry: Dataset, path: Path) -> Converted:
    """A file in the original format of a stream."""
    if not path.is_file():
        raise ExperimentError(f"there is no file {path}")
    if entry.format is None:
        raise ExperimentError(
            f"{entry.title} has no published format: give Parquet with a column `value`"
        )
    try:
        raw = _FORMATS[entry.format](path, entry)
    except (OSError, UnicodeDecodeError, EOFError, lzma.LZMAError) as error:
        raise ExperimentError(f"{path} cannot be read as {entry.format}: {error}") from None
    if raw.values.size == 0:
        raise ExperimentError(f"{path} holds no {entry.format} records")
    return Converted(raw.values + entry.plus, raw.blanks)


def fimi(path: Path, _entry: Dataset) -> Converted:
    """One transaction a line, items separated by blanks: the value is the number of items."""
    with _opened(path) as file:
        counts = [len(line.split()) for line in file]
    while counts and counts[-1] == 0:  # the file may end with empty lines
        counts.pop()
    return Converted(np.array(counts, dtype=np.int64), counts.count(0))


def pairs(path: Path, entry: Dataset) -> Converted:
    """One item a line after the id of its transaction; also takes FIMI's layout.

    Transactions come in the order of their first line.
    """
    with _opened(path) as file:
        rows = [line.split() for line in file if line.strip()]
    if not rows or any(len(row) != 2 for row in rows[:1000]):
        return fimi(path, entry)
    counts: dict[str, int] = {}
    for row in rows:
        counts[row[0]] = counts.get(row[0], 0) + 1
    return Converted(np.array(list(counts.values()), dtype=np.int64))


def tlc(path: Path, entry: Dataset) -> Converted:
    """One column of New York's trip records, Parquet or CSV, times a factor, rounded."""
    column = entry.column or "value"
    if path.suffix == ".parquet":
        raw = _parquet_column(path, column)
    else:
        with _opened(path) as file:
            raw = _csv_column(file, column, path)
    scaled = np.rint(raw * entry.times)
    blank = ~np.isfinite(scaled) | (scaled < 0)
    return Converted(np.where(blank, 0, scaled).astype(np.int64), int(blank.sum()))


_FORMATS: dict[str, Callable[[Path, Dataset], Converted]] = {
    "fimi": fimi,
    "pairs": pairs,
    "tlc": tlc,
}


def _opened(path: Path) -> IO[str]:
    opener: Callable[..., IO[str]] = _PACKED.get(path.suffix, open)
    return opener(path, "rt", encoding="ascii" if path.suffix == ".dat" else "utf-8-sig")


def _parquet_column(path: Path, column: str) -> NDArray[np.float64]:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path, columns=[column])
        if column not in table.column_names:
            raise ExperimentError(f"{path} has no column {column!r}")
        values: NDArray[np.float64] = table.column(column).cast("float64").to_numpy()
    except pyarrow.ArrowException as error:
        raise ExperimentError(f"{path}: {error}") from None
    return values


def _csv_column(file: Iterable[str], column: str, path: Path) -> NDArray[np.float64]:
    reader = csv.reader(file)
    names = [name.strip() for name in next(reader, [])]
    if column not in names:
        raise ExperimentError(f"{path} has no column {column!r}")
    index = names.index(column)
    return np.array([_number(row, index) for row in reader if row], dtype=np.float64)


def _number(row: list[str], index: int) -> float:
    try:
        return float(row[index])
    except (ValueError, IndexError):
        return math.nan
