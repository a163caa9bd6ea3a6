"""Close cells of `experiments rivals` once more: the best rival and ours, with seeds of their own.

The best of two dozen rivals is picked with the seeds that it is scored on: of equal ones, one looks
better than it is. And errors depend on θ, which is drawn: medians of 20 runs differ by up to a half
from those of 20 others. So the rival is picked by the first runs and judged by new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from experiments.compare import Entry
from experiments.rivals import LOST, Cell, cell_of, ours

CLOSE = 1.1  # the best rival's squared error over ours, up to which a cell is looked at again
_RESAMPLED = 2000
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
            ratio = _error(best, short) / cell.least(own, short)
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
            Verdict(again, short, name, ratio, *judged(again, own, name, short))
            for short, name, ratio in close
        ]
    return found


def judged(
    cell: Cell, own: Sequence[str], rival: str, short: bool, seed: int = 1
) -> tuple[float, float, float]:
    """The ratio of median squared errors, and its 95 % interval by resampling runs."""
    mine = [_errors(entry, short) for name in own if (entry := cell.of(name)) is not None]
    other = cell.of(rival)
    if other is None:
        raise AssertionError(f"{rival} was not run")
    theirs = _errors(other, short)
    ratio = float(np.median(theirs) / min(np.median(one) for one in mine))
    random = np.random.default_rng(seed)

    def medians(errors: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.median(random.choice(errors, (_RESAMPLED, errors.size)), axis=1)

    ratios = medians(theirs) / np.min([medians(one) for one in mine], axis=0)
    low, high = np.quantile(ratios, (0.025, 0.975)).tolist()
    return ratio, low, high


def _errors(entry: Entry, short: bool) -> NDArray[np.float64]:
    return np.array([one["short mse"] for one in entry.scores] if short else entry.mse)


def _error(entry: Entry, short: bool) -> float:
    return entry.short if short else entry.typical


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
            "the rival" if one.ratio < LOST else "ours",
        ]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)
