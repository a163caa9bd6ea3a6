"""Many keys of one method: values a second, memory a key, the longest tick, both engines.

    python -m benchmarks.keyed                      # 100,000 keys
    python -m benchmarks.keyed --keys 1000000 --ticks 20
    python -m benchmarks.keyed --adaptive --keys 10000
    python -m benchmarks.keyed --refined --keys 10000 --ticks 4096
    python -m benchmarks.keyed --frozen             # without Python's collector looking at modules

A tick is one value for each key. Time is that of the processor, since machines are shared: compare
ratios within one run. The longest tick is given for each of `--rounds` runs of the same ticks, by
processor and by clock, and of the least time that each tick took in any of them: that is what the
work takes, without what the machine adds. Memory is what Python and numpy hold for the run
(tracemalloc), names of keys included, after its rows were given away.
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
from dataclasses import replace

import numpy as np

import tidegate as tg
from tidegate.keyed.keyed_release import KeyedRelease

BLOCK_TICKS = 256  # of the pipeline below: noise of all keys is needed within the first of them


def pipeline() -> tg.Pipeline:
    """ToPS with a public threshold: blocks of 256 values, 16 to a horizon."""
    return tg.Pipeline(
        threshold=tg.threshold.Fixed(50),
        perturber=tg.perturb.Hierarchy(epsilon="0.1", horizon=4096),
        resolution="1/100",
    )


def adaptive() -> tg.Pipeline:
    """`adaptive` with a public threshold, as after a shared one was chosen: blocks of 16 to 256."""
    chosen = tg.adaptive(epsilon=1, bound=50, holdout=4096, horizon=4096)
    return replace(chosen, threshold=tg.threshold.Fixed(50), resolution="1/100")


def refined() -> tg.Pipeline:
    """The default: every key chooses its own threshold, in a warm-up of 80 values and again."""
    return tg.adaptive(epsilon=1, bound=50, horizon=4096)


def started(keys: int, *, record: bool, method: tg.Pipeline) -> KeyedRelease:
    """A run that has seen nothing yet."""
    return tg.keyed(method, keys=range(keys)).start(record=record)


def both_times(release: KeyedRelease, keys: np.ndarray, count: int) -> np.ndarray:
    """Seconds of each tick: a row by processor, and one by clock."""
    random = np.random.default_rng(0)
    levels = random.gamma(2, 3, keys.size)
    found = np.empty((2, count))
    for tick in range(count):
        values = random.exponential(levels)
        begin = time.process_time(), time.perf_counter()
        release.push(keys, values)
        found[:, tick] = time.process_time() - begin[0], time.perf_counter() - begin[1]
    return found


def ticks(release: KeyedRelease, keys: np.ndarray, count: int) -> np.ndarray:
    """Processor seconds of each tick."""
    return both_times(release, keys, count)[0]


def longest(found: np.ndarray) -> float:
    """The longest tick over the median one."""
    return float(found.max() / np.median(found))


def longest_of_rounds(keys: int, count: int, rounds: int, method: tg.Pipeline) -> None:
    """Print the longest tick of each of several runs, first ticks included, and of the least."""
    runs = []
    for _ in range(rounds):
        release = started(keys, record=False, method=method)
        runs.append(both_times(release, np.arange(keys), count))
    least = np.min(runs, axis=0)
    for row, name in enumerate(("processor", "clock")):
        each = ", ".join(f"{longest(run[row]):.1f}" for run in runs)
        at = int(least[row].argmax())
        print(
            f"longest / median tick by {name}, in each of {rounds} runs: {each}; "
            f"of the least times: {longest(least[row]):.1f} (tick {at}, {least[row, at] * 1e3:.1f} "
            f"ms; median {np.median(least[row]) * 1e3:.2f} ms)"
        )


def memory(keys: int, count: int, *, record: bool, method: tg.Pipeline) -> float:
    """Bytes a key after some ticks."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    release = started(keys, record=record, method=method)
    ticks(release, np.arange(keys), count)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert release.position
    return held / keys


def report(keys: int, count: int, few: int, method: tg.Pipeline) -> None:
    """Print one row for each engine and order of rows."""
    print(f"{keys:,} keys; objects with {few:,}\n")
    print("| engine, rows | M values/s | median tick, ms | longest / median | bytes a key |")
    print("|---|---|---|---|---|")
    release = started(keys, record=False, method=method)
    begin = time.process_time()
    release.push(np.arange(keys), np.zeros(keys))
    first = time.process_time() - begin
    found = ticks(release, np.arange(keys), count)
    later = found[BLOCK_TICKS:] if count > 2 * BLOCK_TICKS else found
    known = 3 + method.warm_up  # ticks after which a key has a threshold
    used = memory(keys, known, record=False, method=method)
    rate, median = keys * count / found.sum() / 1e6, np.median(later)
    slowest = longest(found)
    print(f"| columns, in order | {rate:.2f} | {median * 1e3:.2f} | {slowest:.1f} | {used:.0f} |")
    if method.warm_up:  # all keys choose a threshold in the same ticks
        slow = np.sort(found)[::-1][:4]
        rate = keys * (count - 4) / (found.sum() - slow.sum()) / 1e6
        said = ", ".join(f"{tick:.1f}" for tick in slow)
        print(f"| without the 4 longest ticks ({said} s) | {rate:.2f} | | | |")
    if len(release.snapshot()) < 1 << 30:
        stored = len(release.snapshot(bytes(32))) / keys
        print(f"| state of these, sealed | | | | {stored:.0f} |")
    random = np.random.default_rng(1)
    shuffled = random.permutation(keys)
    found = ticks(release, shuffled, max(3, count // 10))
    rate = keys * found.size / found.sum() / 1e6
    print(f"| columns, shuffled | {rate:.2f} | {np.median(found) * 1e3:.2f} | | |")
    some = np.repeat(np.arange(keys), random.integers(0, BLOCK_TICKS, keys))
    release.push(some, random.exponential(6, some.size))
    found = ticks(release, np.arange(keys), max(3, count // 4))
    rate = keys * found.size / found.sum() / 1e6
    print(f"| columns, keys at different places | {rate:.2f} | {np.median(found) * 1e3:.2f} | | |")
    repeated = np.repeat(np.arange(keys // 64 or 1), 64)
    found = ticks(release, repeated, max(3, count // 10))
    rate = repeated.size * found.size / found.sum() / 1e6
    print(f"| columns, 64 rows of a key together | {rate:.2f} | | | |")
    release = started(few, record=True, method=method)
    found = ticks(release, np.arange(few), known + 5)[1:]
    rate = few * found.size / found.sum() / 1e6
    used = memory(few, known, record=True, method=method)
    print(f"| objects, in order | {rate:.3f} | | | {used:.0f} |")
    print(f"\nstart of a key: {first / keys * 1e6:.2f} µs (the first tick, all keys at once)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--ticks", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=5, help="runs for the longest tick")
    parser.add_argument("--few", type=int, default=500)
    parser.add_argument("--adaptive", action="store_true")
    parser.add_argument("--refined", action="store_true")
    parser.add_argument("--frozen", action="store_true")
    given = parser.parse_args()
    if given.frozen:
        gc.freeze()
    chosen = refined() if given.refined else adaptive() if given.adaptive else pipeline()
    report(given.keys, given.ticks, given.few, chosen)
    if given.rounds:
        print()
        longest_of_rounds(given.keys, given.ticks, given.rounds, chosen)
