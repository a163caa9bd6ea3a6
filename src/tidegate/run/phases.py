"""What runs after the hold-out: one stream per threshold, one after the other, for ever.

phase 0            phase 1            phase 2
├───────┬─selection┼───────┬─selection┼── …      each phase: its own θ, epoch, forest, segment
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate.errors import SnapshotError
from tidegate.lattice import FloatArray, IntArray
from tidegate.randomness import Epoch
from tidegate.record.codec import restored_segment, segment_state
from tidegate.record.entry import JournalEntry, Trace
from tidegate.record.segment import Segment
from tidegate.run.non_negative import Remainder
from tidegate.run.reselection import Reselection
from tidegate.run.stream import Stream
from tidegate.run.warm_up import HoldOut
from tidegate.sealing import restore, state_of
from tidegate.settings import digest
from tidegate.stages import ENDLESS

if TYPE_CHECKING:
    from tidegate.run.pipeline import Pipeline


@dataclass(frozen=True)
class Phase:
    """A stretch of the stream with one threshold: public facts."""

    start: int
    threshold: float
    epoch: str


class Phases:
    """A state machine: the stream of the present phase, then a selection, then the next phase.

    `_plain` counts the values until the next selection; while it is 0, a selection is open and
    `_selection` collects its values. When these are complete, they choose θ, and a phase begins.
    """

    warming, known = 0, 0  # no warm-up is released here: see `tidegate.run.refined`

    def __init__(
        self,
        pipeline: Pipeline,
        epoch: Epoch,
        origin: int,
        *,
        threshold: int | None = None,
        state: dict[str, Any] | None = None,
    ) -> None:
        """Begin with a threshold, or continue from `state`."""
        self._pipeline = pipeline
        self._epoch = epoch
        self._origin = origin
        again = pipeline.reselect
        self._reselect = again if isinstance(again, Reselection) else None
        self._remainder = Remainder() if pipeline.non_negative else None
        self._selection = HoldOut(0)  # raw values that will choose the next threshold
        self.number = 0
        self.phases: list[Phase] = []
        self.log: list[JournalEntry] | None = None  # a journal wants to know what is released
        self.segments: list[Segment] = []
        self._plain = 0  # values until the next selection begins
        if state is not None:
            self.stream = self._resumed(state)
        elif threshold is not None:
            self.stream = self._begin(threshold, origin)
            self._look_ahead()
        else:
            raise AssertionError("phases begin with a threshold, or with a state")

    @property
    def threshold(self) -> int:
        """θ of the present phase, in lattice units."""
        return self.stream.threshold

    @property
    def position(self) -> int:
        """How many values have been released."""
        return self.segments[-1].end

    def reach(self, most: int) -> int:
        """How many of the next `most` values belong together."""
        if self._plain:
            return min(most, self._plain)
        return min(most, self._selection.missing)

    def push(self, units: IntArray, out: FloatArray) -> None:
        """Release one piece, no longer than `reach` allows."""
        if self._plain:
            self._push_stream(units, out)
            self._plain -= units.size
            self._begin_selection_if_due()
        else:
            self._push_selection(units, out)
        if self._remainder is not None:
            self._remainder.settle(out)

    def push_one(self, unit: int) -> float:
        """Hand one value to the stream of the present phase, without arrays where possible."""
        if self._plain > 1 and self.log is None:
            self._plain -= 1
            value = self.stream.push_one(unit)
            return value if self._remainder is None else self._remainder.settle_one(value)
        out = np.zeros(1)
        self.push(np.array([unit]), out)
        return out.item()

    def finish(self) -> None:
        """Do nothing: no warm-up is open when a stream ends."""

    def _push_stream(self, units: IntArray, out: FloatArray) -> None:
        trace = self.stream.push(units, out)
        self._note(units.size, self.stream.first, True, trace)

    def _note(self, count: int, first: float, measured: bool, trace: Trace) -> None:
        if self.log is not None:
            end, phase = self.position, self.phases[-1].start
            self.log.append(JournalEntry(end - count, end, phase, first, measured, trace))

    # -- selections ------------------------------------------------------------------------------

    def _look_ahead(self) -> None:
        """Count the values until the next selection; it may begin at once."""
        self._plain = ENDLESS
        if self._reselect is not None:
            opening = self._reselect.opening(self.number, self._pipeline.perturber.block)
            if opening is not None:
                self._plain = opening - (self.position - self._origin)
        self._begin_selection_if_due()

    def _begin_selection_if_due(self) -> None:
        if self._plain:
            return
        if self._reselect is None:  # after 2^62 values
            raise OverflowError("the stream is too long")
        block = self._pipeline.perturber.block
        switch = self._reselect.switch(self.number, block)
        length = (switch or 0) - (self.position - self._origin)
        self._selection = HoldOut(length)
        stream = self.stream
        if self._reselect.blocking:
            self.segments.append(
                Segment(
                    self._pipeline.method,
                    threshold=stream.threshold,
                    origin=self.position,
                    epoch=f"{stream.segment.epoch} blocked",
                    prediction=stream.level,
                )
            )

    def _push_selection(self, units: IntArray, out: FloatArray) -> None:
        """Collect values for the next threshold. They are released too, unless they are blocked."""
        gap = self.segments[-1]
        if gap.prediction is not None:
            out[:] = gap.prediction * self._pipeline.lattice.step
            gap.end += units.size
            self._note(units.size, gap.prediction, False, Trace())
        else:
            self._push_stream(units, out)
        self._selection.add(units)
        if not self._selection.missing:
            self._switch()

    def _switch(self) -> None:
        stage = self._reselect.threshold  # type: ignore[union-attr]  # a window was open
        self.number += 1
        identity = digest({**self._pipeline.resolved(), "phase": self.number})
        keystream = self._epoch.child(self.number).keystream("threshold", identity)
        # A blocked selection may be longer, up to whole blocks: the last values count.
        held = self._selection.units[-stage.holdout :]
        chosen = stage.choose(held, self._pipeline.lattice, keystream)
        self._selection.wipe()  # raw values are not kept longer than needed
        self.stream = self._begin(chosen, self.position)
        self._look_ahead()
        forget(self.segments, self.phases, self.log, self._pipeline.kept_history)

    def _begin(self, threshold: int, origin: int) -> Stream:
        epoch = self._stream_epoch()
        method = self._pipeline.method
        segment = Segment(method, threshold=threshold, origin=origin, epoch=epoch.id.hex())
        self.segments.append(segment)
        step = self._pipeline.lattice.step
        self.phases.append(Phase(origin, threshold * step, epoch.id.hex()))
        return Stream(self._pipeline, epoch, segment)

    def _stream_epoch(self) -> Epoch:
        return self._epoch if self.number == 0 else self._epoch.child(self.number)

    # -- state -----------------------------------------------------------------------------------

    def state(self, brief: bool) -> dict[str, Any]:
        """All that is needed to go on; `brief` leaves out what only queries about the past need."""
        segments = self.segments[-2:] if brief else self.segments
        return {
            "number": self.number,
            "phases": [[phase.start, phase.threshold, phase.epoch] for phase in self.phases],
            "selection": self._selection.units,
            "missing": self._selection.missing,
            "plain": self._plain,
            "remainder": self._remainder and state_of(self._remainder),
            "stream": self.stream.state(),
            "segments": [segment_state(segment, brief) for segment in segments],
        }

    def _resumed(self, state: dict[str, Any]) -> Stream:
        self.number = state["number"]
        self.phases = [Phase(*phase) for phase in state["phases"]]
        held = state["selection"]
        self._selection = HoldOut(held.size + state["missing"])
        self._selection.add(held)
        self._plain = state["plain"]
        if self._remainder is not None:
            restore(self._remainder, state["remainder"])
        method = self._pipeline.method
        self.segments = [restored_segment(method, item) for item in state["segments"]]
        present = next(item for item in reversed(self.segments) if item.measured)
        epoch = self._stream_epoch()
        if present.epoch != epoch.id.hex():
            raise SnapshotError("its parts do not belong together")
        return Stream(self._pipeline, epoch, present, state["stream"])


def forget(
    segments: list[Segment], phases: list[Phase], log: list[JournalEntry] | None, history: int
) -> None:
    """Drop segments and phases that are older than the history.

    A phase that pieces of the log belong to is kept: one push can be longer than the history,
    and who keeps the journal asks for its phases only afterwards.
    """
    oldest = segments[-1].end - history
    while len(segments) > 1 and segments[0].end <= oldest:
        del segments[0]
    if log:
        oldest = min(oldest, log[0].phase_start)
    while len(phases) > 1 and phases[1].start <= oldest:
        del phases[0]
