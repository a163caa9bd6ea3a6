"""A progress bar with rate and time left, on a terminal that shows no data."""

from __future__ import annotations

import sys
from typing import Any

from tidegate.io import Source


class Progress:
    """Counts values; draws a bar on stderr if that is a terminal.

    Args:
        source: that is read.
        quiet: draw nothing.
        output: where rows go. On a terminal they would share lines with the bar: none is drawn.
        first: how many values pass before anything is measured: the warm-up, or the hold-out.
    """

    def __init__(
        self, source: Source, *, quiet: bool, output: str | None = None, first: int = 0
    ) -> None:
        self._source = source
        mixed = output in (None, "-") and sys.stdout.isatty()
        self._shown = not quiet and sys.stderr.isatty() and not mixed
        self._first = first
        self._bar: Any = None
        self._task: Any = None
        self._count = 0

    def __enter__(self) -> Progress:
        if self._shown:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                TextColumn("{task.fields[count]:,} values, {task.fields[rate]:,.0f}/s"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            total = None if self._source.fraction() is None else 1.0
            self._task = self._bar.add_task(self._doing, total=total, count=0, rate=0.0)
            self._bar.start()
        return self

    def advance(self, values: int) -> None:
        """Count this many more values."""
        self._count += values
        if self._bar is not None:
            elapsed = self._bar.tasks[0].elapsed or 1e-9
            self._bar.update(
                self._task,
                description=self._doing,
                completed=self._source.fraction() or 0.0,
                count=self._count,
                rate=self._count / elapsed,
            )

    @property
    def _doing(self) -> str:
        """The present activity, such as reading or releasing."""
        if self._count < self._first:
            return f"warming up ({self._first - self._count:,} values left)"
        return "releasing"

    def close(self) -> None:
        """Remove the bar, so that other lines can be printed."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __exit__(self, *reason: object) -> None:
        self.close()
