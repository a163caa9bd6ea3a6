"""Which method suits a stream: every central method on a sample that is not sensitive, ranked.

The errors are measured against the true values, and nothing of that is private: hence the flag,
and the stamp on everything that comes out.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

import tidegate as tg
from experiments.claims.words import short
from experiments.errors import ExperimentError
from experiments.plots.style import new_figure, save
from experiments.sample import Sample
from experiments.scoring import METRICS, Ranges, score

STAMP = "not private"


@dataclass(frozen=True)
class Question:
    """What is compared: budgets, bound and protocol."""

    epsilon: float
    bound: float
    resolution: float = 1.0
    holdout: int | None = None
    runs: int = 12
    ranges: int = 200
    seed: int = 1


@dataclass(frozen=True)
class Entry:
    """One method's errors over the runs, or why it could not be run."""

    name: str
    mse: list[float]
    scores: list[dict[str, float]]
    threshold: float
    guarantee: str
    refused: str = ""

    @property
    def typical(self) -> float:
        return median(self.mse) if self.mse else math.inf


def compare(sample: Sample, question: Question, output: Path, console: Console) -> list[Entry]:
    """Run, rank, show, and write a table and a picture, all stamped.

    For public or made-up samples only: `python -m experiments compare` asks for that to be said.
    """
    values, holdout = _split(sample.values, question)
    horizon = values.size - holdout
    entries = [
        _measured(name, build, values, holdout, question)
        for name, build in track(
            list(methods(question, holdout, horizon).items()), "comparing", console=console
        )
    ]
    entries.sort(key=lambda entry: entry.typical)
    console.print(_table(entries))
    size = f"{holdout:,} values held out, {horizon:,} released"
    stem = f"{size}, {question.runs} runs × {question.ranges} ranges"
    console.print(
        f"{sample.label}; {stem}. [bold]{STAMP.capitalize()}[/]: keep this with the data."
    )
    for path in _write(entries, sample, question, output):
        console.print(str(path))
    return entries


# Methods that `methods` lists in forms of its own. (Those that protect windows are no rivals.)
_NAMED = ("adaptive", "flat", "pak", "pak-with-tops-stream", "pak-with-tops-threshold", "tops")


def methods(question: Question, holdout: int, horizon: int) -> dict[str, Callable[[], tg.Pipeline]]:
    """All central methods; ToPS with every smoother, with all levels, and without a tree.

    Functions, because a method may refuse the settings of others.
    """
    epsilon, bound, resolution = question.epsilon, question.bound, question.resolution
    spec: dict[str, Any] = {"horizon": horizon, "holdout": holdout, "resolution": resolution}
    kinds = [kind for kind in tg.estimate.__all__ if getattr(tg.estimate, kind).adds_up]

    def tops(estimator: Callable[[], Any], skipped: int | None = None) -> tg.Pipeline:
        return tg.tops(epsilon, bound, estimator=estimator(), skipped=skipped, **spec)

    def other_threshold(threshold: Any) -> tg.Pipeline:
        return replace(tops(tg.estimate.Recent), threshold=threshold)

    def no_tree() -> tg.Pipeline:
        flat = tg.perturb.Flat(epsilon=epsilon, horizon=horizon)
        return replace(tops(tg.estimate.Unsmoothed), perturber=flat)

    chosen: dict[str, Any] = {"epsilon": epsilon, "bound": bound, "holdout": holdout}
    scale_free = partial(tg.threshold.ScaleFree, **chosen)
    tail_quantile = partial(tg.threshold.TailQuantile, **chosen, horizon=horizon)
    others = {
        method.name: partial(method.preset, epsilon, bound, **spec)
        for method in tg.methods.registered()
        if method.name not in _NAMED and (method.model, method.unit) == ("central", "event")
    }
    return {
        **others,
        "adaptive": partial(tg.adaptive, epsilon, bound, **spec),
        **{f"ToPS, {kind}": partial(tops, getattr(tg.estimate, kind)) for kind in kinds},
        "ToPS, no level skipped": partial(tops, tg.estimate.Unsmoothed, skipped=0),
        "ToPS, no tree": no_tree,
        "ToPS, scale-free θ": lambda: other_threshold(scale_free()),
        "ToPS, θ by tail quantile": lambda: other_threshold(tail_quantile()),
        "ToPS, θ = bound": lambda: other_threshold(tg.threshold.Fixed(bound)),
        "NM-E + H2": partial(tg.pak_with_tops_threshold, epsilon, bound, **spec),
        "S-PAK + Ĥ16c, θ ≤ bound": partial(tg.pak_with_tops_stream, epsilon, bound, **spec),
        "PAK, θ ≤ bound": partial(tg.pak, epsilon, bound, **spec),
        "PAK as published": partial(tg.pak, epsilon, bound, clip=False, **spec),
    }


