"""What `list` shows."""

from __future__ import annotations

from rich.table import Table

from experiments import datasets
from experiments.figures import figures
from experiments.registry import dataset


def figure_table() -> Table:
    """Every figure: its name, what it shows, its streams."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("figure", "in the paper", "what", "streams"):
        table.add_column(name, overflow="fold")
    for figure in figures().values():
        names = list(dict.fromkeys(name for one in figure.settings for name in one.datasets))
        table.add_row(
            figure.name, figure.label or "– (ours)", figure.title, ", ".join(map(_shown, names))
        )
    return table


def _shown(name: str) -> str:
    if datasets.find(dataset(name)):
        return name
    return f"{name} (twin)" if datasets.at_hand(name) else f"{name} (not at hand)"
