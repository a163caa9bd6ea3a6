"""The local model end to end: devices and server over arrays, how fast and in how much memory.

`python -m benchmarks.local_server 1000000000` runs so many reports through a server with a file,
and prints its rate and peak memory: 10^9 take a few minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import tidegate as tg
from benchmarks.memory_worker import peak_bytes
from benchmarks.table import Row, at_least, at_most
from benchmarks.timing import Job, Prepare, again, best_in_turns, progress
from tidegate.local.server import Server
from tidegate.local.shuffle import Shuffled

_TOPL = tg.topl(epsilon=1, bound=1657, threshold=40)
_BATCH = 1 << 18
_SHORT = 10**7


def measure(quick: bool) -> list[Row]:
    return _rates(quick) + _memory(quick)


def _rates(quick: bool) -> list[Row]:
    """Drawing all reports and collecting them, in batches as a server would get them."""
    count, repeats = (1 << 21, 3) if quick else (1 << 23, 5)
    progress("devices and server over arrays")
    values = np.resize(tg.synthetic.baskets(1 << 20), count)
    with tempfile.TemporaryDirectory() as folder:
        made = iter(range(1000))

        def in_file(batch: int) -> Callable[[], object]:
            server = _TOPL.server(Path(folder) / str(next(made)))
            return partial(collect, server, count, batch)

        rivals: dict[str, Prepare] = {
            "simulate": again(partial(_TOPL.simulate, values, tg.seeded(1))),
            "server in memory": lambda: partial(collect, _TOPL.server(), count, _BATCH),
            "server with a file": lambda: in_file(_BATCH),
            "server with a file, batches of 2^16": lambda: in_file(1 << 16),
        }
        busy = dict.fromkeys(rivals, float("inf"))
        timed = [_with_processor_time(busy, name, made) for name, made in rivals.items()]
        seconds = best_in_turns(timed, repeats)
    rows = []
    for name, took in zip(rivals, seconds, strict=True):
        note = f"{count / busy[name] / 1e6:.1f} M for a second of the processor"
        title = f"both sides over an array, {name}"
        rows.append(at_least(title, count / took / 1e6, 5, "M reports/s", note))
    return rows


def _with_processor_time(busy: dict[str, float], name: str, prepare: Prepare) -> Prepare:
    """The same, which also keeps the least processor time: what others do here changes it less."""

    def prepared() -> Job:
        job = prepare()

        def timed() -> None:
            start = time.process_time()
            job()
            busy[name] = min(busy[name], time.process_time() - start)

        return timed

    return prepared


def _memory(quick: bool) -> list[Row]:
    long = 3 * _SHORT if quick else 10**8
    progress("peak memory of a server")
    short_peak = min(_peak(_SHORT) for _ in range(2))
    long_peak = _peak(long)
    note = f"peak {short_peak:.1f} MB for 10^7, {long_peak:.1f} MB for {long:.0e} reports"
    name = f"server with a file, more memory for {long:.0e} reports than for 10^7"
    return [at_most(name, long_peak - short_peak, 5.0, "MB", note)]


def _peak(count: int) -> float:
    """Megabytes, of a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.local_server", str(count)],
        check=True, capture_output=True, text=True, cwd=Path(__file__).parent.parent,
    )  # fmt: skip
    return float(json.loads(ran.stdout)["peak_megabytes"])


def collect(server: Server, count: int, batch: int) -> None:
    """Devices answer, their reports are collected; the values are the same ones over and over."""
    words = tg.seeded(1).new_epoch().keystream("benchmark", b"").at()
    values = np.resize(tg.synthetic.baskets(1 << 18), batch).astype(np.int64)
    slots = np.zeros(batch, dtype=np.int64)
    question = server.announcements[0].question
    for start in range(0, count, batch):
        size = min(batch, count - start)
        reports = question.answers(values[:size], words)
        server.collect_shuffled(Shuffled(server.round, slots[:size], reports))
    server.close()


def _main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server"
        start = time.perf_counter()
        collect(_TOPL.server(path), count, _BATCH)
        seconds = time.perf_counter() - start
        facts = {
            "reports": count,
            "million_a_second": count / seconds / 1e6,
            "peak_megabytes": peak_bytes() / 1e6,
            "file_megabytes": path.stat().st_size / 1e6,
        }
        with _TOPL.server(path) as server:
            answer = server.query(0, server.accepted)
            facts["mean"] = answer.estimate / server.accepted
            facts["standard_error_of_the_mean"] = answer.noise_error / server.accepted
    print(json.dumps(facts))


if __name__ == "__main__":
    _main(int(sys.argv[1]))
