"""Times that survive a busy machine: best of several, the rivals taken in turns."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

import tidegate as tg

Job = Callable[[], object]
Prepare = Callable[[], Job]
# Programs that a fresh interpreter is timed with, by the name of their row.
FIRST_VALUE = {
    "import tidegate, fresh interpreter": "import tidegate",
    "first adaptive value, fresh interpreter": (
        "import tidegate; tidegate.adaptive(epsilon=0.1, bound=1657).start().push(5)"
    ),
}


def best(prepare: Prepare, repeats: int) -> float:
    """Seconds of the fastest of `repeats` runs; `prepare` is called anew for each, untimed."""
    return best_in_turns([prepare], repeats)[0]


def best_in_turns(rivals: list[Prepare], repeats: int) -> list[float]:
    """The same for several rivals, one run of each in turn, so that all meet the same load."""
    seconds = [float("inf")] * len(rivals)
    for _ in range(repeats):
        for index, prepare in enumerate(rivals):
            seconds[index] = min(seconds[index], once(prepare()))
    return seconds


def once(job: Job) -> float:
    gc.collect()
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def again(job: Job) -> Prepare:
    """A job that needs no preparation."""
    return lambda: job


def progress(text: str) -> None:
    """What is being measured, on standard error: standard output is for results."""
    print(f"  ... {text}", file=sys.stderr, flush=True)


def started(pipeline: tg.Pipeline) -> tg.Release:
    """A release whose hold-out or warm-up, if it has one, is over."""
    release = pipeline.start(tg.seeded(1))
    if waiting := release.holding + release.warming:
        release.push(tg.synthetic.baskets(waiting))
    return release
