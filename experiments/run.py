"""Run cells on all cores, with a progress bar; finished ones are kept and never run again."""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from datetime import UTC, datetime
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

import tidegate as tg
from experiments.cells import Cell, Wanted, cells, version
from experiments.errors import ExperimentError
from experiments.figures import Figure
from experiments.jobs import work
from experiments.results import Store


def cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(
    figures: list[Figure], wanted: Wanted, store: Store, *, workers: int, console: Console
) -> list[str]:
    """Run what is missing and keep it; gives what could not be run, and why."""
    every = [cell for figure in figures for cell in cells(figure, wanted)]
    if not every:
        raise ExperimentError("nothing to run: no cell fits what was asked for")
    missing = list({cell.key: cell for cell in every if not store.has(cell)}.values())
    # One stream after the other: a worker keeps the last two that it loaded.
    missing.sort(key=lambda cell: cell.dataset)
    kept = len({cell.key for cell in every}) - len(missing)
    console.print(f"{len(missing)} cells to run, {kept} kept from earlier; {workers} workers.")
    start = time.perf_counter()
    failures = []
    with _bar(console) as bar:
        task = bar.add_task("", total=len(missing))
        for cell, result in _done(missing, workers):
            place = f"{cell.figure}, {cell.dataset}, {cell.method}"
            bar.update(task, advance=1, description=place)
            if isinstance(result, str):
                failures.append(f"{place}, ε = {cell.epsilon:g}: {result}")
            else:
                store.save(cell, result)
        bar.update(task, description="done")
    _manifest(store, figures, wanted, missing, time.perf_counter() - start, workers)
    return failures


def _done(missing: list[Cell], workers: int) -> Iterator[tuple[Cell, dict[str, Any] | str]]:
    """Cells as they get finished: their results, or why there are none."""
    if workers == 1 or len(missing) == 1:
        yield from ((cell, _attempt(cell.job)) for cell in missing)
        return
    context = multiprocessing.get_context("spawn")  # threads of the parent are no concern then
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_deaf) as pool:
        running = {pool.submit(_attempt, cell.job): cell for cell in missing}
        try:
            for future in as_completed(running):
                yield running.pop(future), future.result()
        except BrokenProcessPool:
            raise ExperimentError("a worker was killed; run again to go on from here") from None
        finally:
            pool.shutdown(cancel_futures=True)


def _attempt(job: dict[str, Any]) -> dict[str, Any] | str:
    """One cell that cannot be run must not cost the others."""
    try:
        return work(job)
    except (tg.TidegateError, ExperimentError) as error:
        return str(error)


def _deaf() -> None:
    """Ctrl-C is for the parent, which lets cells that are running end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _bar(console: Console) -> Progress:
    return Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
        console=console,
    )


def _manifest(
    store: Store,
    figures: list[Figure],
    wanted: Wanted,
    ran: list[Cell],
    seconds: float,
    workers: int,
) -> None:
    """When, where and with what: the facts of the last run, and of those before it."""
    path = store.folder / "runs.json"
    facts = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "figures": [figure.name for figure in figures],
        "quick": wanted.quick,
        "cells run": len(ran),
        "seconds": round(seconds, 1),
        "processor seconds": round(store.processor_seconds(ran), 1),
        "workers": workers,
        "version": version("central"),
        "tidegate": tg.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }
    earlier = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    path.write_text(json.dumps([*earlier, facts], indent=1) + "\n", encoding="utf-8")
