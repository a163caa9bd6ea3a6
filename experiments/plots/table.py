"""Quantiles of the streams beside those that the paper prints."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure as Picture

from experiments.figures import Figure
from experiments.plots.style import legend_below
from experiments.registry import dataset
from experiments.results import Row

_COLUMNS = {
    "mean": ("mean", "#0072B2", "o"),
    "p85": ("85th percentile", "#D55E00", "s"),
    "p95": ("95th", "#009E73", "^"),
    "p995": ("99.5th", "#CC79A7", "D"),
    "p100": ("largest", "#000000", "v"),
}


def draw(
    _figure: Figure, rows: list[Row], new_figure: Callable[[float, float], Picture]
) -> Picture:
    labels = {row.dataset: row.label for row in rows}
    picture = new_figure(7.5, 0.42 * len(labels) + 1.3)
    axes = picture.subplots()
    for place, name in enumerate(labels):
        entry = dataset(name)
        printed = dataset(entry.stands_for).table if entry.stands_for else entry.table
        for column, (title, colour, marker) in _COLUMNS.items():
            value = next(row.mean for row in rows if row.dataset == name and row.metric == column)
            axes.plot(value, place, marker, color=colour, markersize=5, label=title, linestyle="")
            if printed is not None:
                axes.plot(
                    getattr(printed, column), place, marker, color=colour, markersize=11,
                    markerfacecolor="none", linestyle="", label="the paper's table (large, hollow)",
                )  # fmt: skip
    axes.set_yticks(range(len(labels)), list(labels.values()))
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel(
        "value (hollow: as the paper prints it, of the stream that this one stands for)"
    )
    legend_below(picture, axes, most=6)
    return picture
