"""After a run: the CSV, the pictures, and the verdicts on the screen."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from experiments.cells import Wanted, cells
from experiments.claims import FAILS, HOLDS, PART, verdicts
from experiments.claims.lookup import Lookup
from experiments.figures import Figure
from experiments.plots import draw
from experiments.results import Row, Store, rows, write_csv

_STYLES = {HOLDS: "green", PART: "yellow", FAILS: "red"}


def gathered(figures: list[Figure], wanted: Wanted, store: Store) -> dict[str, list[Row]]:
    """The lines of every figure."""
    return {figure.name: list(rows(cells(figure, wanted), store)) for figure in figures}


def summarise(figures: list[Figure], wanted: Wanted, store: Store, console: Console) -> None:
    """Write `results.csv` and the pictures; print what holds."""
    found = gathered(figures, wanted, store)
    suffix = "-quick" if wanted.quick else ""
    table_path = store.folder / f"results{suffix}.csv"
    count = write_csv(table_path, (row for lines in found.values() for row in lines))
    console.print(f"{table_path}: {count:,} rows")
    table = Table("figure", "claim", "verdict", "cells", box=None)
    for figure in figures:
        paths = draw(figure, found[figure.name], store.folder / f"figures{suffix}")
        console.print(f"{paths[0]} (and .svg)")
        for verdict in verdicts(figure, Lookup(found[figure.name])):
            style = _STYLES.get(verdict.verdict, "")
            table.add_row(
                figure.name,
                verdict.says,
                f"[{style}]{verdict.verdict}[/]" if style else verdict.verdict,
                verdict.count,
            )
    console.print(table)
