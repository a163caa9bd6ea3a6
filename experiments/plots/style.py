"""What all pictures share: colours that colour-blind people can tell apart, size, fonts, files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Picture

from experiments.figures import Method

# Okabe and Ito's palette without its yellow, which is too faint for a line; black comes last.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_GREY = "#777777"
_SETTINGS: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "tidegate",  # no random ids: the same data give the same file
    "path.simplify": True,
}


@dataclass(frozen=True)
class Line:
    """How a method is drawn everywhere in its figure."""

    colour: str
    marker: str
    dashed: bool

    def options(self) -> dict[str, Any]:
        return {
            "color": self.colour,
            "marker": self.marker,
            "markersize": 4,
            "linewidth": 1.2,
            "linestyle": "--" if self.dashed else "-",
            "markerfacecolor": "white" if self.dashed else self.colour,
        }


def lines(methods: list[Method]) -> dict[str, Line]:
    """A line for every method: `like` shares a colour, publishing zeros is grey."""
    styles: dict[str, Line] = {}
    used = 0
    for method in methods:
        if method.spec.get("zero") or method.spec.get("truth"):
            styles[method.name] = Line(_GREY, "", dashed=False)
        elif method.like in styles:
            parent = styles[method.like]
            styles[method.name] = Line(parent.colour, parent.marker, dashed=True)
        else:
            place = used % len(COLOURS)
            styles[method.name] = Line(COLOURS[place], MARKERS[place], dashed=False)
            used += 1
    return styles


def new_figure(width: float, height: float) -> Picture:
    """An empty picture in inches, without pyplot and its global state."""
    mpl.rcParams.update(_SETTINGS)
    picture = Picture(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(picture)
    return picture


def legend_below(picture: Picture, axes: Axes, most: int = 5) -> None:
    """One legend for all panels, outside of them."""
    handles, names = axes.get_legend_handles_labels()
    unique = dict(zip(names, handles, strict=True))
    most = min(most, len(unique))
    even = -(-len(unique) // -(-len(unique) // most))  # rows of nearly the same length
    picture.legend(unique.values(), unique.keys(), loc="outside lower center", ncols=even)


def save(picture: Picture, stem: Path, *, vector: bool = True) -> list[Path]:
    """As PNG, and as SVG unless that is not wanted."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(".png")]
    picture.savefig(paths[0], dpi=140, metadata={"Software": None})
    if vector:
        paths.append(stem.with_suffix(".svg"))
        picture.set_layout_engine("none")  # the panels have their places already
        picture.savefig(paths[1], metadata={"Date": None})
    return paths
