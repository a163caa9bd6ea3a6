"""Errors over ε by method, long and short ranges apart; speed and memory below them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from experiments.plots.style import COLOURS, MARKERS, legend_below, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

    from experiments.rivals import Cell

_GREY, _FAINT = "#777777", "#d0d0d0"
_COLUMNS = 4  # streams side by side
_KINDS = (("typical", "long ranges"), ("short", "short ranges"))


def draw(promise: str, cells: Sequence[Cell], stem: Path) -> list[Path]:
    """Two panels for each stream, and two for all methods: speed and memory.

    Ours and every rival that is the best somewhere have a colour; the others are faint.
    """
    from experiments.rivals import ours

    streams = list(dict.fromkeys(cell.course.name for cell in cells))
    names = list(dict.fromkeys(entry.name for cell in cells for entry in cell.entries))
    looks = _looks(names, ours(promise), cells)
    columns = min(_COLUMNS, len(streams))
    rows = 2 * -(-len(streams) // columns)
    below = 0.8 + 0.17 * len(names)
    picture = new_figure(max(7.5, 2.7 * columns), 1.9 * rows + below + 1)
    parts: Any = picture.subfigures(2, 1, height_ratios=(1.9 * rows + 1, below))
    upper, lower = parts
    axes = upper.subplots(rows, columns, squeeze=False)
    for place, stream in enumerate(streams):
        mine = sorted(
            (cell for cell in cells if cell.course.name == stream), key=lambda cell: cell.epsilon
        )
        row, column = 2 * (place // columns), place % columns
        for panel, (kind, title) in zip(
            (axes[row][column], axes[row + 1][column]), _KINDS, strict=True
        ):
            _stream(panel, mine, names, kind, looks)
            panel.set(xscale="log", yscale="log", title=f"{stream}, {title}")
            panel.set_xticks(epsilons := [cell.epsilon for cell in mine])
            panel.set_xticklabels([f"ε = {epsilon:g}" for epsilon in epsilons])
            panel.minorticks_off()
        axes[row][0].set_ylabel("error of a sum")
        axes[row + 1][0].set_ylabel("error of a sum")
    for place in range(len(streams), rows // 2 * columns):
        for one in (0, 1):
            axes[2 * (place // columns) + one][place % columns].set_axis_off()
    _costs(lower, cells, names, looks)
    picture.suptitle(f"rivals: {promise}")
    legend_below(upper, axes[0][0])
    return save(picture, stem, vector=False)


def _looks(names: list[str], own: tuple[str, ...], cells: Sequence[Cell]) -> dict[str, Any]:
    best = {cell.best(own, short).name for cell in cells for short in (False, True)}
    drawn = [name for name in names if name in best and not name.startswith("zeros")]
    found: dict[str, Any] = {name: {"color": _FAINT, "linewidth": 0.8} for name in names}
    for place, name in enumerate(drawn):
        found[name] = {
            "color": COLOURS[1:][place % (len(COLOURS) - 1)],
            "marker": MARKERS[1:][place % (len(MARKERS) - 1)],
            "linestyle": "-" if place < len(COLOURS) - 1 else ":",
        }
    for name in own:
        dashed = "--" if name != own[0] else "-"
        found[name] = {"color": COLOURS[0], "marker": "o", "linewidth": 2, "linestyle": dashed}
    zeros = {"color": _GREY, "linestyle": "-.", "linewidth": 1}
    return {name: zeros if name.startswith("zeros") else look for name, look in found.items()}


def _stream(
    panel: Axes, cells: Sequence[Cell], names: list[str], kind: str, looks: dict[str, Any]
) -> None:
    """The errors of all methods on one stream: faint ones first, so that they lie below."""
    for name in sorted(names, key=lambda one: looks[one]["color"] != _FAINT):
        course = [(cell.epsilon, one) for cell in cells if (one := cell.of(name)) is not None]
        roots = [math.sqrt(getattr(one, kind)) for _, one in course]
        label = "others" if looks[name]["color"] == _FAINT else name
        at = [epsilon for epsilon, _ in course]
        panel.plot(at, roots, label=label, markersize=4, **looks[name])


def _costs(
    picture: SubFigure, cells: Sequence[Cell], names: list[str], looks: dict[str, Any]
) -> None:
    """A line for every method, by name: median speed, and the state that it keeps."""
    panels = picture.subplots(1, 2, sharey=True)
    kinds = ("speed", "million values per second"), ("state", "state, kB")
    for panel, (kind, title) in zip(panels, kinds, strict=True):
        for place, name in enumerate(names):
            found = [entry for cell in cells for entry in cell.entries if entry.name == name]
            numbers = [one for entry in found if not math.isnan(one := getattr(entry, kind))]
            colour = looks[name]["color"]
            colour = _GREY if colour == _FAINT else colour
            if numbers:
                panel.plot(median(numbers), place, "o", color=colour, markersize=4)
        panel.set(xscale="log", xlabel=title)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
