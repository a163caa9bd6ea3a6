"""Do 95 % intervals hold the true sum, on streams that no constant was chosen on?

`make bench-coverage`: the adaptive release, told only ε, the bound and the horizon n, on slices
of real streams (TIDEGATE_DATA) and on made-up ones. A cell is a stream, n, ε, a class of ranges
(short, middle, long) and when they are asked: at once (the range ends at the newest position) or
later, when all values were released. For each cell: how often the interval holds the true sum, and
the sum of values capped as they were; and the median half-width over the smallest honest one, the
95 % quantile of the absolute error of these very estimates.

Constants of the intervals were chosen on `choose`, `signed` and `heavy`; `report` is only reported
on. `unseen` was run for the first time after everything else was final, `fresh` after decision
0080, `signed_fresh` and `heavy_fresh` after decision 0091, `bounds_last` after 0094.
"""

from __future__ import annotations

import argparse
import json
import os
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from benchmarks.accuracy_adaptive import bounds
from benchmarks.coverage_streams import (
    BOUNDS_FRESH,
    BOUNDS_LAST,
    CHOOSE,
    FRESH,
    HEAVY,
    HEAVY_FRESH,
    MADE,
    SIGNED,
    SIGNED_FRESH,
    TABLES,
    UNSEEN,
    of_table,
)
from benchmarks.kinds import KINDS, Values
from benchmarks.short_streams import HARD
from benchmarks.timing import progress
from tidegate.record.record import Record

LENGTHS = (1024, 4096, 16_384, 65_536)
EPSILONS = (0.1, 0.3, 1.0, 3.0)
# Lengths of ranges as parts of n, drawn so that their logarithms are uniform.
CLASSES = {"short": (1 / 1024, 1 / 64), "middle": (1 / 64, 1 / 8), "long": (1 / 8, 1.0)}
ASKED = ("at once", "later")
MOMENTS, LATER = 6, 40  # how many moments are asked at, and ranges of a class that are asked later
PARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "choose": (
        ("pos_length", "twitter_per_sec", "bikeshare_duration_s", "smart_meter_wh"),
        (
            "lognormal 1", "Pareto 2, huge bound", "Poisson 30", "level up tenfold", "bursts",
            "thousandfold ramp", "silence first", "swings", *CHOOSE,
        ),
    ),
    "report": (
        (
            "kosarak_100k", "taxi_green_hail_fare_cents", "dns_google_per_sec", "retail_length",
            "web1_length", "taxi_green_hail_dist_cmi",
        ),
        (
            "geometric", "normal 100 ± 10", "uniform to the bound", "rare event", "lognormal 2",
            "Pareto 2.5", "tiny values", "two scales, 1 %", "short cycle", "steep ramp",
            "calm hold-out", "level down tenfold", "growing tail", "late tail",
            "thousandfold step", "night first", "Pareto 1.2", "two scales, half", "small counts",
            "daily cycle, Poisson", "level up twofold", "walk", "short bursts",
        ),
    ),
    "unseen": (tuple(TABLES), tuple(UNSEEN)),
    "fresh": ((), tuple(FRESH)),
    "signed": ((), ("temperatures", "refunds", "drift through 0", *SIGNED)),
    "heavy": ((), tuple(HEAVY)),
    "signed_fresh": ((), tuple(SIGNED_FRESH)),
    "heavy_fresh": ((), tuple(HEAVY_FRESH)),
    "bounds_fresh": ((), tuple(BOUNDS_FRESH)),
    "bounds_last": ((), tuple(BOUNDS_LAST)),
}  # fmt: skip
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Cell(NamedTuple):
    """What was asked: a stream, n, ε, a class of ranges, and when."""

    stream: str
    length: int
    epsilon: float
    kind: str
    asked: str


class Asked(NamedTuple):
    """Ranges, the true sums, those of capped values, and the answers."""

    lengths: Ints
    truth: Floats
    capped: Floats
    estimate: Floats
    low: Floats
    high: Floats
    blind: NDArray[np.bool_]


