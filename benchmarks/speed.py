"""How fast: targets are ratios within one run wherever a rival exists, else plain times."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from benchmarks.opendp_tree import tree_rows
from benchmarks.speed_adaptive import adaptive_rows
from benchmarks.table import Row, at_least, at_most, measured
from benchmarks.timing import FIRST_VALUE, again, best, best_in_turns, started
from tidegate.lattice import Lattice
from tidegate.noise import discrete_laplace
from tidegate.threshold import NoisyMax, SmoothQuantile

_BOUND = 1657
_HOLDOUT = 65_536
_MICRO, _MILLI = 1e6, 1e3


def measure(quick: bool) -> list[Row]:
    parts = {
        "bulk push": _bulk,
        "one value at a time": _single,
        "adaptive release": adaptive_rows,
        "exact sampler": _sampler,
        "opendp's tree (the slow one)": tree_rows,
        "range queries": _queries,
        "thresholds": _thresholds,
        "import": _imports,
    }
    return measured(parts, quick)


def _bulk(quick: bool) -> list[Row]:
    count, repeats = 1 << 24, 4 if quick else 9
    pipeline = tg.tops(epsilon=0.1, bound=_BOUND)
    # A whole number: with a float, numpy would turn integers into floats and be a slower rival.
    threshold, block = round(started(pipeline).threshold or 0), pipeline.perturber.block
    integers = np.tile(tg.synthetic.baskets(1 << 20), count >> 20)
    rows = []
    for values, most in ((integers, 3.0), (integers.astype(np.float64), 4.0)):

        def plain(values: NDArray[Any] = values) -> object:
            sums = np.minimum(values, threshold).reshape(-1, block).sum(axis=1)
            return np.repeat(sums / block, block)

        def ours(values: NDArray[Any] = values) -> Callable[[], object]:
            release = started(pipeline)
            return lambda: release.push(values)

        baseline, candidate = best_in_turns([again(plain), ours], repeats)
        note = (
            f"{candidate * _MILLI:.0f} ms ({count / candidate / 1e6:.0f} M values/s), "
            f"numpy {baseline * _MILLI:.0f} ms; hold-out before the clock"
        )
        name = f"push of 2^24 {values.dtype}, tops e=0.1, over minimum + block sums + repeat"
        rows.append(at_most(name, candidate / baseline, most, "x", note))
    return rows


def _single(quick: bool) -> list[Row]:
    # A whole horizon, so that making noise is in the price; blocks of one: two top trees at least.
    count, repeats = (1 << 17, 3) if quick else (1 << 20, 4)
    integers: list[int] = tg.synthetic.baskets(count).tolist()
    floats = [value + 0.25 for value in integers]
    cases = [
        ("tops e=0.1", tg.tops(epsilon=0.1, bound=_BOUND), True),
        ("tops e=1", tg.tops(epsilon=1, bound=_BOUND), False),
        ("tops e=0.1, blocks of one", tg.tops(epsilon=0.1, bound=_BOUND, skipped=0), False),
        ("tops e=0.1, non-negative", tg.tops(epsilon=0.1, bound=_BOUND, non_negative=True), False),
    ]
    rows = []
    for name, pipeline, is_target in cases:
        for kind, values in (("int", integers), ("float", floats)):

            def one_by_one(
                pipeline: tg.Pipeline = pipeline, values: list[Any] = values
            ) -> Callable[[], None]:
                release = started(pipeline)

                def job() -> None:
                    push = release.push
                    for value in values:
                        push(value)

                return job

            each = best(one_by_one, repeats) / count * _MICRO
            title = f"one {kind} at a time, {name}"
            note = f"block {pipeline.perturber.block}; the loop included"
            target = at_most(title, each, 3.0, "us", note)
            rows.append(target if is_target else Row(title, each, "us", note=note))
    return rows


def _sampler(quick: bool) -> list[Row]:
    count, repeats = (1 << 20, 5) if quick else (1 << 22, 7)
    keystream = tg.seeded(2).new_epoch().keystream("benchmark", b"")
    rows = []
    for power in (0, 1, 2, 4, 6, 8):

        def draw(scale: Fraction = Fraction(10**power)) -> Callable[[], object]:
            return partial(discrete_laplace, keystream.at(), count, scale)

        seconds = best(draw, repeats)
        rate = count / seconds / 1e6
        rows.append(at_least(f"exact discrete Laplace, scale 1e{power}", rate, 20.0, "M/s"))
    return rows


def _queries(quick: bool) -> list[Row]:
    values = np.tile(tg.synthetic.baskets(1 << 20), 4 if quick else 16)
    random = np.random.default_rng(3)
    draws = random.integers(0, values.size, size=(2, 1_000_000))
    starts, ends = draws.min(axis=0), draws.max(axis=0) + 1
    cases = [
        ("tops e=0.1", tg.tops(epsilon=0.1, bound=_BOUND)),
        ("blocks of one, consistent", tg.tops(epsilon=0.1, bound=_BOUND, skipped=0)),
        ("H2", tg.pak_with_tops_threshold(epsilon=0.1, bound=_BOUND)),
    ]
    rows = []
    for name, pipeline in cases:
        release = started(pipeline)
        release.push(values)
        many = best(again(partial(release.queries, starts, ends)), 2 if quick else 4)
        note = f"over {values.size >> 20} horizons of 2^20 values"
        rows.append(at_most(f"10^6 range queries with intervals, {name}", many, 2.0, "s", note))
        few = best(again(partial(_hundred_queries, release)), 5)
        rows.append(Row(f"one range query, {name}", few / 100 * _MICRO, "us"))
    return rows


def _hundred_queries(release: tg.Release) -> None:
    for _ in range(100):
        release.query(10_000, 900_000)


def holdouts() -> dict[str, NDArray[np.int64]]:
    """Shapes of hold-out data that stress smooth sensitivity in different ways."""
    random = np.random.default_rng(4)
    return {
        "baskets": tg.synthetic.baskets(_HOLDOUT),
        "all distinct": random.permutation(_HOLDOUT).astype(np.int64) * 8,
        "distinct, heavy tail": np.minimum(
            (random.pareto(1, _HOLDOUT) * 1e3).astype(np.int64), 10**6
        ),
        "distinct, growing gaps": (np.arange(_HOLDOUT, dtype=np.int64) ** 2) >> 12,
        "two values": random.integers(0, 2, _HOLDOUT) * 500_000,
        "all equal": np.full(_HOLDOUT, 7, dtype=np.int64),
        "all at the bound": np.full(_HOLDOUT, 10**6, dtype=np.int64),
    }


def _thresholds(quick: bool) -> list[Row]:
    repeats = 3 if quick else 7
    lattice = Lattice(Fraction(10**6), Fraction(1))
    keystream = tg.seeded(5).new_epoch().keystream("benchmark", b"")
    rows = []
    for name, values in holdouts().items():
        worst, at = 0.0, ""
        for epsilon, percentile in (
            ("0.01", "99.575"),
            ("0.1", "99.575"),
            ("1", "99.575"),
            ("0.01", "50"),
        ):
            stage = SmoothQuantile(
                epsilon=epsilon, delta=Fraction(1, 2**40), bound=10**6, holdout=_HOLDOUT,
                percentile=percentile, failure="0.006",
            )  # fmt: skip
            seconds = best(again(partial(stage.choose, values, lattice, keystream)), repeats)
            if seconds > worst:
                worst, at = seconds, f"slowest at e={epsilon}, percentile {percentile}"
        rows.append(at_most(f"S-PAK, m = 65,536, {name}", worst * _MILLI, 50.0, "ms", at))
    for candidates in (1657, 30_000):
        lattice = Lattice(Fraction(candidates), Fraction(1))
        noisy_max = NoisyMax(epsilon="0.1", bound=candidates)
        values = tg.synthetic.baskets(_HOLDOUT)
        seconds = best(again(partial(noisy_max.choose, values, lattice, keystream)), repeats)
        name = f"NM-E, m = 65,536, {candidates:,} candidates"
        rows.append(Row(name, seconds * _MILLI, "ms", note="exact permute-and-flip"))
    return rows


def _imports(quick: bool) -> list[Row]:
    programs = (*FIRST_VALUE.values(), "import numpy")
    seconds = dict.fromkeys(programs, float("inf"))
    for _ in range(4 if quick else 8):
        for program in programs:
            seconds[program] = min(seconds[program], _program_seconds(program))
    note = f"numpy alone {seconds['import numpy']:.3f} s"
    return [at_most(name, seconds[code], 0.3, "s", note) for name, code in FIRST_VALUE.items()]


def _program_seconds(program: str) -> float:
    code = (
        f"import time; start = time.perf_counter(); {program}; print(time.perf_counter() - start)"
    )
    # With compiled modules, as they are installed.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=kept,
        check=True, capture_output=True, text=True, cwd=Path(__file__).parent.parent,
    )  # fmt: skip
    return float(ran.stdout)
