"""Which method suits a stream: every central method on a sample that is not sensitive, ranked.

The errors are measured against the true values, and nothing of that is private: hence the flag,
and the stamp on everything that comes out.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median, stdev
from time import process_time

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

import tidegate as tg
from experiments.candidates import ALL_ROWS, Build, Question, candidates
from experiments.errors import ExperimentError
from experiments.offline import OFFLINE, optstream
from experiments.offline.fourier import guarantee
from experiments.plots.style import new_figure, save
from experiments.ranking import STAMP, advice, ranking
from experiments.sample import Sample
from experiments.scoring import METRICS, Ranges, score

Publish = Callable[..., NDArray[np.float64]]
_COLUMNS = (
    *("privacy", "sample", "method", "epsilon", "metric", "mean", "std", "median", "runs"),
    *("guarantee", "protects", "million values per second", "state kB"),
)
_SHORT = "short mse"  # of ranges of up to 1 % of the stream


@dataclass(frozen=True)
class Entry:
    """One method's errors over the runs, or why it could not be run."""

    unit: str
    name: str
    mse: list[float]
    scores: list[dict[str, float]]
    threshold: float
    promise: str  # "ε", or what is less than that
    refused: str = ""
    speed: float = math.nan  # million values per second of processor time
    state: float = math.nan  # kilobytes of its state after the last value

    @property
    def typical(self) -> float:
        return median(self.mse) if self.mse else math.inf

    @property
    def short(self) -> float:
        """The typical squared error of a short range."""
        return median(one[_SHORT] for one in self.scores) if self.scores else math.inf


def compare(sample: Sample, question: Question, output: Path, console: Console) -> list[Entry]:
    """Run, rank, show, and write a table and a picture, all stamped.

    For public or made-up samples only: `python -m experiments compare` asks for that to be said.
    """
    values, holdout = _split(sample.values, question)
    horizon = values.size - holdout
    wanted = [
        (unit, name, build)
        for unit in question.units
        for name, build in candidates(unit, question, holdout, horizon).items()
    ]
    entries = [
        measured(
            *(unit.name, name, build, values, holdout, question),
            scored_from=holdout if name == ALL_ROWS else None,
        )
        for unit, name, build in track(wanted, "comparing", console=console)
    ]
    entries += [zeros(unit.name, values[holdout:], question) for unit in question.units]
    event, *windows = question.units
    late: list[tuple[tg.units.Unit, str, Publish]] = [
        *((event, name, publish) for name, publish in OFFLINE.items()),
        *((unit, "OptStream", partial(optstream, window=unit.size)) for unit in windows),
    ]
    entries += [
        _offline(unit.name, name, publish, values[holdout:], question)
        for unit, name, publish in late
    ]
    entries.sort(key=lambda entry: (entry.typical, entry.name))
    tables = _tables(entries)
    for title, ranked in tables.items():
        console.print(ranking(title, [entry for entry in ranked if not entry.refused]))
        for entry in ranked:
            if entry.refused:
                console.print(f"{entry.name} cannot be run here: {entry.refused}")
        if "offline" not in title:
            console.print(advice(ranked) + "\n", markup=False, highlight=False)
    size = f"{holdout:,} values held out, {horizon:,} released"
    stem = f"{size}, {question.runs} runs × {question.ranges} ranges"
    units = "M/s: million values a second; kB: size of the state."
    stamp = f"[bold]{STAMP.capitalize()}[/]: keep this with the data."
    console.print(f"{sample.label}; {stem}. {units} {stamp}")
    for path in _write(entries, tables, sample, question, output):
        console.print(str(path))
    return entries


