"""Write released rows and their metadata to a file, to standard output or to a sink."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tidegate._context_managers import uninterrupted
from tidegate.clock import Clock
from tidegate.durable.durable_release import DurableRelease
from tidegate.durable.release_in_memory import ReleaseInMemory
from tidegate.errors import SettingError, TidegateError
from tidegate.io import FunctionSink, Sink, SinkError, open_sink
from tidegate.io.file_kind_and_row_count import is_standard
from tidegate.record.rows_and_levels import Rows

# Some metadata carries the whole record, which grows. It is written again when the file has grown
# by this factor, so that all writes together cost a small multiple of the last one.
_GROWTH = 1.1


Format = str | Callable[[], str] | None


@dataclass(frozen=True)
class OutputTarget:
    """The destination of released rows.

    Attributes:
        path: a file; None: standard output, or `sink`.
        format: the file format, where the extension does not tell; a function is asked when the
            first row is written.
        sink: an open sink, in place of a path.
    """

    path: str | None
    format: Format = None
    sink: Sink | None = None

    @classmethod
    def to(cls, target: Any, format: Format = None) -> OutputTarget:  # noqa: A002  # as in open_sink
        """The output from the argument of `transfer`: a path, None or "-", a sink or a function."""
        if target is None or isinstance(target, str | Path):
            return cls(None if is_standard(target) else str(target), format)
        if hasattr(target, "set_metadata"):
            return cls(None, format, cast("Sink", target))
        if callable(target):
            return cls(None, format, FunctionSink(target))
        raise SettingError(
            "sink", f"must be a path, a sink or a function, not {type(target).__name__}"
        )

    def rows_held(self, clock: Callable[[], Clock | None]) -> int | None:
        """How many rows a sink such as a broker already has. None: it cannot tell.

        `clock`: says how it writes times, once they are known.
        """
        tell = getattr(self.sink, "rows_held", None)
        return None if tell is None else int(tell(clock))

    @property
    def regular(self) -> bool:
        """Whether this is a regular file, so that writing never waits for a reader."""
        place = Path(self.path or "")
        return self.path is not None and (place.is_file() or not place.exists())

    def opened(self, append_at: int, clock: Clock | None) -> Sink:
        """Open the sink; a file is continued after `append_at` rows."""
        if self.sink is not None:
            return self.sink
        append = append_at or None
        kind = self.format() if callable(self.format) else self.format
        return open_sink(self.path, format=kind, append_at=append, leveled=True, clock=clock)


class OutputWriter:
    """A sink that is opened when the first row arrives.

    After an error it still completes the file: what was released was paid for, and stays readable.
    The metadata says `"complete": false` until the input has come to its end.

    Args:
        output: where to write.
        run: the release. Its `facts` and `phases` leave with the file, so they must not tell of a
            push that was not committed: not even its threshold.
        append_at: continue a file after this many rows.
        warn: called with a problem that occurred in addition to an error.
        more: public facts, beside those of the run.
    """

    def __init__(
        self,
        output: OutputTarget,
        run: DurableRelease | ReleaseInMemory,
        append_at: int,
        warn: Callable[[str], None],
        more: Mapping[str, Any] | None = None,
    ) -> None:
        self._more = dict(more or {})
        self._output, self._append_at = output, append_at
        self._run = run
        self._warn = warn
        self._sink: Sink | None = None
        self._known = 0  # phases in the metadata that was stored
        self._due: float = math.inf  # the position at which it is stored again

    def __enter__(self) -> OutputWriter:
        return self

    def write(self, rows: Rows) -> None:
        """Write and flush rows; metadata is stored whenever a threshold was chosen."""
        end = rows.first + rows.values.size
        if end == rows.first:
            return
        with self._whole():
            new = self._sink is None  # its rows may come before any threshold, in a warm-up
            sink = self._opened()
            # Before its rows: a reader may be close behind.
            if new or len(self._run.phases) != self._known or end >= self._due:
                self._describe(sink, complete=False)
            sink.write(rows.first, rows.values, rows.levels, rows.times)
            sink.flush()

    def __exit__(self, kind: Any, error: BaseException | None, trace: object) -> None:
        # A run that added nothing completes the metadata of a file. One that released nothing at
        # all leaves no file, and above all replaces none.
        if self._sink is None and error is None and self._output.path is not None:
            facts = self._run.facts()
            # The next run of a state must find a chosen threshold in its output.
            if facts["released"] or (self._run.resumable and facts["phases"]):
                self._opened()
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
        """Delay signals until rows are written: a compressed file could not be completed."""
        return uninterrupted() if self._output.regular else nullcontext()

    def _end_early(self, sink: Sink, error: BaseException) -> None:
        """Keep what was written. Report only the first of further problems."""
        problems: list[str] = []
        steps: list[Callable[[], None]] = [lambda: self._describe(sink, complete=False), sink.close]
        for step in steps:
            try:
                step()
            except TidegateError as problem:
                problems.append(str(problem))
        if problems and not isinstance(error, SinkError):
            self._warn(problems[0])

    def _describe(self, sink: Sink, *, complete: bool) -> None:
        facts = self._run.facts()
        self._known = len(facts["phases"])
        self._due = _GROWTH * facts["released"] if "record" in facts else math.inf
        sink.set_metadata({**facts, **self._more, "complete": complete})

    def _opened(self) -> Sink:
        if self._sink is None:
            self._sink = self._output.opened(self._append_at, self._run.clock)
        return self._sink
