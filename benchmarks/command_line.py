"""The command line as a user runs it: whole processes, files in and out, start-up and latency."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path
from threading import Thread

import numpy as np

import tidegate as tg
from benchmarks.table import Row, at_least, at_most
from benchmarks.timing import progress

_OPTIONS = ["--preset", "tops", "--epsilon", "0.1", "--bound", "500", "--quiet"]
_ONE_CORE = {**os.environ, "OMP_NUM_THREADS": "1"}


def measure(quick: bool) -> list[Row]:
    large = 8_000_000 if quick else 40_000_000
    small = large // 8
    repeats = 2 if quick else 3
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        progress(f"writing {large:,} values as Parquet and CSV")
        _write_inputs(folder, {"small": small, "large": large})
        start_up = min(_seconds(["--help"]) for _ in range(5))
        rows = [at_most("start-up: tidegate --help", start_up, 0.4, "s")]
        for kind, target in (("parquet", 20.0), ("csv", 5.0)):
            plain, durable = _throughput(folder, kind, large - small, repeats)
            note = f"one core; from {small:,} to {large:,} values, so without start-up"
            rows.append(at_least(f"release {kind} to {kind}", plain, target, "M values/s", note))
            rows.append(
                at_least(f"release {kind}, durable", durable, 0.6 * target, "M values/s", note)
            )
        rows.append(_by_zone(folder, large // 8, repeats))
        rows.append(at_most("a piped value is answered in", _latency([]) * 1e3, 50.0, "ms"))
        state = ["--state", str(folder / "pipe")]
        rows.append(at_most("the same, durable", _latency(state) * 1e3, 50.0, "ms"))
        users = ["--unit", "user-horizon:3", "--column", "value", "--user-column", "user"]
        state = ["--state", str(folder / "users")]
        delay = _latency([*users, *state], earlier=100_000) * 1e3
        rows.append(at_most("the same, for 100,000 users", delay, 50.0, "ms"))
    return rows


def _by_zone(folder: Path, count: int, repeats: int) -> Row:
    """The default for each of 260 zones against the same rows without keys, whole processes.

    Processor time, in turns, the median of the ratios: the clock depends on who else is at work.
    """
    import pyarrow as pa
    from pyarrow import csv

    random, source, keys = np.random.default_rng(1), folder / "zones.csv", folder / "zones.txt"
    zones = random.integers(0, 260, count)
    fares = np.round(random.gamma(2, 6 + zones % 7), 2)
    csv.write_csv(pa.table({"zone": zones, "fare": fares}), source)
    keys.write_text("".join(f"{zone}\n" for zone in range(260)))
    plain = ["release", str(source), "--column", "fare", "--epsilon", "1", "--bound", "200"]
    plain += ["--quiet", "--overwrite", "-o", str(folder / "zones out.csv")]
    ratios = []
    for number in range(repeats):
        progress(f"release by zone, run {number + 1} of {repeats}")
        alone, keyed = (
            _processor_seconds([*plain, *more])
            for more in ([], ["--by", "zone", "--keys", str(keys)])
        )
        ratios.append(keyed / alone)
    note = f"{count:,} rows, 260 zones, processor time, the default; in turns"
    return at_most("release --by zone, to without keys", float(np.median(ratios)), 2.0, "×", note)


def _processor_seconds(arguments: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _seconds(arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _write_inputs(folder: Path, counts: dict[str, int]) -> None:
    import pyarrow as pa
    from pyarrow import csv, parquet

    for name, count in counts.items():
        table = pa.table({"items": tg.synthetic.baskets(count)})
        parquet.write_table(table, folder / f"{name}.parquet")
        csv.write_csv(table, folder / f"{name}.csv")


def _throughput(folder: Path, kind: str, more: int, repeats: int) -> tuple[float, float]:
    """Million values per second without and with durable state.

    The time that `more` values more take, each time the best of several runs in turns: what a long
    stream meets. Start-up has a row of its own.
    """
    best: dict[tuple[str, bool], float] = {}
    for number in range(repeats):
        for name in ("small", "large"):
            for durable in (False, True):
                progress(f"release {name} {kind}, run {number + 1} of {repeats}")
                seconds = _release(folder, folder / f"{name}.{kind}", durable)
                best[name, durable] = min(best.get((name, durable), seconds), seconds)
    plain, durable_rate = (
        more / max(best["large", durable] - best["small", durable], 1e-9) / 1e6
        for durable in (False, True)
    )
    return plain, durable_rate


def _release(folder: Path, source: Path, durable: bool) -> float:
    output, state = folder / f"out{source.suffix}", folder / "state"
    job = ["release", str(source), *_OPTIONS, "-o", str(output)]
    seconds = _seconds([*job, "--state", str(state)] if durable else job)
    for path in folder.glob(f"{output.name}*"):
        path.unlink()
    shutil.rmtree(state, ignore_errors=True)
    return seconds


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


def _latency(more: list[str], earlier: int = 1) -> float:
    """From writing a value to reading its answer, after the hold-out; the median of many.

    Every value is of another user; `earlier` of them were released before.
    """
    command = [sys.executable, "-m", "tidegate", "release", *_OPTIONS, "--holdout", "100", *more]
    users = "--user-column" in more
    lines = (f"7,user {number}\n" if users else "7\n" for number in range(2**31))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        run.stdin.write("value,user\n" if users else "value\n")
        text = "".join(islice(lines, 100 + earlier))
        writer = Thread(target=lambda pipe: (pipe.write(text), pipe.flush()), args=(run.stdin,))
        writer.start()
        for _ in range(1 + earlier):  # a header first
            run.stdout.readline()
        writer.join()
        delays = []
        for _ in range(50):
            start = time.perf_counter()
            run.stdin.write(next(lines))
            run.stdin.flush()
            run.stdout.readline()
            delays.append(time.perf_counter() - start)
        run.stdin.close()
        run.wait()
    return sorted(delays)[len(delays) // 2]
