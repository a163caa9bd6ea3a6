"""Find a stream, load it, check it; or take its synthetic twin. Nothing is repeated unless told.

Files lie in the folder that TIDEGATE_DATA names; without it, in `tidegate` of the user's cache
folder.
"""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.errors import ExperimentError
from experiments.registry import Dataset, Table, dataset
from experiments.twins import twin

REAL, TWIN, SUPPLIED = "real", "synthetic twin", "supplied, differs from the paper's table"
# How far a file may be from the paper's table: its mean is printed with one decimal.
MEAN_TOLERANCE = 0.06


@dataclass(frozen=True)
class Stream:
    """Values with where they come from. `label` goes on pictures, `note` into tables."""

    name: str
    title: str
    origin: str
    bound: int
    checksum: str
    values: NDArray[np.int64]
    own: int  # values before any were repeated
    times: int = 1
    order: str | None = None  # what is known of it, such as "shuffled"

    @property
    def label(self) -> str:
        parts = [] if self.origin == REAL else [self.origin]
        parts += ["mirrored"] if self.values.size > self.own else []
        title = self.title if self.times == 1 else f"{self.title} × {self.times}"
        return f"{title} ({', '.join(parts)})" if parts else title

    @property
    def note(self) -> str:
        used = f"{self.origin}, {min(self.own, self.values.size):,} values"
        used += f", {self.order}" if self.order else ""
        if self.values.size > self.own:
            used += f", extended to {self.values.size:,} by mirrored copies (records recur)"
        return used


def folder() -> Path:
    """Where files of streams lie."""
    named = os.environ.get("TIDEGATE_DATA")
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tidegate"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "tidegate"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate"


def find(entry: Dataset) -> Path | None:
    """The file of a stream, if it is at hand."""
    for stem in entry.files:
        path = folder() / f"{stem}.parquet"
        if path.is_file():
            return path
    return None


def at_hand(name: str) -> bool:
    """Whether figures can use this stream: its file is there, or it has a twin."""
    entry = dataset(name)
    return find(entry) is not None or entry.table is not None


@lru_cache(maxsize=2)
def whole(name: str) -> Stream:
    """A stream as long as it is: the file if there is one, else the twin."""
    entry = dataset(name)
    path = find(entry)
    if path is not None:
        values, accepted = read(path)
        differences = check(entry, values)
        if differences and not accepted:
            raise ExperimentError(
                f"{path} is not the {entry.title} of the paper: {'; '.join(differences)}. Add it "
                f"with `python -m experiments data add {name} FILE --anyway` to use it as it is"
            )
        origin = SUPPLIED if differences else REAL
    elif entry.table is not None:
        values, origin = twin(entry), TWIN
    else:
        raise ExperimentError(
            f"{entry.title} is not at hand: no {entry.files[0]}.parquet in {folder()}"
        )
    checksum = digest(values)
    order = entry.order if checksum == entry.sha256 else None
    return Stream(
        name, entry.title, origin, entry.bound, checksum, values, values.size, order=order
    )


def stream(name: str, needed: int, *, pad: str = "never", times: int = 1) -> Stream:
    """The first `needed` values; a shorter stream is mirrored only if `pad` says so."""
    if pad not in ("never", "mirror"):
        raise ExperimentError(f'pad must be "never" or "mirror", not {pad!r}')
    base = whole(name)
    values = base.values[:needed]
    if values.size < needed and pad == "mirror":
        copies = -(-needed // values.size)
        turns = [values if copy % 2 == 0 else values[::-1] for copy in range(copies)]
        values = np.concatenate(turns)[:needed]
    # Larger values count as the bound for every method, so they do in the truth.
    bound = base.bound * times
    values = np.minimum(values * times, bound)
    return replace(base, bound=bound, values=values, times=times)


def read(path: Path) -> tuple[NDArray[np.int64], bool]:
    """The column `value` of a Parquet file, and whether its difference from the table is known."""
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
        column = table.column("value").combine_chunks()
        if column.null_count:
            raise ExperimentError(f"{path}: the column `value` has gaps")
        values = column.to_numpy(zero_copy_only=False).astype(np.int64)
    except (pyarrow.ArrowException, KeyError, OSError, ValueError) as error:
        raise ExperimentError(f"{path}: not Parquet with a column `value` ({error})") from None
    if values.size == 0 or values.min() < 0:
        raise ExperimentError(f"{path}: must hold values, and none below 0")
    return values, b"tidegate.differs" in (table.schema.metadata or {})


def statistics(values: NDArray[np.int64]) -> Table:
    """The columns of the paper's table."""
    p85, p95, p995 = np.quantile(values, (0.85, 0.95, 0.995), method="inverted_cdf")
    return Table(
        n=values.size,
        p85=int(p85),
        p95=int(p95),
        p995=int(p995),
        p100=int(values.max()),
        mean=float(values.mean()),
    )


def check(entry: Dataset, values: NDArray[np.int64]) -> list[str]:
    """In what a file differs from what is known of its stream; empty: in nothing."""
    if entry.table is None:  # of these one file is known, of the paper's any order is right
        return ["its values have another checksum"] if digest(values) != entry.sha256 else []
    got = statistics(values)
    differences = []
    for column in ("n", "p85", "p95", "p995", "p100"):
        wanted, found = getattr(entry.table, column), getattr(got, column)
        if wanted != found:
            differences.append(f"{column} is {found:,}, not {wanted:,}")
    if abs(got.mean - entry.table.mean) > MEAN_TOLERANCE:
        differences.append(f"the mean is {got.mean:.2f}, not {entry.table.mean}")
    return differences


def digest(values: NDArray[np.int64]) -> str:
    """SHA-256 of the values, whatever file they came in."""
    return hashlib.sha256(np.ascontiguousarray(values, dtype="<i8").tobytes()).hexdigest()
