"""Close cells of `experiments rivals` once more: the best rival and ours, with seeds of their own.

The best of two dozen rivals is picked with the seeds that it is scored on: of equal ones, one looks
better than it is. And errors depend on θ, which is drawn: medians of 20 runs differ by up to a half
from those of 20 others. So the rival is picked by the first runs and judged by new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.progress import track

from experiments.ranking import LEVEL, judged
from experiments.rivals import Cell, cell_of, ours

CLOSE = 1.5  # the best rival's squared error over ours, up to which a cell is looked at again
_NEW_SEEDS = 7919  # what is added to the base seed


@dataclass(frozen=True)
class Verdict:
    """A rival against the better form of ours, in the runs that did not pick it."""

    cell: Cell
    short: bool
    rival: str
    picked: float  # the ratio of squared errors in the runs that picked it
    ratio: float
    low: float  # 95 % of resampled runs
    high: float


def confirmed(
    promise: str,
    cells: Sequence[Cell],
    console: Console,
    *,
    runs: int,
    ranges: int = 600,
    seed: int = 1,
) -> list[Verdict]:
    """Judge every cell in which a rival came close, or was ahead."""
    own = ours(promise)
    found = []
    for cell in track(cells, f"{promise}, again", console=console):
        if cell.of(own[0]) is None:
            continue
        close = []
        for short in (False, True):
            best = cell.best(own, short)
            ratio = (best.short if short else best.typical) / cell.least(own, short)
            if ratio < CLOSE:
                close.append((short, best.name, ratio))
        if not close:
            continue
        names = {*own, *(name for _, name, _ in close)}
        again = cell_of(
            *(promise, cell.course, cell.epsilon),
            runs=runs, ranges=ranges, everything=True, seed=seed + _NEW_SEEDS, only=names,
        )  # fmt: skip
        found += [
            Verdict(again, short, name, ratio, *judged(again.entries, own, name, short))
            for short, name, ratio in close
        ]
    return found


def verdicts(found: Sequence[Verdict]) -> str:
    """In Markdown: what was close, and whether the rival is the one to use there."""
    if not found:
        return "No rival came close anywhere."
    head = ["stream", "ε", "ranges", "rival", "when picked", "in new runs (95 %)", "to use"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for one in found:
        row = [
            *(one.cell.course.name, f"{one.cell.epsilon:g}", "short" if one.short else "long"),
            *(one.rival, f"{one.picked:.2f}", f"{one.ratio:.2f} ({one.low:.2f} to {one.high:.2f})"),
            "the rival" if one.ratio < LEVEL else "ours",
        ]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)
