"""Errors over ε by method, long and short ranges apart; speed and memory beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from experiments.plots.style import COLOURS, MARKERS, legend_below, new_figure, save

if TYPE_CHECKING:
    from experiments.rivals import Cell

_GREY = "#777777"


def draw(promise: str, cells: Sequence[Cell], stem: Path) -> list[Path]:
    """One column for each stream, and one for speed against memory."""
    streams = list(dict.fromkeys(cell.course.name for cell in cells))
    names = list(dict.fromkeys(entry.name for cell in cells for entry in cell.entries))
    picture = new_figure(2.1 * (len(streams) + 1), 4.6)
    axes = picture.subplots(2, len(streams) + 1, squeeze=False)
    looks = {
        name: {"color": _GREY, "marker": ""}
        if name.startswith("zeros")
        else {
            "color": COLOURS[place % len(COLOURS)],
            "marker": MARKERS[place % len(MARKERS)],
            "linestyle": "-" if place < len(COLOURS) else "--",
        }
        for place, name in enumerate(names)
    }
    for column, stream in enumerate(streams):
        mine = sorted(
            (cell for cell in cells if cell.course.name == stream), key=lambda cell: cell.epsilon
        )
        for name in names:
            course = [(cell.epsilon, one) for cell in mine if (one := cell.of(name)) is not None]
            for row, errors in enumerate(
                ([one.typical for _, one in course], [one.short for _, one in course])
            ):
                roots = [math.sqrt(error) for error in errors]
                axes[row][column].plot(
                    [epsilon for epsilon, _ in course],
                    roots,
                    label=name,
                    markersize=3,
                    **looks[name],
                )
        for row, kind in enumerate(("long ranges", "short ranges")):
            axes[row][column].set(xscale="log", yscale="log", title=f"{stream}\n{kind}", xlabel="ε")
    axes[0][0].set_ylabel("error of a sum")
    axes[1][0].set_ylabel("error of a sum")
    for row, (kind, title) in enumerate((("speed", "M values/s"), ("state", "state, kB"))):
        panel = axes[row][-1]
        for place, name in enumerate(names):
            found = [entry for cell in cells for entry in cell.entries if entry.name == name]
            numbers = [one for entry in found if not math.isnan(one := getattr(entry, kind))]
            if numbers:
                panel.plot(median(numbers), place, "o", color=looks[name]["color"], markersize=4)
        panel.set(xscale="log", title=title)
        panel.set_yticks([])
    axes[0][0].figure.suptitle(f"rivals: {promise}")
    legend_below(picture, axes[0][0])
    return save(picture, stem, vector=False)
