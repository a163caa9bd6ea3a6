"""Hostile input for every parser: it answers, or refuses with an error of ours, within limits.

A module in this folder has `TARGETS`: functions that make one input from a `random.Random`, give it
to a parser, and raise if anything else than a `TidegateError` comes of it, or what was read is not
what would be written. An input is known by its target and its number, which are its seed.

`make fuzz` runs COUNT inputs on WORKERS processes; `python -m tests.fuzz.harness TARGET NUMBER`
repeats one.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import multiprocessing
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path

SECONDS = (
    5.0  # of work for one input, of which the slowest takes a tenth, however loaded the machine
)
WAITING = 20 * SECONDS  # by the clock: a parser that hangs does no work
MEMORY = 3 << 30  # bytes of address space, of which pyarrow reserves a third unasked
# These get a part of the inputs that others get.
SLOW = {"metadata": 40, "record": 8, "ledger": 8, "snapshot": 4, "settings": 4, "config": 4,
        "released-rows": 4, "journal-rows": 2, "local store": 40, "event-settings": 8,
        "event-snapshot": 8, "keyed-snapshot": 20, "keyed-file": 80,
        "service-request": 10}  # fmt: skip
_SLICE = 200  # inputs that a worker takes at once

Target = Callable[[random.Random], None]


class TooSlowError(Exception):
    """A parser that works on one input for too long."""


def targets() -> dict[str, Target]:
    """Every target of every module in this folder, by its name."""
    found: dict[str, Target] = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem != "harness" and not path.stem.startswith(("test_", "__")):
            module = importlib.import_module(f"tests.fuzz.{path.stem}")
            for name, target in getattr(module, "TARGETS", {}).items():
                assert name not in found, f"two targets are called {name}"
                found[name] = target
    return found


@contextmanager
def limited() -> Iterator[None]:
    """Time and memory for one input."""

    def late(*_: object) -> None:
        raise TooSlowError(f"more than {SECONDS} s of work, or {WAITING} s of waiting")

    timers = {signal.SIGPROF: (signal.ITIMER_PROF, SECONDS)}
    timers[signal.SIGALRM] = (signal.ITIMER_REAL, WAITING)
    before = {number: signal.signal(number, late) for number in timers}
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    for timer, seconds in timers.values():
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for timer, _ in timers.values():
            signal.setitimer(timer, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        for number, handler in before.items():
            signal.signal(number, handler)


def run(name: str, target: Target, numbers: range) -> None:
    """These inputs of one target; an error says which it was."""
    for number in numbers:
        try:
            with limited(), warnings.catch_warnings():
                # A NaN that became a number, a product that overflowed: wrong numbers, silently.
                warnings.simplefilter("error", RuntimeWarning)
                target(random.Random(f"{name} {number}"))
        except BaseException as error:
            error.add_note(f"repeat it: python -m tests.fuzz.harness {name} {number}")
            raise


def _work(task: tuple[str, int]) -> tuple[str, int, str]:
    name, start = task
    try:
        run(name, targets()[name], range(start, start + _SLICE))
    except Exception:  # noqa: BLE001  # any of them is a fault, and is shown
        return name, start, traceback.format_exc()
    return name, start, ""


def _outcomes(tasks: list[tuple[str, int]], workers: int) -> Iterator[tuple[str, int, str]]:
    """What came of each slice; a slice that kills its process is found, and is a fault."""
    spawn, left = multiprocessing.get_context("spawn"), list(tasks)
    while left:
        done = set()
        with ProcessPoolExecutor(workers, mp_context=spawn) as pool:
            try:
                waiting = {pool.submit(_work, task): task for task in left}
                for future in as_completed(waiting):
                    outcome = future.result()
                    done.add(waiting[future])
                    yield outcome
            except BrokenProcessPool:
                pass
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
        left = [task for task in left if task not in done]
        for task in left[: 4 * workers]:  # one of those that were at work
            process = spawn.Process(target=_work, args=(task,))
            process.start()
            process.join()
            if process.exitcode:
                left.remove(task)
                yield (*task, f"slice {task[1]} ended its process: exit code {process.exitcode}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", nargs="?", help="one target only")
    parser.add_argument("number", nargs="?", type=int, help="one input only")
    parser.add_argument("--count", type=int, default=1_000_000, help="inputs of all targets")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--go-on", action="store_true", help="after a fault, with the next slice")
    options = parser.parse_args(arguments)
    known = targets()
    names = [options.target] if options.target else list(known)
    if options.number is not None:
        run(options.target, known[options.target], range(options.number, options.number + 1))
        return 0
    slices = -(-options.count // _SLICE)
    tasks: list[tuple[str, int]] = []
    for turn in itertools.count():
        start = options.first + turn * _SLICE
        tasks += [(name, start) for name in names if turn % SLOW.get(name, 1) == 0]
        if len(tasks) >= slices:
            break
    begun, done, shown, faults = time.monotonic(), 0, 0.0, 0
    for name, _, problem in _outcomes(tasks, max(1, options.workers)):
        done += _SLICE
        if problem:
            _say(f"\n{name}: a fault\n{problem}")
            faults += 1
            if not options.go_on:
                break
        if time.monotonic() - shown > 5:
            shown = time.monotonic()
            rate = done / (shown - begun)
            _say(f"{done:,} of {len(tasks) * _SLICE:,} inputs, {rate:,.0f} a second")
    _say(f"{done:,} inputs for {len(names)} parsers: {faults or 'no'} fault{'s' * (faults > 1)}")
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