@lru_cache(maxsize=16)
def _column(name: str) -> Values:
    import pyarrow.parquet

    path = Path(os.environ["TIDEGATE_DATA"]) / f"{name}.parquet"
    column = pyarrow.parquet.read_table(path).column("value").to_numpy().astype(np.int64)
    return np.minimum(column, bounds()[name])


def piece(name: str, count: int, seed: int) -> tuple[Values, int, int]:
    """A slice at another place for every seed, and its bounds.

    Shorter streams are extended by mirrored copies.
    """
    stream = MADE.get(name)
    if stream is not None:
        return stream.values(name, count, seed), stream.bound, stream.lower
    made = HARD.get(name) or KINDS.get(name)
    if made is not None:
        return *made(count), 0
    column, bound, lower = of_table(name) if name in TABLES else (_column(name), bounds()[name], 0)
    copies = -(-count // column.size)
    column = np.concatenate([column if copy % 2 == 0 else column[::-1] for copy in range(copies)])
    random = np.random.default_rng([zlib.crc32(name.encode()), count, seed])
    first = int(random.integers(0, column.size - count + 1))
    return column[first : first + count], bound, lower


def released(name: str, count: int, epsilon: float, seed: int, holdout: int | None) -> Record:
    """What one run released."""
    values, bound, lower = piece(name, count + (holdout or 0), seed)
    pipeline = tg.adaptive(epsilon, bound, horizon=count, holdout=holdout, lower=lower)
    release = pipeline.start(tg.seeded(seed))
    release.push(values)
    return release.record


def capped(record: Record, values: Values) -> Floats:
    """The values as they were counted: each at most the cap of its block."""
    found = values.astype(np.float64)
    for segment in record.segments:
        for block in segment.blocks:
            inside = slice(block.start, min(block.start + block.layout.length, segment.end))
            cap = (block.layout.cap - segment.below) * segment.method.step
            found[inside] = np.clip(found[inside], segment.floor, cap)
    return found


def drawn(random: np.random.Generator, count: int, kind: str, size: int) -> Ints:
    """Lengths of ranges of one class."""
    low, high = CLASSES[kind]
    logs = random.uniform(np.log(max(1.0, low * count)), np.log(high * count), size=size)
    return np.maximum(1, np.exp(logs)).astype(np.int64)


def answered(
    record: Record, values: Values, seed: int, confidence: float = 0.95
) -> Iterator[tuple[str, str, Asked]]:
    """Ranges of every class, asked later and at once."""
    count = values.size
    random = np.random.default_rng([seed, count])
    truth = np.concatenate(([0.0], np.cumsum(values)))
    cut = np.concatenate(([0.0], np.cumsum(capped(record, values))))

    def ask(starts: Ints, ends: Ints, as_of: int | None) -> Asked:
        found = record.answers(starts, ends, confidence, as_of)
        sums = (truth[ends] - truth[starts], cut[ends] - cut[starts])
        return Asked(ends - starts, *sums, found.estimate, found.low, found.high, found.blind)

    later = {kind: drawn(random, count, kind, LATER) for kind in CLASSES}
    lengths = np.concatenate(list(later.values()))
    starts = random.integers(0, count - lengths + 1)
    found = ask(starts, starts + lengths, None)
    for number, kind in enumerate(CLASSES):
        one = slice(number * LATER, (number + 1) * LATER)
        yield kind, "later", Asked(*(part[one] for part in found))
    # Before the first warm-up ends nothing can be asked.
    first = record.segments[0].blocks[0]
    soonest = max(first.start + first.layout.length, count // 16)
    each = 4
    for moment in random.integers(soonest, count + 1, size=MOMENTS).tolist():
        sizes = np.concatenate([drawn(random, count, kind, each) for kind in CLASSES])
        sizes = np.minimum(sizes, moment)
        found = ask(moment - sizes, np.full(sizes.size, moment), moment)
        for number, kind in enumerate(CLASSES):
            one = slice(number * each, (number + 1) * each)
            yield kind, "at once", Asked(*(part[one] for part in found))


def measured(
    name: str, count: int, epsilon: float, runs: int, holdout: int | None
) -> dict[Cell, Asked]:
    """All cells of a stream at one n and ε."""
    parts: dict[Cell, list[Asked]] = {}
    for seed in range(runs):
        record = released(name, count, epsilon, seed, holdout)
        values = piece(name, count + (holdout or 0), seed)[0][holdout or 0 :]
        for kind, asked, found in answered(record, values, seed):
            parts.setdefault(Cell(name, count, epsilon, kind, asked), []).append(found)
    return {
        cell: Asked(*(np.concatenate(column) for column in zip(*found, strict=True)))
        for cell, found in parts.items()
    }


def judged(found: Asked) -> dict[str, float]:
    """Coverage of the true and of the capped sum, and half-widths over the smallest honest one.

    All answers count, those too whose upper end is only a limit (`blind`).
    """
    honest = float(np.quantile(np.abs(found.estimate - found.truth), 0.95))
    half = float(np.median(found.high - found.low)) / 2
    shares = {
        name: float(((found.low <= sums) & (sums <= found.high)).mean())
        for name, sums in (("true", found.truth), ("capped", found.capped))
    }
    return {**shares, "width": half / max(honest, 1e-9), "blind": float(found.blind.mean())}


def table(cells: dict[Cell, dict[str, float]]) -> str:
    """By n, ε, class of ranges and time of asking; then the worst streams."""
    lines = [f"{'n':>9s} {'ε':>5s}   " + "   ".join(f"{k} {a}" for a in ASKED for k in CLASSES)]
    sizes = sorted({(cell.length, cell.epsilon) for cell in cells})
    for length, epsilon in sizes:
        shown = []
        for asked in ASKED:
            for kind in CLASSES:
                here = [
                    found
                    for cell, found in cells.items()
                    if cell[1:] == (length, epsilon, kind, asked)
                ]
                shown.append(_line(here))
        lines.append(f"{length:9,d} {epsilon:5g}   " + " | ".join(shown))
    for asked in ASKED:
        for kind in CLASSES:
            here = [found for cell, found in cells.items() if cell[3:] == (kind, asked)]
            streams: dict[str, list[float]] = {}
            for cell, found in cells.items():
                if cell[3:] == (kind, asked):
                    streams.setdefault(cell.stream, []).append(found["true"])
            means = {name: float(np.mean(shares)) for name, shares in streams.items()}
            worst = sorted(means, key=means.__getitem__)[:4]
            names = ", ".join(f"{name} {means[name]:.2f}" for name in worst)
            lines.append(f"{kind:>6s} {asked:8s} {_line(here)}   worst streams: {names}")
    lines.append(f"all {_line(list(cells.values()))}")
    return "\n".join(lines)


def _line(found: list[dict[str, float]]) -> str:
    """Coverage of the true sum and of the capped one, the median of the widths, share of blind."""
    if not found:
        return "nothing"
    true, cut = (float(np.mean([one[name] for one in found])) for name in ("true", "capped"))
    blind = float(np.mean([one["blind"] for one in found]))
    return f"{true:.3f} {cut:.3f} {np.median([one['width'] for one in found]):4.2f} {blind:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=list(PARTS), default="report")
    parser.add_argument("--only", nargs="*", help="names of streams")
    parser.add_argument("--lengths", type=int, nargs="*", default=list(LENGTHS))
    parser.add_argument("--epsilons", type=float, nargs="*", default=list(EPSILONS))
    parser.add_argument("--holdout", type=int, help="the paper's form: values held out")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    real, made = PARTS[options.part]
    names = options.only or [*(real if os.environ.get("TIDEGATE_DATA") else ()), *made]
    cells: dict[Cell, dict[str, float]] = {}
    for name in names:
        for length in options.lengths:
            for epsilon in options.epsilons:
                found = measured(name, length, epsilon, options.runs, options.holdout)
                cells |= {cell: judged(asked) for cell, asked in found.items()}
        progress(name)
    print("coverage of the true sum, of the capped sum; half-width over the smallest honest one;")
    print("share of answers whose upper end is only a limit: too few values chose the cap")
    print(table(cells))
    if options.json:
        rows: list[dict[str, Any]] = [{**cell._asdict(), **one} for cell, one in cells.items()]
        options.json.write_text(json.dumps(rows, indent=0, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
