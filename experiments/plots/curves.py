"""Errors over ε, one panel a stream; settings and metrics begin new rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from experiments.figures import Figure
from experiments.plots.style import Line, legend_below, lines
from experiments.results import Row

_WIDE = 4  # panels in a row
_NAMES = {
    "mse": "mean squared error of a range sum",
    "mae": "mean absolute error of a range sum",
    "mmse": "mean squared error of a range mean",
    "mmae": "mean absolute error of a range mean",
}
_X = {
    "both": "ε",
    "threshold": "ε of the threshold",
    "stream": "ε of the stream",
}
Panel = tuple[str, str, str]  # metric, setting, label of the stream


def draw(figure: Figure, rows: list[Row], new_figure: Callable[[float, float], Picture]) -> Picture:
    panels = _panels(figure, rows)
    grid = _grid(panels)
    height = 2.3 * len(grid) + 0.35 + 0.2 * (1 + (len(figure.methods) - 1) // _WIDE)
    picture = new_figure(2.7 * max(len(line) for line in grid), height)
    cells = picture.subplots(len(grid), max(len(line) for line in grid), squeeze=False)
    styles = lines(figure.methods)
    varies = {setting.name: setting.protocol.varies for setting in figure.settings}
    for line, axes_line in zip(grid, cells, strict=True):
        for index, axes in enumerate(axes_line):
            if index >= len(line):
                axes.set_axis_off()
                continue
            metric, setting, label = line[index]
            _panel(axes, figure, panels[line[index]], styles)
            axes.set_title(f"{label}\n{setting}" if setting else label)
            axes.set_xlabel(_X[varies[setting]])
            if index == 0:
                axes.set_ylabel(_NAMES.get(metric, metric).replace(" of ", "\nof "))
    legend_below(picture, cells[0][0])
    return picture


def _panels(figure: Figure, rows: list[Row]) -> dict[Panel, list[Row]]:
    order = [setting.name for setting in figure.settings]
    found: dict[Panel, list[Row]] = {}
    for row in rows:
        if row.metric in figure.metrics:
            found.setdefault((row.metric, row.setting, row.label), []).append(row)
    few = _few_streams(found)  # then settings stand side by side, streams below each other

    def place(panel: Panel) -> tuple[int, str, int]:
        metric, setting, label = panel
        return figure.metrics.index(metric), label if few else "", order.index(setting)

    return {panel: found[panel] for panel in sorted(found, key=place)}


def _grid(panels: dict[Panel, list[Row]]) -> list[list[Panel]]:
    """Rows of at most four; a new metric, and a new setting or stream, begins a new row."""
    few = _few_streams(panels)

    def group(panel: Panel) -> tuple[str, str]:
        metric, setting, label = panel
        return metric, label if few else setting

    grid: list[list[Panel]] = []
    for _, members in groupby(panels, key=group):
        listed = list(members)
        wide = -(-len(listed) // -(-len(listed) // _WIDE)) if few else _WIDE  # even rows
        grid += [listed[start : start + wide] for start in range(0, len(listed), wide)]
    return grid


def _few_streams(panels: Iterable[Panel]) -> bool:
    return len({label for _, _, label in panels}) <= 2


def _panel(axes: Axes, figure: Figure, rows: list[Row], styles: dict[str, Line]) -> None:
    for method in figure.methods:
        mine = sorted(
            (row for row in rows if row.method == method.name), key=lambda row: row.epsilon
        )
        if not mine:
            continue
        x = np.array([row.epsilon for row in mine])
        mean, std = np.array([row.mean for row in mine]), np.array([row.std for row in mine])
        # Mean ± standard deviation; on a log axis the lower end is as many times below as the
        # upper one is above, since mean − std may be negative.
        low, high = mean * std / (mean + std), std
        axes.errorbar(
            x, mean, yerr=(low, high), label=method.name, capsize=2, elinewidth=0.7,
            **styles[method.name].options(),
        )  # fmt: skip
    axes.set_yscale("log")