def _tables(entries: list[Entry]) -> dict[str, list[Entry]]:
    """One for each unit, and one more where a method promises less: δ > 0, or float arithmetic.

    Errors of different units or promises must not be ranked against each other.
    """
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        promise = f"{entry.promise or 'ε'} per {entry.unit}"
        found.setdefault(promise, []).append(entry)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def _split(values: NDArray[np.float64], question: Question) -> tuple[NDArray[np.float64], int]:
    """Hold-out and at most one horizon of 2^20; a short sample holds out an eighth."""
    holdout = question.holdout or min(65_536, values.size // 8)
    if holdout < 1 or values.size - holdout < 256:
        raise ExperimentError(
            f"{values.size:,} values are too few to compare on: {holdout + 256:,} are needed"
        )
    # Larger values count as the bound for every method; so they do in the truth.
    return np.clip(values[: holdout + 2**20], 0, question.bound), holdout


def measured(
    unit: str,
    name: str,
    build: Build,
    values: NDArray[np.float64],
    holdout: int,
    question: Question,
    scored_from: int | None = None,
) -> Entry:
    """One method, run and scored.

    `scored_from`: a method without a hold-out releases all values, and is scored from here on; by
    default it is given the values after the hold-out of the others only.
    """
    try:
        pipeline = build()
    except tg.SettingError as error:
        return Entry(unit, name, [], [], math.nan, "", refused=str(error))
    truth = values[holdout:]
    scores, thresholds, spent, state = [], [], 0.0, 0
    whole = bool(pipeline.threshold.holdout) or scored_from is not None
    taken = values if whole else truth
    for run in range(question.runs):
        release = pipeline.start(tg.seeded(question.seed * 1_000_003 + run))
        before = process_time()
        released = release.push(taken)
        spent += process_time() - before
        state = len(release.snapshot())
        scores.append(_scored(released[-truth.size :], truth, question, run))
        thresholds.append(release.threshold or 0.0)
    mse = [one["mse"] for one in scores]
    if pipeline.guarantee.unit != unit:
        raise AssertionError(f"{name} protects another unit than its table says")
    return Entry(
        *(unit, name, mse, scores, median(thresholds), _short(pipeline.guarantee)),
        speed=question.runs * taken.size / spent / 1e6,
        state=state / 1000,
    )


def _offline(
    unit: str,
    name: str,
    publish: Publish,
    truth: NDArray[np.float64],
    question: Question,
) -> Entry:
    """A rival that sees the stream, or a window, first: in a table of its own. θ is the bound."""
    scores = [
        _scored(
            publish(truth, question.epsilon, question.bound, question.seed * 1_000_003 + run),
            truth,
            question,
            run,
        )
        for run in range(question.runs)
    ]
    promise = f"{_short(guarantee(question.epsilon))}, offline: not for streams"
    return Entry(unit, name, [one["mse"] for one in scores], scores, question.bound, promise)


def zeros(unit: str, truth: NDArray[np.float64], question: Question) -> Entry:
    """What publishing nothing costs: a method that is worse should not be used."""
    nothing = np.zeros_like(truth)
    scores = [_scored(nothing, truth, question, run) for run in range(question.runs)]
    return Entry(unit, "zeros (spends nothing)", [one["mse"] for one in scores], scores, 0.0, "ε")


def _scored(
    released: NDArray[np.float64], truth: NDArray[np.float64], question: Question, run: int
) -> dict[str, float]:
    """Errors over random ranges, and the squared error of ranges of up to 1 % of the stream."""
    ranges = Ranges.drawn(question.ranges, truth.size, (question.seed, run))
    lengths = 1 + (ranges.ends - ranges.starts) * max(1, truth.size // 100) // truth.size
    few = Ranges(ranges.starts, np.minimum(ranges.starts + lengths, truth.size))
    short = score(released, few.sums(truth), few)["mse"]
    return {**score(released, ranges.sums(truth), ranges), _SHORT: short}


def _short(guarantee: tg.Guarantee) -> str:
    kind = "(ε, δ)" if guarantee.delta else "ε"
    return kind if guarantee.arithmetic == "exact" else f"{kind}, {guarantee.arithmetic} arithmetic"


def _write(
    entries: list[Entry],
    tables: dict[str, list[Entry]],
    sample: Sample,
    question: Question,
    output: Path,
) -> list[Path]:
    output.mkdir(parents=True, exist_ok=True)
    path = output / "comparison-not-private.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for entry in entries:
            for metric in (*METRICS, _SHORT) if entry.scores else ():
                column = [one[metric] for one in entry.scores]
                spread = stdev(column) if len(column) > 1 else 0.0
                writer.writerow(
                    [STAMP, sample.label, entry.name, f"{question.epsilon:g}", metric]
                    + [f"{number:.10g}" for number in (fmean(column), spread, median(column))]
                    + [len(column), entry.promise, entry.unit]
                    + [f"{one:.4g}" for one in (entry.speed, entry.state)]
                )
    found = [path]
    for number, (title, ranked) in enumerate(tables.items()):
        stem = output / f"comparison-not-private{f'-{number + 1}' if number else ''}"
        found += _picture(title, ranked, sample, question, stem)
    return found


def _picture(
    title: str, entries: list[Entry], sample: Sample, question: Question, stem: Path
) -> list[Path]:
    shown = [entry for entry in entries if entry.mse]
    if not shown:
        return []
    picture = new_figure(7.5, 0.28 * len(shown) + 1.2)
    axes = picture.subplots()
    for place, entry in enumerate(shown):
        axes.plot(entry.mse, [place] * len(entry.mse), "o", color="#56B4E9", markersize=3)
        axes.plot(entry.typical, place, "D", color="#0072B2", markersize=6)
    axes.set_yticks(range(len(shown)), [entry.name for entry in shown])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("mean squared error of a range sum (diamond: median over runs)")
    axes.set_title(f"{sample.label}, {title}, ε = {question.epsilon:g}")
    axes.text(
        0.5, 0.5, STAMP.upper(), transform=axes.transAxes, fontsize=34, color="#D55E00", alpha=0.18,
        ha="center", va="center", rotation=18,
    )  # fmt: skip
    return save(picture, stem)
