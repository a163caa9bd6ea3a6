"""A score and the error it stands for, over thresholds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from experiments.figures import Figure
from experiments.plots.style import legend_below, lines
from experiments.results import Row

# Whose lowest point is marked.
_MARKED = ("score", "error", "measured")


def draw(figure: Figure, rows: list[Row], new_figure: Callable[[float, float], Picture]) -> Picture:
    labels = list(dict.fromkeys(row.label for row in rows))
    picture = new_figure(4.6 * len(labels), 4.0)
    panels = picture.subplots(1, len(labels), squeeze=False)[0]
    for axes, label in zip(panels, labels, strict=True):
        _panel(axes, figure, [row for row in rows if row.label == label])
        axes.set_title(label)
        axes.set_xlabel("threshold θ")
    panels[0].set_ylabel("root mean squared error of a range sum")
    legend_below(picture, panels[0], most=3)
    return picture


def _panel(axes: Axes, figure: Figure, rows: list[Row]) -> None:
    styles = lines(figure.methods)
    for method in figure.methods:
        mine = [row for row in rows if row.method == method.name]
        drawn = sorted((row for row in mine if row.at), key=lambda row: int(row.at))
        style = {**styles[method.name].options(), "markersize": 2.5}
        x, mean = [int(row.at) for row in drawn], np.array([row.mean for row in drawn])
        std = np.array([row.std for row in drawn])
        if std.any():
            low = mean * std / (mean + std)
            axes.errorbar(x, mean, yerr=(low, std), label=method.name, capsize=2, **style)
        else:
            axes.plot(x, np.where(mean > 0, mean, np.nan), label=method.name, **style)
        best = [row.mean for row in mine if row.metric == "threshold"]
        if best and method.spec["curve"] in _MARKED:
            axes.axvline(best[0], color=style["color"], linewidth=0.9, linestyle=":")
            axes.annotate(
                f" {best[0]:,.0f}", (best[0], _MARKED.index(method.spec["curve"]) * 0.05 + 0.01),
                xycoords=("data", "axes fraction"), color=style["color"], fontsize=7,
            )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
