"""Released values on their way out, with their metadata."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.cli.exits import complain
from tidegate.cli.signals import uninterrupted
from tidegate.errors import TidegateError
from tidegate.io import Sink, SinkError, open_sink
from tidegate.lattice import FloatArray

# A record that published values do not tell is part of the facts, and grows: it is written when
# the file has grown by this factor since the last time, which costs little however long it gets.
_GROWTH = 1.1


@dataclass
class Output:
    """Where released values go."""

    path: str | None
    format: str | None

    @property
    def standard(self) -> bool:
        """Whether this is standard output."""
        return self.path in (None, "-")

    @property
    def regular(self) -> bool:
        """Whether this is a file, which takes what it is given without waiting for a reader."""
        place = Path(self.path or "")
        return not self.standard and (place.is_file() or not place.exists())


class Writer:
    """A sink that is opened when the first value comes.

    On an error it still completes the file: what was released was paid for, and stays readable. The
    metadata of such a file says `"complete": false`, and so does that of a file in the making.

    Args:
        output: where to write.
        facts: the public facts of what was released. They leave with the file, so they must hold
            nothing that is not committed: of a push that failed half-way, not even its threshold.
        phases: how many thresholds there are by now.
        append_at: continue after so many rows.
    """

    def __init__(
        self,
        output: Output,
        facts: Callable[[], dict[str, Any]],
        phases: Callable[[], int],
        append_at: int = 0,
    ) -> None:
        self._output = output
        self._facts = facts
        self._phases = phases
        self._append_at = append_at
        self._sink: Sink | None = None
        self._known = 0  # phases in the facts that were stored
        self._due: float = math.inf  # the position at which they are stored again

    def __enter__(self) -> Writer:
        return self

    def write(self, first: int, values: FloatArray) -> None:
        """Write and flush; facts are stored whenever a threshold was chosen."""
        if not values.size:
            return
        with self._whole():
            new = self._sink is None  # its rows may come before any threshold: a warm-up
            sink = self._opened()
            # Before its rows: a reader may be close behind.
            if new or self._phases() != self._known or first + values.size >= self._due:
                self._describe(sink, complete=False)
            sink.write(first, np.asarray(values))
            sink.flush()

    def __exit__(self, kind: Any, error: BaseException | None, trace: object) -> None:
        if self._sink is None and error is None and not self._output.standard:
            self._opened()  # an empty stream is a file too
        if self._sink is None:
            return
        with self._whole():
            try:
                if error is None:
                    self._describe(self._sink, complete=True)
                    self._sink.close()
                else:
                    self._end_early(self._sink, error)
            finally:
                self._sink.abort()

    def _whole(self) -> AbstractContextManager[None]:
        """A signal waits until rows are written, or a packed file could not be completed."""
        return uninterrupted() if self._output.regular else nullcontext()

    def _end_early(self, sink: Sink, error: BaseException) -> None:
        """Keep what was written; of further problems only the first is told, and once."""
        problems: list[str] = []
        steps: list[Callable[[], None]] = [lambda: self._describe(sink, complete=False), sink.close]
        for step in steps:
            try:
                step()
            except TidegateError as problem:
                problems.append(str(problem))
        if problems and not isinstance(error, SinkError):
            complain(problems[0])

    def _describe(self, sink: Sink, *, complete: bool) -> None:
        facts = self._facts()
        self._known = len(facts["phases"])
        self._due = _GROWTH * facts["released"] if "record" in facts else math.inf
        sink.set_metadata({**facts, "complete": complete})

    def _opened(self) -> Sink:
        if self._sink is None:
            self._sink = open_sink(
                self._output.path, format=self._output.format, append_at=self._append_at or None
            )
        return self._sink
