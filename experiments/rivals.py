"""The best rival against `adaptive`, stream by stream: one table and one picture for each promise.

A promise is a unit of privacy and a kind of guarantee. Methods of different promises are never
ranked against each other.

    event         pure ε for one event
    window        pure ε for any w consecutive values; event methods by group privacy
    concentrated  (ε, δ) for one event, by ρ-zCDP
"""

from __future__ import annotations

import csv
import math
import tomllib
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

import tidegate as tg
from experiments.candidates import ALL_ROWS, Build, Question, candidates
from experiments.compare import Entry, measured, zeros
from experiments.datasets import folder
from experiments.errors import ExperimentError
from experiments.plots.rival_lines import draw
from experiments.ranking import LEVEL
from experiments.sample import load

PROMISES = ("event", "window", "concentrated")
OURS = "adaptive"
WINDOW = 60
_LIST = Path(__file__).with_name("rivals.toml")
# Without --all: the strongest of each kind, as the full comparison has found them.
_QUICK = {
    "event": (
        *("ToPS, Recent", "ToPS, Mean", "ToPS, θ by tail quantile"),
        *("signed-digit-tree", "honaker, full", "pegasus, medians"),
    ),
    "window": (
        *(
            "tops, by group privacy",
            "pegasus, medians, by group privacy",
            "budget-absorption, θ by hold-out",
        ),
        *("budget-distribution, θ by hold-out", "rescue-dp, θ by hold-out"),
        "sampling, θ by hold-out",
    ),
    "concentrated": ("square-root", "banded-root", "smooth-binary"),
}


@dataclass(frozen=True)
class Course:
    """A stream, or a part of one."""

    name: str
    values: NDArray[np.float64]
    bound: float
    fresh: bool  # no constant was chosen on these values, and no table reported on them


@dataclass(frozen=True)
class Cell:
    """All methods on one stream at one ε."""

    course: Course
    epsilon: float
    entries: list[Entry]

    def of(self, name: str) -> Entry | None:
        return next((one for one in self.entries if one.name == name and one.mse), None)

    def least(self, ours: Sequence[str], short: bool) -> float:
        """The error of the better form of ours, picked with hindsight as rivals are."""
        found = [entry for name in ours if (entry := self.of(name)) is not None]
        return min(entry.short if short else entry.typical for entry in found)

    def best(self, ours: Sequence[str], short: bool) -> Entry:
        """The rival with the least error, in long or in short ranges."""
        rivals = [one for one in self.entries if one.mse and one.name not in ours]
        return min(rivals, key=lambda entry: entry.short if short else entry.typical)


def courses(count: int, part: str, only: Sequence[str] = ()) -> list[Course]:
    """The first or last values of every stream at hand; made-up ones where there is none."""
    known = tomllib.loads(_LIST.read_text(encoding="utf-8"))
    unknown = [name for name in only if name not in known]
    if unknown:
        raise ExperimentError(f"there is no stream {unknown[0]!r}: choose from {', '.join(known)}")
    found = []
    for name, facts in known.items():
        path = folder() / f"{facts.get('file', name)}.parquet"
        if path.is_file() and (not only or name in only):
            values = load(str(path), facts.get("column", "value")).values * facts.get("times", 1)
            taken = np.rint(values[-count:] if part == "last" else values[:count])
            fresh = facts["fresh"] and part == "last"
            found.append(Course(name, taken, facts["bound"], fresh))
    if found or only:
        return found
    return [
        Course("baskets (synthetic)", tg.synthetic.baskets(count).astype(np.float64), 1657, True),
        Course("traffic (synthetic)", tg.synthetic.traffic(count).astype(np.float64), 2000, True),
    ]


def _builds(
    promise: str, question: Question, holdout: int, horizon: int, everything: bool
) -> dict[str, Build]:
    """Ours first: with a hold-out, and in its default form, which releases all rows."""
    epsilon, bound = question.epsilon, question.bound
    spec: dict[str, Any] = {"horizon": horizon, "resolution": question.resolution}
    if promise == "concentrated":
        methods = [one for one in tg.methods.registered() if one.promise.startswith("ρ")]
        names = {
            one.name: partial(one.preset, epsilon, bound, holdout=holdout, **spec)
            for one in methods
        }
        return {name: names[name] for name in sorted(names) if everything or name in (
            *_QUICK[promise], "adaptive-gaussian")}  # fmt: skip
    unit = tg.units.Window(length=WINDOW) if promise == "window" else tg.units.Event()
    found = candidates(unit, question, holdout, horizon)
    grouped = {"adaptive, by group privacy": OURS}  # the same method in the table of windows
    wanted = {grouped.get(name, name): build for name, build in found.items()}
    chosen = {
        name: build
        for name, build in wanted.items()
        if (everything or name in _QUICK[promise] or name in (OURS, ALL_ROWS)) and _is_pure(build)
    }
    return {OURS: chosen.pop(OURS), ALL_ROWS: chosen.pop(ALL_ROWS), **chosen}


