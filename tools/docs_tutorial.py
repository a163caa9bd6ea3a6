"""Draws the pictures of docs/tutorial.md and docs/faq.md: `python tools/docs_tutorial.py`.

One made-up meter and seeded noise: a second run gives the same files. Each picture comes in two
colour schemes, for light and for dark pages.
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from docs_pictures import STYLE
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

import tidegate as tg

DAY, HOUR = 1440, 60
# Okabe and Ito's colours are told apart with any colour vision; line styles help in print.
THEMES = {
    "light": {"ink": "#1f2933", "soft": "#9aa5b1", "paper": "white", "blue": "#0072b2"},
    "dark": {"ink": "#e4e7eb", "soft": "#7b8794", "paper": "#1e2129", "blue": "#56b4e9"},
}
ORANGE = "#e69f00"
Floats = NDArray[np.float64]


def hours(axes: Axes) -> None:
    axes.set_xlim(0, 24)
    axes.set_xticks(range(0, 25, 3), [f"{hour:02d}:00" for hour in range(0, 25, 3)])


def one_day(watts: Floats, released: tg.Released, colours: dict[str, str]) -> Figure:
    """Readings of a day, the level, and the hourly means with their intervals."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    axes = figure.subplots()
    start = 20 * DAY
    at = np.arange(DAY) / HOUR
    axes.plot(
        at,
        watts[start : start + DAY] / 1000,
        color=colours["soft"],
        lw=0.7,
        label="readings (secret)",
    )
    levels = released.rows().levels[start : start + DAY]
    axes.plot(at, levels / 1000, color=colours["blue"], lw=1.8, label="level (released)")
    starts = start + np.arange(0, DAY, HOUR)
    sums = released.queries(starts, starts + HOUR)
    half = (sums.high - sums.low) / 2
    axes.errorbar(
        np.arange(24) + 0.5, sums.estimate / HOUR / 1000, half / HOUR / 1000, fmt="o", ms=4,
        color=ORANGE, lw=1.4, capsize=2, label="mean of an hour, with its 95% interval (released)",
    )  # fmt: skip
    hours(axes)
    axes.set(ylabel="kW", ylim=(0, None))
    axes.set_title("21 January: what stays, and what goes out")
    figure.legend(loc="outside lower center", ncols=3, fontsize=9)
    return figure


def all_days(watts: Floats, released: tg.Released, colours: dict[str, str]) -> Figure:
    """The energy of each day, with its interval, and the truth."""
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    axes = figure.subplots()
    days = np.arange(1, 31)
    truth = np.nan_to_num(watts).reshape(-1, DAY).sum(axis=1) / HOUR / 1000
    sums = released.table(every=DAY)
    estimate, half = sums.estimate / HOUR / 1000, (sums.high - sums.low) / 2 / HOUR / 1000
    axes.bar(days, estimate, 0.7, color=colours["blue"], alpha=0.45, label="released")
    axes.errorbar(
        days, estimate, half, fmt="none", color=ORANGE, lw=1.6, capsize=3, label="95% interval"
    )
    axes.plot(days, truth, "_", ms=11, mew=2, color=colours["ink"], label="truth (secret)")
    axes.set(xlim=(0.3, 30.7), xlabel="January", ylabel="kWh a day")
    axes.set_xticks(days[::2])
    axes.set_title("Thirty sums, one release")
    figure.legend(loc="outside lower center", ncols=3, fontsize=9)
    inside = int(((sums.low <= truth * 60_000) & (truth * 60_000 <= sums.high)).sum())
    print(f"days whose interval holds the truth: {inside} of 30")
    return figure


def wild_rows(watts: Floats, released: tg.Released, colours: dict[str, str]) -> Figure:
    """Single rows against the level, and the running sum of both."""
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    start = 20 * DAY
    rows, at = released.rows(), np.arange(DAY) / HOUR
    inside = slice(start, start + DAY)
    upper.plot(
        at,
        rows.values[inside] / 1000,
        color=colours["soft"],
        lw=0.8,
        label="value: single rows jump",
    )
    upper.plot(
        at, rows.levels[inside] / 1000, color=colours["blue"], lw=1.8, label="level: for the eye"
    )
    upper.set(ylabel="kW")
    upper.set_title("The jumps keep the running sum right")
    true = np.cumsum(np.nan_to_num(watts[inside])) / HOUR / 1000
    lower.plot(at, true, ":", color=colours["ink"], lw=2.4, label="truth, added up (secret)")
    lower.plot(
        at,
        np.cumsum(rows.values[inside]) / HOUR / 1000,
        color=ORANGE,
        lw=1.4,
        label="values, added up",
    )
    lower.set(ylabel="kWh since midnight")
    hours(lower)
    figure.legend(loc="outside lower center", ncols=2, fontsize=9)
    return figure


PICTURES = {"tutorial-day": one_day, "tutorial-days": all_days, "faq-rows": wild_rows}


def coverage(runs: int = 12) -> None:
    """How many daily sums of how many lie in their intervals."""
    _, watts = tg.synthetic.meter()
    truth = np.nan_to_num(watts).reshape(-1, DAY).sum(axis=1)
    inside = 0
    for seed in range(runs):
        released = tg.release(watts, epsilon=1, bound=40_000, randomness=tg.seeded(seed))
        days = released.table(every=DAY)
        inside += int(((days.low <= truth) & (truth <= days.high)).sum())
    print(f"{inside} of {runs * truth.size} days lie in their 95% intervals")


def use_theme(colours: dict[str, str]) -> None:
    """Draw in these colours from now on."""
    mpl.rcParams.update(STYLE)
    mpl.rcParams.update(
        {
            "axes.edgecolor": colours["soft"],
            "axes.facecolor": colours["paper"],
            "axes.labelcolor": colours["ink"],
            "figure.facecolor": colours["paper"],
            "text.color": colours["ink"],
            "xtick.color": colours["ink"],
            "ytick.color": colours["ink"],
        }
    )


def main(folder: Path, kind: str) -> None:
    _, watts = tg.synthetic.meter()
    released = tg.release(watts, epsilon=1, bound=40_000, randomness=tg.seeded(1))
    for theme, colours in THEMES.items():
        use_theme(colours)
        metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {}
        for name, draw in PICTURES.items():
            figure = draw(watts, released, colours)
            figure.savefig(folder / f"{name}-{theme}.{kind}", dpi=90, metadata=metadata)


if sys.argv[1:] == ["coverage"]:
    coverage()
elif __name__ == "__main__":
    main(Path(*sys.argv[1:2] or ["docs/images"]), *sys.argv[2:3] or ["svg"])
