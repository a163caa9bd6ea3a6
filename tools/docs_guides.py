"""Draws pictures of the guides, each named after its guide: `python tools/docs_guides.py`.

Or some: `python tools/docs_guides.py docs/images svg guide-keys`; `png` instead of `svg` to look.

Made-up data and seeded noise: a second run gives the same files. Each picture comes in two colour
schemes, for light and for dark pages.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import docs_diagrams
import docs_outputs
import numpy as np
from docs_tutorial import DAY, HOUR, ORANGE, THEMES, Floats, use_theme
from matplotlib.figure import Figure

import tidegate as tg
from tidegate.ledger import Ledger

_DAYS = 28
Colours = dict[str, str]


def log_of_events() -> tuple[Any, Floats]:
    """Times of events over four weeks, by day and by week; and how many each hour has."""
    random, hours = np.random.default_rng(3), np.arange(24 * _DAYS)
    rate = 40 * (1.1 + np.sin(2 * np.pi * (hours - 9) / 24)) * np.where(hours // 24 % 7 < 5, 1, 0.5)
    counts = random.poisson(rate)
    seconds = np.repeat(hours, counts) * 3600 + random.integers(0, 3600, int(counts.sum()))
    start = np.datetime64("2024-01-01T00:00:00")
    return start + seconds.astype("timedelta64[s]"), counts.astype(np.float64)


def events(colours: Colours) -> Figure:
    """Events of two weeks by the hour, and the number of each day with its interval."""
    times, counts = log_of_events()
    pipeline = tg.events(epsilon=0.5, every="1h", start="2024-01-01", horizon=24 * _DAYS)
    release = pipeline.start(tg.seeded(2))
    release.push(times)
    rows = release.advance("2024-01-29")
    figure = Figure(figsize=(10, 4.8), layout="constrained")
    upper, lower = figure.subplots(2, 1)
    at, shown = np.arange(24 * 14) / 24, slice(24 * 14, 24 * 28)
    upper.plot(at, counts[shown], color=colours["soft"], lw=1.0, label="events of an hour (secret)")
    upper.plot(at, rows.levels[shown], color=colours["blue"], lw=1.8, label="level (released)")
    upper.set(xlim=(0, 14), ylabel="an hour", xlabel="day of the third and fourth week")
    days = release.table("1d").answers
    truth, which = counts.reshape(-1, 24).sum(axis=1), np.arange(1, _DAYS + 1)
    errors = np.stack((days.estimate - days.low, days.high - days.estimate))
    lower.bar(which, days.estimate, 0.7, color=colours["blue"], alpha=0.45, label="released")
    lower.errorbar(
        which, days.estimate, errors, fmt="none", color=ORANGE, capsize=3, label="95% interval"
    )
    lower.plot(which, truth, "_", ms=11, mew=2, color=colours["ink"], label="truth (secret)")
    lower.set(xlim=(0.3, _DAYS + 0.7), xlabel="January", ylabel="events of a day")
    figure.legend(loc="outside lower center", ncols=5, fontsize=9)
    inside = int(((days.low <= truth) & (truth <= days.high)).sum())
    print(f"events: {inside} of {_DAYS} days lie in their intervals")
    return figure


def keys(colours: Colours) -> Figure:
    """Ten weeks of three zones, one release: sums of weeks with their intervals."""
    random, zones = np.random.default_rng(5), ("north", "south", "west")
    week, weeks = 24 * 7, 10
    names = np.tile(zones, week * weeks)
    values = random.gamma(2, np.tile([7.0, 4.5, 2.0], week * weeks))
    pipeline = tg.adaptive(epsilon=1, bound=100, horizon=week * weeks)
    release = tg.keyed(pipeline, keys=zones).start(tg.seeded(4))
    release.push(names, values)
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    axes, which, inside = figure.subplots(), np.arange(1, weeks + 1), 0
    shades = (colours["blue"], "#009e73", "#cc79a7")  # of Okabe and Ito
    for number, (zone, shade) in enumerate(zip(zones, shades, strict=True)):
        truth = values[names == zone].reshape(-1, week).sum(axis=1)
        starts = week * np.arange(weeks)
        found = [release.query(int(one), int(one) + week, key=zone) for one in starts]
        estimate, low, high = (
            np.array([getattr(one, name) for one in found]) for name in ("estimate", "low", "high")
        )
        at, errors = which + 0.27 * (number - 1), np.stack((estimate - low, high - estimate))
        axes.bar(at, estimate, 0.25, color=shade, alpha=0.55, label=f"{zone}, released")
        axes.errorbar(at, estimate, errors, fmt="none", color=ORANGE, capsize=2)
        axes.plot(at, truth, "_", ms=9, mew=2, color=colours["ink"])
        inside += int(((low <= truth) & (truth <= high)).sum())
    axes.errorbar([], [], [], fmt="none", color=ORANGE, capsize=2, label="95% interval")
    axes.plot([], [], "_", ms=9, mew=2, color=colours["ink"], label="truth (secret)")
    axes.set(xlim=(0.4, weeks + 0.6), xlabel="week", ylabel="sum of a week")
    axes.set_xticks(which)
    figure.legend(loc="outside lower center", ncols=5, fontsize=9)
    print(f"keys: {inside} of {3 * weeks} weeks lie in their intervals")
    return figure


def queries(colours: Colours) -> Figure:
    """Half of the width of intervals, as a part of the sum, by the length of the range."""
    _, watts = tg.synthetic.meter()
    released = tg.release(watts, epsilon=1, bound=40_000, randomness=tg.seeded(1))
    lengths = np.array([HOUR, 3 * HOUR, 6 * HOUR, DAY, 3 * DAY, 7 * DAY, 14 * DAY, 28 * DAY])
    random = np.random.default_rng(1)
    before = np.concatenate(([0.0], np.cumsum(np.nan_to_num(watts))))
    widths, errors = [], []
    for length in lengths.tolist():
        starts = random.integers(0, watts.size - length, 200)
        found = released.queries(starts, starts + length)
        truth = before[starts + length] - before[starts]
        widths.append(np.median((found.high - found.low) / 2 / truth))
        errors.append(np.median(np.abs(found.estimate - truth) / truth))
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    axes = figure.subplots()
    hours = lengths / HOUR
    axes.loglog(hours, widths, "o-", color=ORANGE, label="half of the 95% interval")
    axes.loglog(hours, errors, "s--", color=colours["blue"], label="error (secret)")
    axes.set_xticks(hours, ["1 h", "3 h", "6 h", "1 d", "3 d", "1 w", "2 w", "4 w"])
    axes.minorticks_off()
    axes.set(xlabel="length of the range", ylabel="part of the sum, median")
    figure.legend(loc="outside lower center", ncols=2, fontsize=9)
    return figure


def planning(colours: Colours) -> Figure:
    """Errors to expect by the length of a range: noise, and prediction at two roughnesses."""
    pipeline = tg.tops(epsilon="0.1", bound=1657)
    lengths = np.unique(np.geomspace(10, 604_800, 40).astype(np.int64)).tolist()
    rough = tg.plan.expect(pipeline, lengths, threshold=50)
    calm = tg.plan.expect(pipeline, lengths, threshold=50, roughness="0.02")
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    axes = figure.subplots()
    noise = [one.noise_error for one in rough]
    axes.loglog(lengths, noise, color=colours["blue"], lw=1.8, label="noise: exact")
    for expected, style, name in ((rough, "-", "1/3, the default"), (calm, "--", "0.02")):
        errors = [one.prediction_error for one in expected]
        label = f"prediction: roughness {name}"
        axes.loglog(lengths, errors, style, color=ORANGE, label=label)
    axes.set(xlabel="length of the range, in values", ylabel="standard error of a sum")
    figure.legend(loc="outside lower center", ncols=3, fontsize=9)
    return figure


def choosing_methods(colours: Colours) -> Figure:
    """Errors of sums by the length of the range, of some methods on one made-up meter.

    After the first tenth of the rows, which some of them hold out.
    """
    _, watts = tg.synthetic.meter()
    lengths = np.array([HOUR, 3 * HOUR, 6 * HOUR, DAY, 3 * DAY, 7 * DAY, 14 * DAY])
    shades = (colours["blue"], ORANGE, "#009e73", "#cc79a7")
    methods = ("adaptive", "tops", "binary_tree", "flat")
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    axes = figure.subplots()
    for method, shade in zip(methods, shades, strict=True):
        squares = np.zeros(lengths.size)
        for seed in range(_RUNS):
            settings: dict[str, Any] = {"randomness": tg.seeded(seed), "method": method}
            released = tg.release(watts, epsilon=1, bound=40_000, **settings)
            held, first = watts.size - len(released), watts.size // 10
            before = np.concatenate(([0.0], np.cumsum(np.nan_to_num(watts))))
            random = np.random.default_rng(seed)
            for at, length in enumerate(lengths.tolist()):
                starts = random.integers(first, watts.size - length, 200)
                found = released.queries(starts - held, starts - held + length).estimate
                squares[at] += np.mean((found - before[starts + length] + before[starts]) ** 2)
        errors = np.sqrt(squares / _RUNS)
        axes.loglog(lengths / HOUR, errors, "o-", color=shade, label=method.replace("_", "-"))
    axes.set_xticks(lengths / HOUR, ["1 h", "3 h", "6 h", "1 d", "3 d", "1 w", "2 w"])
    axes.minorticks_off()
    axes.set(xlabel="length of the range", ylabel="RMSE of its sum, in W")
    figure.legend(loc="outside lower center", ncols=4, fontsize=9)
    return figure


def units(colours: Colours) -> Figure:
    """How sure the output can make an observer of something about a person with many events."""
    events_of_person = np.geomspace(1, 1000, 200)
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    axes = figure.subplots()
    shades = ("#009e73", colours["blue"], ORANGE)
    for epsilon, shade, style in zip((0.01, 0.1, 1), shades, ("-", "--", "-."), strict=True):
        sure = 100 / (1 + np.exp(-np.minimum(epsilon * events_of_person, 700)))
        label = f"ε = {epsilon:g} per event"
        axes.semilogx(events_of_person, sure, style, color=shade, lw=1.8, label=label)
    sure = 100 / (1 + np.exp(-1))
    axes.axhline(sure, color=colours["soft"], lw=1.2, label="ε = 1 per person and horizon")
    axes.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    axes.set(xlabel="events of the person in the stream", ylabel="sure by at most, %")
    axes.set(ylim=(48, 102), xlim=(1, 1000))
    figure.legend(loc="outside lower center", ncols=4, fontsize=9)
    return figure


def local(colours: Colours) -> Figure:
    """Errors of sums over n values in a row: one trusted server, and devices that trust none."""
    lengths = np.array([1_000, 3_000, 10_000, 30_000, 100_000])
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    axes = figure.subplots()
    for epsilon, style in ((1, "o-"), (4, "s--")):
        found: dict[str, list[Floats]] = {"local": [], "central": []}
        for seed in range(_RUNS):
            values = tg.synthetic.baskets(110_000, seed=seed)
            rehearsal = tg.topl(epsilon=epsilon, bound=500).simulate(values, tg.seeded(seed))
            central = tg.release(values, epsilon=epsilon, bound=500, randomness=tg.seeded(seed))
            before, random = np.concatenate(([0.0], np.cumsum(values))), np.random.default_rng(seed)
            starts = [random.integers(0, values.size - one, 50) for one in lengths.tolist()]
            for name, release in (("local", rehearsal), ("central", central)):
                squares = []
                for one, first in zip(lengths.tolist(), starts, strict=True):
                    sums = [release.query(at, at + one).estimate for at in first.tolist()]
                    squares.append(np.mean((sums / (before[first + one] - before[first]) - 1) ** 2))
                found[name].append(np.array(squares))
        for name, shade in (("local", ORANGE), ("central", colours["blue"])):
            errors = 100 * np.sqrt(np.mean(found[name], axis=0))
            label = f"{name}, ε = {epsilon}"
            axes.loglog(lengths, errors, style, color=shade, label=label)
    axes.set_xticks(lengths, [f"{one:,}" for one in lengths.tolist()])
    axes.minorticks_off()
    axes.set_yticks([0.1, 1, 10], ["0.1", "1", "10"])
    axes.set(xlabel="values in the sum", ylabel="error of the sum, %")
    figure.legend(loc="outside lower center", ncols=4, fontsize=9)
    return figure


def ledger(colours: Colours) -> Figure:
    """The charges of the guide: what each position has spent, and what is left of the cap."""
    pipeline = tg.tops(epsilon=0.1, bound=500, horizon=2**16, holdout=65_536)
    charges = (
        ("threshold: the hold-out", 0, 65_536, pipeline.threshold.guarantee, colours["soft"]),
        ("stream, from 65,536 on", 65_536, None, pipeline.perturber.guarantee, colours["blue"]),
        ("a second epoch, from 80,000 on", 80_000, None, pipeline.perturber.guarantee, ORANGE),
    )
    figure, end = Figure(figsize=(10, 3.2), layout="constrained"), 120_000
    axes = figure.subplots()
    with TemporaryDirectory() as folder:
        book = Ledger.open(Path(folder) / "budget.ledger", cap=0.25)
        for label, start, until, guarantee, shade in charges:
            epoch = pipeline.start(tg.seeded(start)).epoch
            before = [part for part in book.ranges("meters") if part.end is None]
            spent = float(before[-1].total.epsilon) if before and start else 0.0
            charge: dict[str, Any] = {"start": start, "end": until, "guarantee": guarantee}
            stage = "stream" if start else "threshold"
            book.charge(source="meters", epoch=epoch, stage=stage, **charge)
            height = float(guarantee.epsilon)
            kind: dict[str, Any] = {"color": shade, "alpha": 0.8, "label": label}
            axes.bar(start, height, (until or end) - start, spent, align="edge", **kind)
        left = float(book.left("meters") or 0)
    axes.axhline(0.25, color=colours["ink"], ls="--", lw=1.2, label="cap")
    axes.annotate(f"{left:g} left", (end, 0.25 - left / 2), ha="right", va="center")
    ticks = [0, 65_536, 80_000]
    axes.set_xticks(ticks, [f"{one:,}" for one in ticks])
    axes.set(xlim=(0, end), ylim=(0, 0.28), xlabel="position", ylabel="ε spent")
    figure.legend(loc="outside lower center", ncols=4, fontsize=9)
    return figure


_RUNS = 5

PICTURES: dict[str, Callable[[Colours], Figure]] = {
    "guide-events": events,
    "guide-keys": keys,
    "guide-queries": queries,
    "guide-planning": planning,
    "guide-choosing-methods": choosing_methods,
    "guide-units": units,
    "guide-local": local,
    "guide-ledger": ledger,
    "guide-command-line": docs_outputs.command_line,
    "guide-javascript": docs_outputs.javascript,
    "guide-snapshots": docs_outputs.snapshots,
    "guide-brokers": docs_diagrams.brokers,
    "guide-devices": docs_diagrams.devices,
    "guide-durable": docs_diagrams.durable,
    "guide-service": docs_diagrams.service,
    "guide-spark": docs_diagrams.spark,
    "guide-spark-clusters": docs_diagrams.spark_clusters,
}


def main(folder: Path, kind: str, only: list[str]) -> None:
    metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {}
    for theme, colours in THEMES.items():
        use_theme(colours)
        for name, draw in PICTURES.items():
            if not only or name in only:
                draw(colours).savefig(folder / f"{name}-{theme}.{kind}", metadata=metadata)


if __name__ == "__main__":
    where, kind, *names = [*sys.argv[1:], *("docs/images", "svg")[len(sys.argv) - 1 :]]
    main(Path(where), kind, names)
