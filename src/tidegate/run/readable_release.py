"""The readable side of a release: public facts, and answers from its record."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from tidegate.clock import Clock
from tidegate.errors import QueryError, TidegateError
from tidegate.guarantee import Guarantee, sequential
from tidegate.ownership import Ownership
from tidegate.randomness import Epoch
from tidegate.record.range_queries_and_answers import Answers, RangeQueries
from tidegate.record.rows_and_levels import small_picture_of_rows
from tidegate.run.hold_out import HoldOut
from tidegate.run.phased_run import Phase
from tidegate.run.refinement_run import RefinementRun
from tidegate.run.snapshot import record_as_snapshot
from tidegate.run.threshold_phases import ThresholdPhases
from tidegate.run.user_cap import UserCap
from tidegate.tables import html

if TYPE_CHECKING:
    from tidegate.record.record import Record
    from tidegate.run.event_run import EventRun
    from tidegate.run.pipeline import Pipeline
    from tidegate.run.timeline import Timeline
    from tidegate.timestamps import Times


class ReadableRelease(RangeQueries):
    """The read-only side of a `Release`: nothing here changes it or shows a raw value."""

    pipeline: Pipeline
    _epoch: Epoch
    _charges: list[Guarantee]
    _stated: tuple[int, str]  # the guarantee as text, and after how many charges
    _origin: int
    _seen: int  # inputs taken, the hold-out included
    _holdout: HoldOut
    _ownership: Ownership
    _cap: UserCap | None
    _timeline: Timeline | None
    _run: ThresholdPhases | RefinementRun | EventRun | None

    @property
    def position(self) -> int:
        """How many values have been released."""
        return self._run.position if self._run else self._origin

    @property
    def seen(self) -> int:
        """How many values have been taken, including the hold-out."""
        return self._seen

    @property
    def holding(self) -> int:
        """How many more values the hold-out will take before anything is released."""
        return 0 if self._run else self._holdout.missing

    @property
    def warming(self) -> int:
        """How many more values the open warm-up needs before their sum is known; 0: none is open.

        Their rows are released at once, as a forecast: 0 at first.
        """
        with self._ownership.lock:
            self._ownership.check()  # a phase that an interrupted push began was never returned
            return self._run.warming if self._run else 0

    @property
    def threshold(self) -> float | None:
        """θ in the unit of the data; None before it is chosen. Public once chosen."""
        phases = self.phases
        return phases[-1].threshold if phases else None

    @property
    def floor(self) -> float | None:
        """The lower cap, 0 unless `lower` is below it; None before it is chosen."""
        phases = self.phases
        return phases[-1].floor if phases else None

    @property
    def level(self) -> float | None:
        """The expected value of one more row, from released data: for display.

        It is smooth and within the bounds, unlike single released values, which carry corrections
        of the running sum. Post-processing: it costs no privacy. None during a hold-out; 0 in a
        first warm-up, when nothing is known yet.
        """
        with self._ownership.lock:
            self._ownership.check()
            if self._run is None:
                return None
            level = np.array([self._run.level])
            self.pipeline.lattice.bounded(level)
            return float(level[0])

    @property
    def phases(self) -> list[Phase]:
        """The thresholds within the history, each with its first position and its epoch.

        Privacy: a threshold of an interrupted push is not shown. Resuming and pushing other values
        would choose another one with the same coins, and both together reveal more than ε.
        """
        with self._ownership.lock:
            self._ownership.check()
            return list(self._run.phases) if self._run else []

    @property
    def epoch(self) -> str:
        """The public id of this run's noise."""
        return self._epoch.id.hex()

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for every value of the source, forks included."""
        return sequential(*self._charges)

    @property
    def record(self) -> Record:
        """A copy of the released block sums, from which queries are answered.

        The copy does not change while more is released: it never contains what a later push
        measures and perhaps never returns.
        """
        from tidegate.record.record_view import RecordView  # on demand, as `Record`

        with self._ownership.lock:
            return RecordView(self._growing_record())

    def _growing_record(self) -> Record:
        """The record itself, which later pushes change: only for a caller that holds the lock."""
        from tidegate.record.record import Record  # on demand: who only pushes needs none of it

        with self._ownership.lock:
            self._ownership.check()  # what an interrupted push measured was never returned
            if self._run is None or not self._run.segments:
                ticks = self.pipeline.ticks is not None
                raise QueryError(nothing_readable_yet(self.holding, self.warming, ticks=ticks))
            if self._stated[0] != len(self._charges):  # a fork, here or elsewhere, was charged
                self._stated = len(self._charges), str(self.guarantee)
            times = None if self._timeline is None else self._timeline.index
            return Record(self._run.segments, self._stated[1], times)

    @property
    def clock(self) -> Clock | None:
        """Zone and text form of the times; None: no value has had a time so far."""
        return None if self._timeline is None else self._timeline.clock

    @property
    def user_cap(self) -> UserCap | None:
        """The counter of each user's values, if users are the unit of privacy."""
        return self._cap

    def derived_key(self, purpose: str) -> bytes:
        """A key for journals and digests of this run; it reveals nothing about the noise."""
        return self._epoch.derived_key(purpose)

    def __repr__(self) -> str:
        return f"<Release position={self.position} {self._in_words('=')}; {self.guarantee}>"

    def _in_words(self, sign: str = " ") -> str:
        """The progress as text. Never waits or fails: debuggers and logs call it."""
        run, words = self._run, f"holding {self.holding:,} more"
        if run is not None and run.phases:
            words = f"threshold{sign}{run.phases[-1].threshold:g}"
        elif run is not None:
            words = f"warming up for {run.warming:,} more"
        # Checked last: what was read above may come from a push that has not returned.
        return "a push is under way, or was cut short" if self._ownership.cut_short else words

    def _repr_html_(self) -> str:
        """Public facts and a picture of what was released, for a notebook."""
        picture = ""
        # Nothing is measured yet, a push was interrupted, or this is a forked process.
        with suppress(TidegateError), self._ownership.lock:
            picture = small_picture_of_rows(self._growing_record())
        rows = [
            ("released", f"{self.position:,} values"),
            ("state", self._in_words()),
            ("guarantee", self.guarantee),
        ]
        return html.facts("Release", rows, picture)

    def _answered(self, ask: Callable[[Record], Answers]) -> Answers:
        with self._ownership.lock:  # a push of another thread would change what is being read
            return ask(self._growing_record())

    def note_times(self, times: Times, first: int, held: int = 0) -> None:
        """Note the times of the values from `first` on; the first `held` are held out."""
        if self._timeline is None:
            from tidegate.run.timeline import Timeline  # on demand: few streams have times

            self._timeline = Timeline(times.clock)
        self._timeline.take(times, first, held)

    def save_record(self) -> bytes:
        """The record as bytes, to be stored and asked later with `tidegate.load_record`.

        It holds released data and public facts only.
        """
        with self._ownership.lock:
            record = self._growing_record()
            return record_as_snapshot(self.pipeline, self.epoch, self.position, record)


def nothing_readable_yet(holding: int, warming: int, *, ticks: bool = False) -> str:
    """The reason why queries have no answer yet."""
    if warming and ticks:
        return (
            f"nothing is measured yet: the warm-up needs {warming} more ticks. Ticks are released "
            "by advance(until); call finish(until) if the log is over"
        )
    if warming:
        return (
            f"nothing is measured yet: the warm-up needs {warming} more values. The rows so far "
            "are placeholders; call finish() if the stream is over"
        )
    return f"nothing is released yet: the hold-out needs {holding} more"
