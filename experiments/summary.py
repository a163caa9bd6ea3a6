"""After a run: the CSV, the pictures, and the verdicts on the screen."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from experiments.cells import Wanted, cells
from experiments.claims import FAILS, HOLDS, PART, verdicts
from experiments.claims.lookup import Lookup
from experiments.figures import Figure
from experiments.figures import figures as every_figure
from experiments.plots import draw
from experiments.results import Row, Store, join_csv, rows, write_csv

_STYLES = {HOLDS: "green", PART: "yellow", FAILS: "red"}


def gathered(figures: list[Figure], wanted: Wanted, store: Store) -> dict[str, list[Row]]:
    """The lines of every figure."""
    return {figure.name: list(rows(cells(figure, wanted), store)) for figure in figures}


def summarise(figures: list[Figure], wanted: Wanted, store: Store, console: Console) -> None:
    """Write a table and a picture of each figure, and one table of all; print what holds."""
    suffix = "-quick" if wanted.quick else ""
    found = gathered(figures, wanted, store)
    shown = Table("figure", "claim", "verdict", "cells", box=None)
    for figure in figures:
        lines = found[figure.name]
        if not lines:
            continue
        write_csv(store.folder / f"tables{suffix}" / f"{figure.name}.csv", lines)
        paths = draw(figure, lines, store.folder / f"figures{suffix}")
        console.print(f"{paths[0]} (and .svg)")
        for verdict in verdicts(figure, Lookup(lines)):
            style = _STYLES.get(verdict.verdict, "default")
            judged = f"[{style}]{verdict.verdict}[/]"
            shown.add_row(figure.name, verdict.says, judged, verdict.count)
    every = [store.folder / f"tables{suffix}" / f"{name}.csv" for name in every_figure()]
    path = store.folder / f"results{suffix}.csv"
    count = join_csv(path, (part for part in every if part.is_file()))
    console.print(f"{path}: {count:,} rows, of all figures that were run")
    console.print(shown)
