"""How fast the adaptive release is: with a hold-out, and in the default form."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np

import tidegate as tg
from benchmarks.table import Row, at_least, at_most
from benchmarks.timing import again, best, once, started

_BOUND = 1657
_HOLDOUT = 65_536
_FINEST = (1, 16, 128)
_MICRO, _MILLI = 1e6, 1e3
_ROW = 20  # starts and resumes that are timed together, as many keys would be


def adaptive_rows(quick: bool) -> list[Row]:
    """The adaptive release: trees as chosen, and the finest tree throughout.

    With a hold-out, and in the default form, which releases its warm-up and refines θ.
    """
    values = np.tile(tg.synthetic.baskets(1 << 18), 4 if quick else 16)
    repeats = 3 if quick else 5
    rows = []
    for epsilon in (0.01, 0.1, 1.0):
        adaptive = partial(tg.adaptive, epsilon, _BOUND)
        for name, pipeline in (
            ("trees as chosen", adaptive(holdout=_HOLDOUT)),
            ("the finest tree", adaptive(holdout=_HOLDOUT, nodes=_FINEST)),
            ("default release", adaptive()),
            ("default release, the finest tree", adaptive(nodes=_FINEST)),
        ):
            started(pipeline).push(values[: 1 << 20])  # the table of costs is made once
            seconds = best(lambda p=pipeline: partial(started(p).push, values), repeats)
            rate = values.size / seconds / 1e6
            title = f"adaptive e={epsilon:g}, bulk, {name}"
            least = 5 if pipeline.perturber.nodes else 10  # type: ignore[union-attr]
            rows.append(at_least(title, rate, least, "M values/s"))
    # Whole numbers, so that it is the same run in every version: chance decides how many models
    # have weight, and with two of them answers take half as long again.
    finest = tg.adaptive(epsilon=0.1, bound=_BOUND, nodes=_FINEST, holdout=_HOLDOUT, resolution=1)
    looks = _adaptive_look_back(finest, quick)
    return [*rows, *_adaptive_single(quick), *looks, *_adaptive_starts(quick)]


def _adaptive_starts(quick: bool) -> list[Row]:
    """What a key of many would pay: a release of its own, a resume, another threshold."""
    pipeline = tg.adaptive(0.1, _BOUND)
    release = started(pipeline)
    release.push(tg.synthetic.baskets(30_000))
    state = release.snapshot(brief=True)
    repeats = 30 if quick else 100
    start = min(_in_a_row(lambda: pipeline.start(tg.seeded(1))) for _ in range(repeats))
    resume = min(_in_a_row(lambda: pipeline.resume(state)) for _ in range(repeats))
    alone = best(again(lambda: pipeline.resume(state)), repeats)
    trees, ceiling = pipeline.measurer, pipeline.ceiling
    thetas = iter(range(100, 100 + 7 * repeats, 7))  # none was seen before
    theta = best(again(lambda: trees.noise_identity(next(thetas), ceiling)), repeats)
    note = f"after the first of its kind; median of {_ROW} in a row"
    return [
        at_most("adaptive, start of a default release", start * _MILLI, 1, "ms", note),
        at_most("adaptive, resume of a default release", resume * _MILLI, 0.5, "ms", note),
        Row(
            "adaptive, resume of one, caches cold", alone * _MILLI, "ms", note="after a gc.collect"
        ),
        Row("adaptive, caps and scales of another threshold", theta * _MILLI, "ms", note="once"),
    ]


def _in_a_row(job: Callable[[], object]) -> float:
    """The median of several, one after the other: on a busy machine some are interrupted."""
    clock, seconds = time.perf_counter, []
    for _ in range(_ROW):
        begin = clock()
        job()
        seconds.append(clock() - begin)
    return statistics.median(seconds)


def _adaptive_single(quick: bool) -> list[Row]:
    """One value at a time: the mean, and the longest that a block's end took."""
    rows = []
    single = tg.synthetic.baskets(200_000 if quick else 1 << 20).tolist()
    for name, nodes in (("default release", None), ("default release, the finest tree", _FINEST)):
        push = started(tg.adaptive(0.1, _BOUND, nodes=nodes)).push
        begin = time.perf_counter()
        for value in single:
            push(value)
        each = (time.perf_counter() - begin) / len(single) * _MICRO
        rows.append(at_most(f"adaptive, one int at a time, {name}", each, 3, "us", "loop included"))
    for name, nodes in (("trees as chosen", None), ("the finest tree", _FINEST)):
        # With a hold-out, where blocks end is known beforehand.
        release = started(tg.adaptive(0.1, _BOUND, nodes=nodes, holdout=_HOLDOUT))
        ends, at = set(), 0
        for length in release.pipeline.perturber.lengths(0):  # type: ignore[union-attr]
            at += length
            ends.add(at)
        push, clock = release.push, time.perf_counter
        longest, begin = 0.0, clock()
        for position, value in enumerate(single, start=1):
            if position in ends:
                start = clock()
                push(value)
                longest = max(longest, clock() - start)
            else:
                push(value)
        each = (clock() - begin) / len(single) * _MICRO
        rows.append(at_most(f"adaptive, one int at a time, {name}", each, 5, "us", "loop included"))
        note = "the longest of a horizon"
        title = f"adaptive, end of a block, {name}"
        rows.append(at_most(title, longest * _MILLI, 50, "ms", note))
    return rows


def _adaptive_look_back(pipeline: tg.Pipeline, quick: bool) -> list[Row]:
    """Answers over 16 horizons of the finest tree: the first pays for looking back."""
    horizons = 4 if quick else 16
    values = tg.synthetic.baskets(1 << 20)
    release = started(pipeline)
    for _ in range(horizons):
        release.push(values)
    last = release.position
    first = once(lambda: release.query(1000, last - 1000))
    again_ = best(again(lambda: release.query(2000, last - 5000)), 5)
    draws = np.random.default_rng(3).integers(0, last, size=(2, 100_000))
    many = once(lambda: release.queries(draws.min(axis=0), draws.max(axis=0)))
    over = f"over {horizons} horizons of the finest tree"
    return [
        at_most(f"adaptive, first query {over}", first, 1, "s", "looks back over all that is kept"),
        Row("adaptive, the next query", again_ * _MILLI, "ms", note="until more is released"),
        Row("adaptive, 10^5 queries", many, "s"),
    ]
