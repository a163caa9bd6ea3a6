"""Queries by time over a long released file, and a table of days by zones.

    python -m benchmarks.query_by_time                         # 10^7 rows
    python -m benchmarks.query_by_time --rows 100000000 --folder /tmp
    python -m benchmarks.query_by_time --zones 260 --days 365 --rows 5000000

Files are written by the real writer, from real releases. Times are regular (a row a second) or not
(a random number of milliseconds between two rows). The first question reads the file once and
leaves an index beside it; then every question opens the file anew, as the command line does.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tidegate as tg
from tidegate.durable import transfer
from tidegate.io import Batch
from tidegate.io.batches import object_array
from tidegate.keyed.transfer import transfer_keyed
from tidegate.timestamps import read_times

_BATCH = 1 << 20
_START = np.datetime64("2024-01-01T00:00", "ms")
_YEAR = 365 * 86_400_000  # milliseconds


class Rows:
    """Readings with times over one year, made as they are read."""

    rows = None

    def __init__(self, count: int, *, regular: bool, zones: int = 0) -> None:
        self._count, self._regular, self._zones = count, regular, zones
        self._random = np.random.default_rng(0)

    def batches(self) -> Iterator[Batch]:
        names = np.array([f"zone {zone}" for zone in range(self._zones)], dtype=object)
        step = max(1, _YEAR // self._count)
        for start in range(0, self._count, _BATCH):
            count = min(_BATCH, self._count - start)
            offsets = np.arange(start, start + count) * step
            if not self._regular:
                offsets = offsets + np.sort(self._random.integers(0, step, count)) % step
                offsets = np.maximum.accumulate(offsets)
            values = self._random.exponential(9, count)
            users = None
            if self._zones:
                users = object_array(names[self._random.integers(0, self._zones, count)].tolist())
            when = read_times(_START + offsets.astype("timedelta64[ms]"))
            yield Batch(values, users, times=when)

    def fraction(self) -> float | None:
        """Unknown."""
        return None

    def close(self) -> None:
        """Nothing to close."""


def taken(call: Callable[[], Any], repeats: int = 1) -> float:
    """The median of the seconds that a call takes."""
    return timed(call, repeats)[0]


def timed(call: Callable[[], Any], repeats: int = 1) -> tuple[float, float]:
    """The medians of the seconds that a call takes, and of those of a processor."""
    found = []
    for _ in range(repeats):
        begin, used = time.perf_counter(), time.process_time()
        call()
        found.append((time.perf_counter() - begin, time.process_time() - used))
    clock, processor = np.median(found, axis=0).tolist()
    return clock, processor


def asked(path: Path) -> None:
    """One question, from opening the file on."""
    random = np.random.default_rng()
    day = int(random.integers(30, 300))  # after the hold-out
    begin = _START.astype("datetime64[D]") + day
    end = begin + int(random.integers(1, 60))
    tg.open(path).query(from_=str(begin), to=str(end))


def one_stream(folder: Path, rows: int, preset: str, *, regular: bool) -> None:
    """A file with one stream: the first question, and the later ones."""
    path = folder / f"{preset}-{regular}.parquet"
    if preset == "default":  # as the command line has it: no hold-out, all rows are the horizon
        release = tg.adaptive(epsilon=0.1, bound=50, horizon=rows).start()
    else:
        make = tg.tops if preset == "tops" else tg.adaptive
        release = make(epsilon=0.1, bound=50, holdout=65_536).start()
    source: Any = Rows(rows, regular=regular)
    written = taken(lambda: transfer(source, release, path))
    first = taken(lambda: asked(path))
    later, processor = timed(lambda: asked(path), repeats=9)
    opened = tg.open(path)
    opened.query(from_="2024-02-01", to="2024-03-01")
    again = taken(lambda: opened.query(from_="2024-03-05", to="2024-08-01"), repeats=9)
    table = taken(lambda: opened.table("1d"))
    size = path.stat().st_size / 1e6
    kind = "regular" if regular else "irregular"
    print(
        f"| {preset}, {rows:,} rows, {kind} times | {written:.0f} | {size:.0f} | {first:.2f} | "
        f"{later * 1e3:.1f} | {processor * 1e3:.1f} | {again * 1e3:.1f} | {table * 1e3:.0f} |"
    )
    for file in folder.iterdir():
        file.unlink()


def many_zones(folder: Path, rows: int, zones: int, preset: str) -> None:
    """A table of days by zones."""
    path = folder / "zones.parquet"
    names = [f"zone {zone}" for zone in range(zones)]
    make = tg.tops if preset == "tops" else tg.adaptive
    horizon = max(1000, rows // zones)
    pipeline = make(epsilon=1, bound=50, holdout=4096, horizon=horizon, history=1 << 60)
    release = tg.keyed(pipeline, keys=names, threshold="shared").start(record=preset != "tops")
    source: Any = Rows(rows, regular=False, zones=zones)
    written = taken(lambda: transfer_keyed(source, release, path))
    first = taken(lambda: tg.open(path).query(from_="2024-02-01", to="2024-03-01", key="zone 1"))
    one = taken(
        lambda: tg.open(path).query(from_="2024-02-01", to="2024-03-01", key="zone 2"), repeats=5
    )
    table, processor = timed(lambda: tg.open(path).table("1d"))
    totals = taken(lambda: tg.open(path).totals("1d"))
    print(
        f"| {preset}, {rows:,} rows, {zones} zones | {written:.0f} | {first:.2f} | "
        f"{one * 1e3:.1f} | {table:.2f} | {processor:.2f} | {totals:.2f} |"
    )
    for file in folder.iterdir():
        file.unlink()


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--zones", type=int, default=0)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--preset", choices=["tops", "adaptive", "default"])
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=given.folder))
    presets = ["tops", "adaptive"] if given.zones else ["tops", "adaptive", "default"]
    if given.preset:
        presets = [given.preset]
    try:
        if given.zones:
            print(
                "| file | written, s | first question, s | later, ms | table 1d, s "
                "| of a processor, s | totals, s |"
            )
            print("|---|---|---|---|---|---|---|")
            for preset in presets:
                many_zones(folder, given.rows, given.zones, preset)
        else:
            print(
                "| file | written, s | MB | first question, s | later, opened anew, ms "
                "| of a processor, ms | later, open, ms | table 1d, ms |"
            )
            print("|---|---|---|---|---|---|---|---|")
            for preset in presets:
                for regular in (True, False):
                    one_stream(folder, given.rows, preset, regular=regular)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
