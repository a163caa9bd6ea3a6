"""`python -m benchmarks.before_after FOLDER`: the speed of this checkout against another one.

FOLDER is a checkout (`git worktree add ../before COMMIT`); its own `.venv` is used if it has one,
else this Python with its `src`. Both run their own `benchmarks speed`, group by group in turns, so
a machine that slows down slows down both. The best of all rounds is shown for each row, and the
median of the ratios within rounds. No group begins after `--minutes`: what was measured by then is
shown. Rows that only one of the two has are listed apart.

Processor time counts, not the clock: on a shared machine the clock measures the others. And both
keep compiled modules, whatever the environment says: else one of them compiles at every import.
Both have memory that was touched before, and keep it: where the C library begins to map large
arrays anew, with a page fault for every 4 kB, follows from what was imported and freed before.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.timing import FIRST_VALUE

# Groups of `benchmarks speed`, and the functions that measure them, by the names of all times.
# (Left out: opendp's tree takes minutes, and nothing of it is ours.)
_GROUPS = {
    "one value at a time": ("_single",),
    "adaptive release": ("adaptive_rows", "_adaptive"),
    "bulk push": ("_bulk",),
    "range queries": ("_queries",),
    "thresholds": ("_thresholds",),
    "exact sampler": ("_sampler",),
    "import": (),
}
# One group of the folder's own benchmark. (Imports are timed in processes of their own.)
_RUN = """
import json, sys, time
import numpy
touched = numpy.ones(1 << 27)
del touched
time.perf_counter = time.process_time
from benchmarks import speed
_, table, quick, *names = sys.argv
measure = next(getattr(speed, name) for name in names if hasattr(speed, name))
rows = measure(quick == "quick")
json.dump([row.plain() for row in rows], open(table, "w"))
"""
_LONGEST = 600  # seconds of one group
_STARTS = 8  # of each program that imports
# Of glibc: large arrays come from the heap, and the heap is not given back.
_ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(1 << 32), "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}
# Units in which less is better; in the others more is.
_COST_RATIO = "times"
_TIMES = ("s", "ms", "us", "µs", "ns", "kB", "MB", _COST_RATIO)
_SLOWER = 0.95
Rounds = dict[str, tuple[str, list[float]]]  # of each row: its unit, and a number for each round


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the checkout to compare with")
    parser.add_argument("--groups", nargs="*", choices=_GROUPS, default=[*_GROUPS], metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=20, help="begin no group after these")
    parser.add_argument("--full", action="store_true", help="full sizes instead of quick ones")
    options = parser.parse_args()
    here, there = Path(__file__).resolve().parents[1], options.folder.resolve()
    found: dict[Path, Rounds] = {here: {}, there: {}}
    end = time.monotonic() + 60 * options.minutes
    for number in range(options.rounds):
        for name in options.groups:
            if time.monotonic() > end:
                break
            # Who goes first changes from round to round.
            for folder in sorted(found, reverse=number % 2 == 1):
                _keep(found[folder], _measured(folder, options.full, name))
    _show(found[there], found[here])


def _keep(rounds: Rounds, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        # A ratio to a rival may be better if it is less or if it is more: its target says which.
        unit = _COST_RATIO if _is_least(row) else row["unit"]
        rounds.setdefault(row["name"], (unit, []))[1].append(row["measured"])


def _measured(folder: Path, full: bool, group: str) -> list[dict[str, Any]]:
    """The rows of one group, as plain data; none if the checkout cannot measure it."""
    own, size = folder / ".venv/bin/python", "full" if full else "quick"
    python = str(own) if own.exists() else sys.executable
    paths = os.pathsep.join((str(folder / "src"), str(folder)))
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, **_ALLOCATOR, "PYTHONPATH": paths}
    if group == "import":
        return [
            {"name": name, "unit": "s", "measured": _import_seconds(python, program, environment)}
            for name, program in FIRST_VALUE.items()
        ]
    with tempfile.TemporaryDirectory() as scratch:
        table = Path(scratch) / "rows.json"
        subprocess.run(
            [python, "-c", _RUN, str(table), size, *_GROUPS[group]],
            cwd=folder, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            timeout=_LONGEST, env=environment,
        )  # fmt: skip
        if not table.exists():
            return []
        found: list[dict[str, Any]] = json.loads(table.read_text(encoding="utf-8"))
        return found


def _import_seconds(python: str, program: str, environment: dict[str, str]) -> float:
    """Processor time of an interpreter that runs this, the least of several."""
    command = [python, "-c", f"import time; {program}; print(time.process_time())"]
    runs = [
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        for _ in range(_STARTS)
    ]
    return min(float(run.stdout) for run in runs)


def _is_least(row: dict[str, Any]) -> bool:
    return bool(row["unit"] == "x" and row["sign"] == "<=")


def _is_cost(unit: str) -> bool:
    return unit.partition(" ")[0] in _TIMES


def _show(before: Rounds, after: Rounds) -> None:
    print(
        f"{'row':<58} {'before':>10} {'after':>10}  ratio (above 1: better now), in single rounds"
    )
    slower = []
    for name in [name for name in after if name in before]:
        unit, olds = before[name]
        news = after[name][1]
        if min(*olds, *news) <= 0:
            continue
        better = min if _is_cost(unit) else max
        old, new = better(olds), better(news)
        # Load comes and goes within a round, too: the median says more than the best one.
        ratios = [a / b if _is_cost(unit) else b / a for a, b in zip(olds, news, strict=False)]
        ratio = statistics.median(ratios)
        slower += [name] if ratio < _SLOWER else []
        each = " ".join(f"{found:.2f}" for found in ratios)
        print(f"{name:<58} {old:>10.4g} {new:>10.4g}  {ratio:.2f}  {unit}  ({each})")
    for title, only in (("before", before.keys() - after.keys()), ("now", after.keys() - before)):
        print(f"only {title}: {', '.join(sorted(only)) or 'none'}")
    print(f"{len(slower)} rows below {_SLOWER}" + "".join(f"\n  {name}" for name in sorted(slower)))


if __name__ == "__main__":
    main()
