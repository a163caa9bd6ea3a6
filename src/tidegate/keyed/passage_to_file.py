"""Pass one keyed release into its file: in memory, or durably and exactly once.

`tidegate.keyed.transfer` gives it the rows of a source, and the ticks that end; of several columns
each has a passage of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate._context_managers import uninterrupted
from tidegate.durable.folder_lock import StateError
from tidegate.durable.input_digests import InputRecogniser
from tidegate.durable.output_writer import Format, OutputTarget
from tidegate.errors import SettingError, TidegateError
from tidegate.io import Batch, SinkError
from tidegate.io.file_kind_and_row_count import file_kind_of
from tidegate.keyed.durable_folder import DurableKeyed
from tidegate.keyed.key_names import key_texts
from tidegate.keyed.keyed_event_release import KeyedEventRelease
from tidegate.keyed.keyed_facts import keyed_facts
from tidegate.keyed.keyed_release import KeyedRelease
from tidegate.keyed.keyed_rows import KeyedRows
from tidegate.keyed.keyed_sink import ParquetKeyedSink, TextKeyedSink, open_keyed_sink
from tidegate.record.times.time_ranges_and_tables import Moment


@dataclass(frozen=True)
class KeyedTransferred:
    """The progress of a keyed release.

    Attributes:
        read: rows that were taken, dropped ones included.
        released: rows that there are.
        dropped: rows whose key was not declared. For the operator: not private.
        keys: keys that have rows.
        unmeasured: keys whose warm-up or hold-out is not over.
        held: how many more rows a shared hold-out needs.
    """

    read: int
    released: int
    dropped: int
    keys: int
    unmeasured: int
    held: int


class KeyedPassage(ABC):
    """A keyed release, its file, and additional public facts (`more`).

    Attributes:
        behind: rows are read again that it has taken before.
        news: rows were written that the facts beside the file do not know.
    """

    _sink: TextKeyedSink | ParquetKeyedSink | None = None
    behind = False
    news = False
    _done = False

    def __init__(self, release: KeyedRelease, late: str, more: Mapping[str, Any] | None) -> None:
        self._release, self._late, self._more = release, late, dict(more or {})

    @abstractmethod
    def take(self, batch: Batch) -> None:
        """Release rows of the source and write them."""

    @abstractmethod
    def close_ticks(self, moment: Moment) -> None:
        """Release the ticks of events that are over then."""

    @abstractmethod
    def complete(self) -> KeyedTransferred:
        """Complete the file at the end of the source."""

    @abstractmethod
    def fail(self, error: BaseException) -> None:
        """After an error, complete the file with the rows that may leave."""

    def show(self) -> bool:
        """Write the facts about the rows so far. False: there are none, or they cannot be read."""
        return self._sink is not None and self._sink.show(self._facts(complete=False))

    def abort(self) -> None:
        """Close the file without completing it; a complete file stays as it is."""
        if self._sink is not None:
            self._sink.abort()

    def _facts(self, *, complete: bool) -> dict[str, Any]:
        return {**keyed_facts(self._release, complete=complete), **self._more}

    def _completed(self, *, complete: bool) -> None:
        if self._sink is not None and not self._done:
            self._sink.complete(self._facts(complete=complete))
            self._done = complete

    def _outcome(self, unmeasured: int) -> KeyedTransferred:
        release = self._release
        return KeyedTransferred(
            release.seen,
            release.position,
            release.dropped,
            len(release.released_keys()),
            unmeasured,
            release.holding,
        )


class PassageOnce(KeyedPassage):
    """The passage of a new release without state. An existing file is replaced."""

    def __init__(
        self,
        release: KeyedRelease,
        output: str | Path | None,
        *,
        format: Format = None,  # noqa: A002  # as in `durable.transfer`
        late: str = "refuse",
        more: Mapping[str, Any] | None = None,
    ) -> None:
        if release.seen:
            raise SettingError(
                "release",
                "has taken rows already, which the file would lack. Transfer with a new release, "
                "or with a DurableKeyed (`transfer_durably`)",
            )
        super().__init__(release, late, more)
        self._output, self._format = output, format
        # Signals wait until rows are written: an interrupted push could not be described, and a
        # torn file not be completed.
        self._whole = uninterrupted if OutputTarget.to(output).regular else nullcontext

    def take(self, batch: Batch) -> None:
        """Release rows and write them."""
        with self._whole():
            self._write(self._release.push_rows(batch.users, batch.values, batch.times, self._late))

    def close_ticks(self, moment: Moment) -> None:
        """Release the ticks that are over, in pieces."""
        for end in self._release.ends_until(moment):
            with self._whole():
                self._write(self._release.close_ticks(end))

    def complete(self) -> KeyedTransferred:
        """End warm-ups, and complete the file."""
        with self._whole():
            unmeasured = self._release.unmeasured()
            self._release.finish()
            self._completed(complete=True)
        return self._outcome(unmeasured)

    def fail(self, error: BaseException) -> None:
        """Complete the file with what was released and charged; it says that it is not complete."""
        if not self._release.cut_short:
            with self._whole(), suppress(SinkError):  # the error that is under way says more
                self._completed(complete=False)

    def _write(self, rows: KeyedRows) -> None:
        if len(rows):
            kind = self._format() if callable(self._format) else self._format
            if self._sink is None:
                self._sink = open_keyed_sink(self._output, format=kind, clock=self._release.clock)
            self._sink.write(rows)
            self.news = True


_DIFFERS = (
    "the input differs from what was read before. Reusing noise on changed data would reveal the "
    "change. Give the same input from its beginning, or use another state folder and output, which "
    "is charged on top"
)


class DurablePassage(KeyedPassage):
    """The passage of a `DurableKeyed`: rows that it took before are recognised and skipped."""

    _sink: TextKeyedSink | None = None

    def __init__(
        self,
        state: DurableKeyed,
        output: str | Path,
        *,
        format: str | None = None,  # noqa: A002  # as in open_keyed_sink
        late: str = "refuse",
        more: Mapping[str, Any] | None = None,
    ) -> None:
        if output in (None, "-"):
            raise SettingError("output", "must be a file where --by has --state")
        if not file_kind_of(output, format).recoverable:
            raise SettingError("output", "must be a plain CSV or JSONL file where --by has --state")
        super().__init__(state.release, late, more)
        self._state, self._place, self._format = state, Path(output), format
        state.format = format
        self._sink = state.begun(self._place)
        state.expect(self._place)
        self._skip = state.release.seen
        self._recogniser: InputRecogniser | None = None

    @property
    def behind(self) -> bool:  # type: ignore[override]  # of others it is always False
        """Whether the source still repeats rows that were taken before."""
        return bool(self._skip)

    @property
    def ticks_over(self) -> int:
        """The number of released ticks, of the key with most."""
        release = self._release
        return release.ticks_over if isinstance(release, KeyedEventRelease) else 0

    def take(self, batch: Batch) -> None:
        """Skip rows that were taken before; commit the others, and write what is released."""
        known = min(self._skip, len(batch))
        if known:
            self._recognise(batch.part(0, known))
        if known < len(batch):
            self._write(self._state.push(batch.part(known), self._late, self._sink))

    def _recognise(self, old: Batch) -> None:
        self._recogniser = self._recogniser or self._state.recogniser()
        units = self._release.pipeline.lattice.units(old.values)
        if not self._recogniser.push(units, key_texts(old.users), old.times and old.times.ticks):
            raise StateError(_DIFFERS)
        self._skip -= len(old)

    def close_ticks(self, moment: Moment) -> None:
        """Release and commit the ticks that are over, in pieces."""
        self._close(self._release.ends_until(moment))

    def close_to(self, end: int) -> None:
        """Release and commit the ticks before number `end`, in pieces."""
        if isinstance(self._release, KeyedEventRelease):
            self._close(self._release.ends_before(end))

    def _close(self, ends: list[int]) -> None:
        for end in ends:
            self._write(self._state.close_ticks(end, self._sink))

    def check_all_read_again(self) -> None:
        """Refuse an input that is shorter than what was read before."""
        if self._skip:
            raise StateError(
                "the input ends before the place where the last run stopped. Give the whole input "
                "again"
            )

    def complete(self) -> KeyedTransferred:
        """Complete the file, until the next run."""
        self._completed(complete=True)
        return self._outcome(self._release.unmeasured())

    def fail(self, error: BaseException) -> None:
        """Write only what is committed: nothing else may leave, not even a threshold."""
        failed = isinstance(error, TidegateError) and not isinstance(error, SinkError)
        if failed and self._state.settled:
            self._completed(complete=False)

    def _write(self, rows: KeyedRows) -> None:
        if len(rows) and self._sink is None:
            clock = self._release.clock
            opened = open_keyed_sink(self._place, format=self._format, clock=clock, append_at=0)
            self._sink = opened  # type: ignore[assignment]  # only text can be continued
        if len(rows):
            self._sink.write(rows)  # type: ignore[union-attr]
            self.news = True
