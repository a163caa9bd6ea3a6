"""Pictures of results: one file a kind of figure. PNG and SVG, the same bytes for the same data."""

from __future__ import annotations

from pathlib import Path

from experiments.errors import ExperimentError
from experiments.figures import Figure
from experiments.plots import course, curves, score, table
from experiments.plots.style import new_figure, save
from experiments.results import Row

_KINDS = {"curves": curves.draw, "score": score.draw, "course": course.draw, "table": table.draw}


def draw(figure: Figure, rows: list[Row], folder: Path, *, vector: bool = True) -> list[Path]:
    """The picture of a figure, as PNG and, with `vector`, as SVG."""
    if not rows:
        raise ExperimentError(f"there are no results of {figure.name} to draw")
    picture = _KINDS[figure.kind](figure, rows, new_figure)
    return save(picture, folder / figure.name, vector=vector)