def _split(values: NDArray[np.float64], question: Question) -> tuple[NDArray[np.float64], int]:
    """Hold-out and at most one horizon of 2^20; a short sample holds out an eighth."""
    holdout = question.holdout or min(65_536, values.size // 8)
    if holdout < 1 or values.size - holdout < 256:
        raise ExperimentError(
            f"{values.size:,} values are too few to compare on: {holdout + 256:,} are needed"
        )
    # Larger values count as the bound for every method; so they do in the truth.
    return np.clip(values[: holdout + 2**20], 0, question.bound), holdout


def _measured(
    name: str,
    build: Callable[[], tg.Pipeline],
    values: NDArray[np.float64],
    holdout: int,
    question: Question,
) -> Entry:
    try:
        pipeline = build()
    except tg.SettingError as error:
        return Entry(name, [], [], math.nan, "", refused=str(error))
    truth = values[holdout:]
    scores, thresholds = [], []
    for run in range(question.runs):
        release = pipeline.start(tg.seeded(question.seed * 1_000_003 + run))
        released = release.push(values if pipeline.threshold.holdout else truth)
        ranges = Ranges.drawn(question.ranges, truth.size, (question.seed, run))
        scores.append(score(released, ranges.sums(truth), ranges))
        thresholds.append(release.threshold or 0.0)
    mse = [one["mse"] for one in scores]
    return Entry(name, mse, scores, median(thresholds), _short(pipeline.guarantee))


def _short(guarantee: tg.Guarantee) -> str:
    return f"{'(ε, δ)' if guarantee.delta else 'ε'}, {guarantee.arithmetic}"


def _table(entries: list[Entry]) -> Table:
    table = Table(title=f"Methods by median MSE ({STAMP})", box=None, padding=(0, 2, 0, 0))
    for column in (
        "rank",
        "method",
        "typical error of a sum",
        "against the best",
        "θ",
        "guarantee",
    ):
        table.add_column(column, overflow="fold")
    best = entries[0].typical
    for rank, entry in enumerate(entries, start=1):
        if entry.refused:
            table.add_row("–", entry.name, "cannot be run here", "", "", entry.refused)
            continue
        error = (
            f"{math.sqrt(entry.typical):,.0f}"
            if entry.typical >= 100
            else f"{math.sqrt(entry.typical):.3g}"
        )
        ratio = f"{short(entry.typical / best)} × MSE" if best else ""
        table.add_row(
            str(rank), entry.name, error, ratio, f"{entry.threshold:,.5g}", entry.guarantee
        )
    return table


def _write(entries: list[Entry], sample: Sample, question: Question, output: Path) -> list[Path]:
    output.mkdir(parents=True, exist_ok=True)
    path = output / "comparison-not-private.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["privacy", "sample", "method", "epsilon", "metric", "mean", "std", "median", "runs"]
        )
        for entry in entries:
            for metric in METRICS if entry.scores else ():
                column = [one[metric] for one in entry.scores]
                spread = stdev(column) if len(column) > 1 else 0.0
                writer.writerow(
                    [STAMP, sample.label, entry.name, f"{question.epsilon:g}", metric]
                    + [f"{number:.10g}" for number in (fmean(column), spread, median(column))]
                    + [len(column)]
                )
    return [path, *_picture(entries, sample, question, output / "comparison-not-private")]


def _picture(entries: list[Entry], sample: Sample, question: Question, stem: Path) -> list[Path]:
    shown = [entry for entry in entries if entry.mse]
    picture = new_figure(7.5, 0.28 * len(shown) + 1.2)
    axes = picture.subplots()
    for place, entry in enumerate(shown):
        axes.plot(entry.mse, [place] * len(entry.mse), "o", color="#56B4E9", markersize=3)
        axes.plot(entry.typical, place, "D", color="#0072B2", markersize=6)
    axes.set_yticks(range(len(shown)), [entry.name for entry in shown])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("mean squared error of a range sum (diamond: median over runs)")
    axes.set_title(f"{sample.label}, ε = {question.epsilon:g}")
    axes.text(
        0.5, 0.5, STAMP.upper(), transform=axes.transAxes, fontsize=34, color="#D55E00", alpha=0.18,
        ha="center", va="center", rotation=18,
    )  # fmt: skip
    return save(picture, stem)
