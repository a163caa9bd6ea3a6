"""How fast streams are read and written: `python -m benchmarks.io [ROWS]`.

CPU time of one thread, best of several, so that a busy machine changes little. Files are in memory
where the system has a place for that: this measures us, not a disk.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.io import open_sink, open_source, read_released

PIECE = 1 << 17


def best(job: Callable[[], object], repeats: int = 5) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        job()
        seconds.append(time.process_time() - start)
    return min(seconds)


def read_all(path: Path, **settings: str) -> int:
    with open_source(path, **settings) as source:
        return sum(len(batch) for batch in source.batches())


def write_all(path: Path, values: np.ndarray) -> None:
    with open_sink(path) as sink:
        for at in range(0, values.size, PIECE):
            sink.write(at, values[at : at + PIECE])


def report(what: str, rows: int, seconds: float, note: str = "") -> None:
    print(f"{what:42} {rows / seconds / 1e6:8.1f} M rows/s  {note}", flush=True)


def readings(folder: Path, rows: int) -> None:
    values = np.random.default_rng(1).integers(0, 30_000, rows)
    texts = [str(value) for value in values.tolist()]
    (folder / "one.csv").write_text("value\n" + "\n".join(texts) + "\n")
    lines = [f"2024-01-01T00:00,user{i % 1000},{text},x" for i, text in enumerate(texts)]
    (folder / "four.csv").write_text("time,user,value,note\n" + "\n".join(lines) + "\n")
    lines = [f'{{"time":"2024-01-01T00:00","value":{text}}}' for text in texts]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")
    pq.write_table(pa.table({"value": np.tile(values, 8)}), folder / "default.parquet")
    plain = pa.table({"value": np.tile(values, 8).astype(float)})
    pq.write_table(plain, folder / "plain.parquet", use_dictionary=False, compression="none")
    for name, settings in (
        ("one.csv", {}),
        ("four.csv", {}),
        ("four.csv", {"user_column": "user"}),
        ("rows.jsonl", {"column": "value"}),
        ("default.parquet", {}),
        ("plain.parquet", {}),
    ):
        path = folder / name
        count = read_all(path, **settings)
        users = " with users" if "user_column" in settings else ""
        what = f"read {name}{users}"
        report(what, count, best(lambda path=path, settings=settings: read_all(path, **settings)))


def writings(folder: Path, rows: int) -> None:
    generator = np.random.default_rng(2)
    streams = {
        "blocks of 256 (ToPS)": np.repeat(generator.integers(0, 2000, rows // 256 + 1) / 64, 256),
        "integers": np.rint(generator.normal(0, 1000, rows)) + 0.0,  # no −0, as released
        "17 digits": generator.normal(0, 1000, rows),
    }
    for stream, values in streams.items():
        for kind in ("csv", "jsonl", "parquet", "csv.gz", "csv.zst"):
            path = folder / f"out.{kind}"
            array = values[:rows]
            seconds = best(lambda path=path, array=array: write_all(path, array), 4)
            size = f"{path.stat().st_size / rows:.2f} bytes a row"
            report(f"write {kind}, {stream}", rows, seconds, size)
            seconds = best(lambda path=path: sum(part.size for _, part in read_released(path)), 3)
            report("  and read back", rows, seconds)


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        readings(Path(name), rows)
        writings(Path(name), rows)


if __name__ == "__main__":
    main()
