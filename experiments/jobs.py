"""One cell at work, in a worker process: plain data in, plain numbers out.

Run k of a cell draws its ranges from (seed, k) and its noise from a seed of (seed, k, stream):
methods meet the same ranges, and never the same noise, because Tidegate derives noise from the
settings too.
"""

from __future__ import annotations

import time
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

import tidegate as tg
from experiments import datasets
from experiments.figures import Protocol
from experiments.methods import Budgets, Outcome, parts, release
from experiments.scoring import Ranges, score

Series = dict[str, list[float]]  # metric, or metric@place → one number a run
_SEEDS = 1_000_003  # runs of one base seed; a prime, so that base seeds do not meet
_PLACES = 60  # thresholds at which a score is drawn
_MEASURED_PLACES = 24


def work(job: dict[str, Any]) -> dict[str, Any]:
    """All runs of a cell."""
    start = time.process_time()
    protocol = Protocol(**job["protocol"])
    needed = protocol.holdout + (protocol.horizon if protocol.stream == "next" else 0)
    stream = datasets.stream(job["dataset"], needed, pad=protocol.pad, times=protocol.times)
    series, notes = _KINDS[job["kind"]](job, protocol, stream)
    return {
        "series": series,
        "source": stream.note,
        "label": stream.label,
        "notes": notes,
        "processor seconds": time.process_time() - start,
    }


def _curves(
    job: dict[str, Any], protocol: Protocol, stream: datasets.Stream
) -> tuple[Series, list[str]]:
    budgets = Budgets.of(protocol, job["epsilon"])
    series: Series = {}
    resolutions = set()
    for run in range(protocol.runs):
        outcome = _released(job, protocol, stream, budgets, run)
        ranges = Ranges.drawn(protocol.ranges, outcome.truth.size, (protocol.seed, run))
        scores = score(outcome.released, ranges.sums(outcome.truth), ranges)
        for metric, value in {**scores, "threshold": outcome.threshold}.items():
            series.setdefault(metric, []).append(value)
        resolutions.add(outcome.resolution)
    return series, [f"resolution {one:g}" for one in sorted(resolutions) if one != 1]


def _course(
    job: dict[str, Any], protocol: Protocol, stream: datasets.Stream
) -> tuple[Series, list[str]]:
    """Means over equal intervals; how far from the true ones: as a part of the stream's mean, and
    squared, as a part of the true course's variance.
    """
    series: Series = {}
    for run in range(protocol.runs):
        if job["method"].get("truth"):
            _, truth = parts(stream.values, protocol)
            outcome = Outcome(truth.astype(np.float64), truth, float(truth.max()))
        else:
            outcome = _released(job, protocol, stream, Budgets.of(protocol, job["epsilon"]), run)
        means = _interval_means(outcome.released, protocol.intervals)
        true = _interval_means(outcome.truth, protocol.intervals)
        for place, mean in enumerate(means):
            series.setdefault(f"mean@{place}", []).append(float(mean))
        error = float(np.mean(np.square(means - true)))
        series.setdefault("relative error", []).append(error**0.5 / float(true.mean()))
        series.setdefault("unexplained", []).append(error / float(true.var()))
        series.setdefault("threshold", []).append(outcome.threshold)
    return series, []


def _score(
    job: dict[str, Any], protocol: Protocol, stream: datasets.Stream
) -> tuple[Series, list[str]]:
    """The terms of NM-E's score and the error it stands for, over thresholds, as root mean squares.

    The score counts values; times c·r/(3m) it is in the unit of a range sum.
    """
    held, values = parts(stream.values, protocol)
    epsilon, curve = job["epsilon"], job["method"]["curve"]
    stage = tg.threshold.NoisyMax(
        epsilon=epsilon, bound=stream.bound, holdout=protocol.holdout, horizon=protocol.horizon
    )
    thetas = np.arange(1, stream.bound + 1)
    unit = float(stage.scale) * protocol.horizon / (3 * protocol.holdout)
    noise = unit * stage.penalty() * thetas
    count = unit * (held.size - np.searchsorted(np.sort(held), thetas, side="right"))
    # Σ over values above θ of (value − θ), for all θ at once: counts above, summed from the top.
    above = values.size - np.searchsorted(
        np.sort(values), np.arange(stream.bound + 1), side="right"
    )
    excess = above[::-1].cumsum()[::-1][1:] / values.size
    bias = protocol.horizon / 3 * excess
    variance = (stage.penalty() * unit * thetas) ** 2
    curves = {
        "score": noise + count,
        "noise": noise,
        "count": count,
        "bias": bias,
        "error": np.sqrt(variance + bias**2),
    }
    places = np.unique(np.geomspace(1, stream.bound, _PLACES).round().astype(np.int64))
    if curve == "measured":
        return _measured(job, protocol, stream, places), []
    chosen = int(thetas[np.argmin(curves[curve])])
    series = {f"rmse@{place}": [float(curves[curve][place - 1])] for place in places}
    series["threshold"] = [float(chosen)]
    series["error there"] = [float(curves["error"][chosen - 1])]
    return series, []


def _measured(
    job: dict[str, Any], protocol: Protocol, stream: datasets.Stream, places: NDArray[np.int64]
) -> Series:
    """What ToPS's own tree and smoother give at fixed thresholds."""
    places = places[:: max(1, places.size // _MEASURED_PLACES)]
    budgets = Budgets.of(protocol, job["epsilon"])
    series: Series = {}
    best: dict[int, float] = {}
    for place in places.tolist():
        spec = {
            "threshold": {"kind": "Fixed", "value": place},
            "perturber": {"kind": "Hierarchy"},
            "estimator": {"kind": "Recent"},
        }
        errors = []
        for run in range(protocol.runs):
            outcome = _released({**job, "method": spec}, protocol, stream, budgets, run)
            ranges = Ranges.drawn(protocol.ranges, outcome.truth.size, (protocol.seed, run))
            errors.append(score(outcome.released, ranges.sums(outcome.truth), ranges)["mse"])
        series[f"rmse@{place}"] = [float(np.sqrt(error)) for error in errors]
        best[place] = float(np.median(errors))
    series["threshold"] = [float(min(best, key=best.__getitem__))]
    return series


def _table(
    job: dict[str, Any], _protocol: Protocol, _stream: datasets.Stream
) -> tuple[Series, list[str]]:
    """The columns of the paper's table, of the whole stream."""
    values = datasets.whole(job["dataset"]).values
    found = datasets.statistics(values)
    return {column: [float(getattr(found, column))] for column in vars(found)}, []


def _released(
    job: dict[str, Any],
    protocol: Protocol,
    stream: datasets.Stream,
    budgets: Budgets,
    run: int,
) -> Outcome:
    seed = (protocol.seed * _SEEDS + run) << 32 | crc32(job["dataset"].encode())
    return release(job["method"], stream.values, stream.bound, protocol, budgets, seed)


def _interval_means(values: NDArray[np.number], intervals: int) -> NDArray[np.float64]:
    edges = np.linspace(0, values.size, intervals + 1).astype(np.int64)
    return np.add.reduceat(values, edges[:-1], dtype=np.float64) / np.diff(edges)


_KINDS = {"curves": _curves, "course": _course, "score": _score, "table": _table}
