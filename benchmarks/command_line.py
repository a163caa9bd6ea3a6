"""The command line as a user runs it: whole processes, files in and out, start-up and latency."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tidegate as tg
from benchmarks.table import Row, at_least, at_most
from benchmarks.timing import progress

_OPTIONS = ["--epsilon", "0.1", "--bound", "500", "--quiet"]
_ONE_CORE = {**os.environ, "OMP_NUM_THREADS": "1"}


def measure(quick: bool) -> list[Row]:
    count = 4_000_000 if quick else 20_000_000
    repeats = 2 if quick else 3
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        progress(f"writing {count:,} values as Parquet and CSV")
        _write_inputs(folder, count)
        start_up = min(_seconds(["--help"]) for _ in range(5))
        rows = [at_most("start-up: tidegate --help", start_up, 0.4, "s")]
        for kind, target in (("parquet", 20.0), ("csv", 5.0)):
            plain, durable = _throughput(folder, kind, count, repeats)
            note = "whole process, start-up included, pinned to one core"
            rows.append(at_least(f"release {kind} to {kind}", plain, target, "M values/s", note))
            rows.append(
                at_least(f"release {kind}, durable", durable, 0.6 * target, "M values/s", note)
            )
        rows.append(at_most("a piped value is answered in", _latency([]) * 1e3, 50.0, "ms"))
        state = ["--state", str(folder / "pipe")]
        rows.append(at_most("the same, durable", _latency(state) * 1e3, 50.0, "ms"))
    return rows


def _write_inputs(folder: Path, count: int) -> None:
    import pyarrow as pa
    from pyarrow import csv, parquet

    table = pa.table({"items": tg.synthetic.baskets(count)})
    parquet.write_table(table, folder / "in.parquet")
    csv.write_csv(table, folder / "in.csv")


def _throughput(folder: Path, kind: str, count: int, repeats: int) -> tuple[float, float]:
    """Million values per second without and with durable state, the best of several in turns."""
    plain = durable = float("inf")
    for number in range(repeats):
        progress(f"release {kind}, run {number + 1} of {repeats}")
        output = folder / f"out-{number}.{kind}"
        job = ["release", str(folder / f"in.{kind}"), *_OPTIONS]
        plain = min(plain, _seconds([*job, "-o", str(output)]))
        output.unlink()
        state = folder / f"state-{kind}-{number}"
        durable = min(durable, _seconds([*job, "-o", str(output), "--state", str(state)]))
        output.unlink()
        shutil.rmtree(state)
    return count / plain / 1e6, count / durable / 1e6


def _seconds(arguments: list[str]) -> float:
    command = [sys.executable, "-m", "tidegate", *arguments]
    start = time.perf_counter()
    subprocess.run(
        command, check=True, env=_ONE_CORE, stdout=subprocess.DEVNULL, preexec_fn=_pin_to_one_core
    )
    return time.perf_counter() - start


def _pin_to_one_core() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _latency(more: list[str]) -> float:
    """From writing a value to reading its answer, after the hold-out; the median of many."""
    command = [sys.executable, "-m", "tidegate", "release", *_OPTIONS, "--holdout", "100", *more]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"value\n" + b"7\n" * 101)
        process.stdin.flush()
        process.stdout.readline()  # the header
        process.stdout.readline()
        delays = []
        for _ in range(50):
            start = time.perf_counter()
            process.stdin.write(b"7\n")
            process.stdin.flush()
            process.stdout.readline()
            delays.append(time.perf_counter() - start)
        process.stdin.close()
        process.wait()
    return sorted(delays)[len(delays) // 2]
