"""Published means over intervals beside the true ones."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import SymmetricalLogLocator

from experiments.figures import Figure
from experiments.plots.style import lines
from experiments.results import Row

_FAR = 4.0  # how many times beyond the truth's range an axis may go before it turns logarithmic


def draw(figure: Figure, rows: list[Row], new_figure: Callable[[float, float], Picture]) -> Picture:
    labels = list(dict.fromkeys(row.label for row in rows))
    leads = [
        method for method in figure.methods if not method.like and not method.spec.get("truth")
    ]
    columns = [(method, epsilon) for method in leads for epsilon in method.epsilons or []]
    picture = new_figure(3.0 * len(columns), 2.3 * len(labels) + 0.5)
    panels = picture.subplots(len(labels), len(columns), squeeze=False)
    for line, label in zip(panels, labels, strict=True):
        mine = [row for row in rows if row.label == label and row.at]
        for axes, (lead, epsilon) in zip(line, columns, strict=True):
            names = [one.name for one in figure.methods if lead.name in (one.name, one.like)]
            _panel(axes, figure, mine, names, epsilon)
            axes.set_title(f"{label}\n{lead.name}, ε = {epsilon:g}")
            axes.set_xlabel("interval")
        line[0].set_ylabel("mean value")
    _one_legend(picture, panels)
    return picture


def _panel(axes: Axes, figure: Figure, rows: list[Row], names: list[str], epsilon: float) -> None:
    styles = lines(figure.methods)
    truth = next(method.name for method in figure.methods if method.spec.get("truth"))
    true = _course(rows, truth, None)
    axes.plot(true, color="#777777", linewidth=4, alpha=0.45, label=truth)
    top = true.max()
    for name in names:
        published = _course(rows, name, epsilon)
        if published.size:
            options = {**styles[name].options(), "marker": "", "linewidth": 1.0}
            axes.plot(published, label=name, **options)
            top = max(top, np.abs(published).max())
    if top > _FAR * true.max():
        linear = 10.0 ** math.ceil(math.log10(true.max()))
        axes.set_yscale("symlog", linthresh=linear)
        axes.yaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=linear))
    else:
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))


def _course(rows: list[Row], name: str, epsilon: float | None) -> np.ndarray:
    mine = [row for row in rows if row.method == name and epsilon in (None, row.epsilon)]
    return np.array([row.mean for row in sorted(mine, key=lambda row: int(row.at))])


def _one_legend(picture: Picture, panels: np.ndarray) -> None:
    """All lines of all panels, once each."""
    found: dict[str, Artist] = {}
    for axes in panels.flat:
        handles, names = axes.get_legend_handles_labels()
        found |= dict(zip(names, handles, strict=True))
    picture.legend(found.values(), found.keys(), loc="outside lower center", ncols=len(found))