def _is_pure(build: Build) -> bool:
    """Whether it promises pure ε in exact arithmetic, or refuses, which its entry says then."""
    try:
        guarantee = build().guarantee
        return not guarantee.delta and guarantee.arithmetic == "exact"
    except tg.SettingError:
        return True


def ours(promise: str) -> tuple[str, ...]:
    """What is not a rival."""
    own = "adaptive-gaussian" if promise == "concentrated" else OURS
    return own, f"{own}, all rows"


def run(
    promise: str,
    streams: Sequence[Course],
    epsilons: Sequence[float],
    console: Console,
    *,
    runs: int = 1,
    ranges: int = 600,
    everything: bool = False,
    seed: int = 1,
) -> list[Cell]:
    """Every method on every stream at every ε."""
    pairs = [(course, epsilon) for course in streams for epsilon in epsilons]
    return [
        cell_of(
            *(promise, course, epsilon),
            runs=runs, ranges=ranges, everything=everything, seed=seed,
        )
        for course, epsilon in track(pairs, f"rivals, {promise}", console=console)
    ]  # fmt: skip


def cell_of(
    promise: str,
    course: Course,
    epsilon: float,
    *,
    runs: int,
    ranges: int,
    everything: bool,
    seed: int,
    only: Container[str] | None = None,
) -> Cell:
    """Every method, or `only` these, on one stream at one ε; and zeros."""
    unit = f"window of {WINDOW} consecutive values" if promise == "window" else "event"
    question = Question(
        *(epsilon, course.bound), runs=runs, ranges=ranges, seed=seed,
        window=WINDOW if promise == "window" else None,
    )  # fmt: skip
    values = np.clip(course.values, 0, course.bound)
    holdout = values.size // 8
    builds = _builds(promise, question, holdout, values.size - holdout, everything)
    entries = [
        measured(unit, name, build, values, holdout, question, scored_from=holdout)
        for name, build in builds.items()
        if only is None or name in only
    ]
    return Cell(course, epsilon, [*entries, zeros(unit, values[holdout:], question)])


def table(promise: str, cells: Sequence[Cell]) -> str:
    """In Markdown: rivals over the better form of ours; bold where they have 5 % less error."""
    own, default = ours(promise)
    head = [
        *("stream", "ε", f"`{own}`: error of a sum", "all rows", "best rival"),
        *("best on short ranges", "values not used before"),
    ]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for cell in cells:
        mine, whole = cell.of(own), cell.of(default)
        if mine is None:
            continue
        long, short = cell.best((own, default), False), cell.best((own, default), True)
        row = [
            cell.course.name,
            f"{cell.epsilon:g}",
            f"{math.sqrt(mine.typical):,.0f}",
            "" if whole is None else _ratio(whole.typical / mine.typical),
            f"{long.name} {_ratio(long.typical / cell.least((own, default), False))}",
            f"{short.name} {_ratio(short.short / cell.least((own, default), True))}",
            "yes" if cell.course.fresh else "no",
        ]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def _ratio(ratio: float) -> str:
    text = f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"
    return f"**{text}**" if ratio < LEVEL else text


def lost(promise: str, cells: Sequence[Cell]) -> str:
    """In Markdown: where a rival has 5 % less squared error, so that it is the one to use."""
    lines = ["| stream | ε | ranges | use | squared error over that of ours |", "|---" * 5 + "|"]
    for cell in cells:
        if cell.of(ours(promise)[0]) is None:
            continue
        for short in (False, True):
            best = cell.best(ours(promise), short)
            error = best.short if short else best.typical
            ratio = error / cell.least(ours(promise), short)
            if ratio < LEVEL:
                row = (cell.course.name, f"{cell.epsilon:g}", "short" if short else "long")
                lines.append(f"| {' | '.join(row)} | {best.name} | {ratio:.2f} |")
    return "\n".join(lines) if len(lines) > 2 else "No rival has 5 % less squared error anywhere."


def write(promise: str, cells: Sequence[Cell], output: Path) -> list[Path]:
    """The table, every number, and the picture."""
    output.mkdir(parents=True, exist_ok=True)
    text, numbers = output / f"rivals-{promise}.md", output / f"rivals-{promise}.csv"
    text.write_text(f"{table(promise, cells)}\n\n{lost(promise, cells)}\n", encoding="utf-8")
    with numbers.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            (
                *("stream", "epsilon", "method", "median mse", "short mse", "threshold"),
                *("million values per second", "state kB", "fresh", "refused"),
            )
        )
        writer.writerows(_rows(cells))
    return [text, numbers, *draw(promise, cells, output / f"rivals-{promise}")]


def _rows(cells: Sequence[Cell]) -> Iterator[list[object]]:
    for cell in cells:
        for entry in cell.entries:
            yield [
                *(cell.course.name, f"{cell.epsilon:g}", entry.name),
                *(f"{one:.6g}" for one in (entry.typical, entry.short, entry.threshold)),
                *(f"{one:.4g}" for one in (entry.speed, entry.state)),
                *(cell.course.fresh, entry.refused),
            ]
