"""How `compare` shows a ranking, and which method it says to use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from experiments.claims.words import short

if TYPE_CHECKING:
    from experiments.compare import Entry

STAMP = "not private"
LEVEL = 0.95  # what has more than that of our squared error is no better
_RESAMPLED = 2000


def judged(
    entries: Sequence[Entry], own: Sequence[str], rival: str, short: bool
) -> tuple[float, float, float]:
    """Median squared error of a rival over the least of ours; its 95 % interval by resampled runs.

    Errors depend on θ, which is drawn in every run: medians of 20 runs differ by up to a half.
    """
    runs = {entry.name: _errors(entry, short) for entry in entries if entry.mse}
    mine, theirs = [runs[name] for name in own if name in runs], runs[rival]
    ratio = float(np.median(theirs) / min(np.median(one) for one in mine))
    random = np.random.default_rng(1)

    def medians(errors: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = np.median(
            random.choice(errors, (_RESAMPLED, errors.size)), axis=1
        )
        return found

    ratios = medians(theirs) / np.min([medians(one) for one in mine], axis=0)
    low, high = np.quantile(ratios, (0.025, 0.975)).tolist()
    return ratio, low, high


def _errors(entry: Entry, short: bool) -> NDArray[np.float64]:
    return np.array([one["short mse"] for one in entry.scores] if short else entry.mse)


def advice(ranked: list[Entry]) -> str:
    """Which method to use in long and in short ranges: `adaptive` where it is within 5 %."""
    entries = [entry for entry in ranked if not entry.refused]
    if not entries:
        return ""
    parts = []
    for kind, word in (("typical", "long"), ("short", "short")):
        errors = {entry.name: float(getattr(entry, kind)) for entry in entries}
        best = min(errors, key=errors.__getitem__)
        ours = [one for one in errors if one.startswith("adaptive")]
        own = min(ours, key=errors.__getitem__, default="")
        if own and errors[best] >= LEVEL * errors[own]:
            best = own
        less = own not in ("", best)
        told = ""
        if less:
            ratio, _, high = judged(entries, (own,), best, word == "short")
            told = f" ({ratio:.2f} of the MSE of {own}"
            told += "; by chance, perhaps: ask for more runs)" if high > 1 else ")"
        parts.append(f"for {word} ranges {best}{told}")
    return f"Use {', '.join(parts)}."


def ranking(promise: str, entries: list[Entry]) -> Table:
    """The methods of one table, best first; M/s: million values a second; kB: of the state."""
    title = f"{promise}: methods by median MSE ({STAMP})"
    table = Table(title=title, box=None, padding=(0, 1, 0, 0))
    columns = (
        *("rank", "method", "error of a sum", "MSE / best", "of a short range", "θ"),
        *("M/s", "kB"),
    )
    for column in columns:
        # Names are whole where the screen has room, and broken between words where it has not.
        table.add_column(column, overflow="fold", min_width=18 if column == "method" else None)
    best = entries[0].typical if entries else 0.0
    for rank, entry in enumerate(entries, start=1):
        ratio = f"{short(entry.typical / best)}" if best else ""
        table.add_row(
            str(rank),
            entry.name,
            _root(entry.typical),
            ratio,
            _root(entry.short),
            f"{entry.threshold:,.5g}",
            *("" if math.isnan(one) else f"{one:,.3g}" for one in (entry.speed, entry.state)),
        )
    return table


def _root(squared: float) -> str:
    return f"{math.sqrt(squared):,.0f}" if squared >= 100 else f"{math.sqrt(squared):.3g}"
