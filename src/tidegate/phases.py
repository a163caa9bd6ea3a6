"""What runs after the hold-out: one stream per threshold, one after the other, for ever.

phase 0            phase 1            phase 2
├──────────┬─window┼──────────┬─window┼── …      each phase: its own θ, epoch, forest, segment
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate.courses import Course, course_state
from tidegate.errors import SnapshotError
from tidegate.gaps import Gap
from tidegate.lattice import FloatArray, IntArray
from tidegate.pieces import Piece, Trace
from tidegate.publish import Remainder
from tidegate.randomness import Epoch
from tidegate.recording import begun_segment
from tidegate.sealing import restore, state_of
from tidegate.segments import Segment
from tidegate.settings import digest
from tidegate.stream import Stream, resumed_stream, start_stream

if TYPE_CHECKING:
    from tidegate.pipeline import Pipeline

_ENDLESS = 1 << 62


@dataclass(frozen=True)
class Phase:
    """A stretch of the stream with one threshold: public facts."""

    start: int
    threshold: float
    epoch: str


class Phases:
    """Hands values to the stream of the present phase, and changes phase when it is time."""

    def __init__(self, pipeline: Pipeline, epoch: Epoch, threshold: int, origin: int) -> None:
        self._pipeline = pipeline
        self._epoch = epoch
        self._origin = origin
        self._reselect = pipeline.reselect
        self._remainder = Remainder() if pipeline.non_negative else None
        self._window: IntArray = np.empty(0, dtype=np.int64)  # raw values of the open window
        self._collected = 0
        self.number = 0
        self.phases: list[Phase] = []
        self.log: list[Piece] | None = None  # a journal wants to know what is released
        self.segments: list[Segment | Course | Gap] = []
        self.stream = self._begin(threshold, origin)
        self._plain = 0  # values until a window opens
        self._look_ahead()

    @property
    def position(self) -> int:
        """How many values have been released."""
        return self.segments[-1].end

    def reach(self, most: int) -> int:
        """How many of the next `most` values belong together."""
        if self._plain:
            return min(most, self._plain)
        return min(most, self._window.size - self._collected)

    def push(self, units: IntArray, out: FloatArray) -> None:
        """Release one piece, no longer than `reach` allows."""
        if self._plain:
            self._push_stream(units, out)
            self._plain -= units.size
            self._open_window_if_due()
        else:
            self._push_window(units, out)
        if self._remainder is not None:
            self._remainder.settle(out)

    def push_one(self, unit: int) -> float:
        """Release one value, without arrays where that is possible."""
        if self._plain > 1 and self.log is None:
            self._plain -= 1
            value = self.stream.push_one(unit)
            return value if self._remainder is None else self._remainder.settle_one(value)
        out = np.zeros(1)
        self.push(np.array([unit]), out)
        return out.item()

    def _push_stream(self, units: IntArray, out: FloatArray) -> None:
        trace = self.stream.push(units, out)
        if self.log is not None and self._pipeline.guided:
            trace.keep(out)
        self._note(units.size, None, trace)

    def _note(self, count: int, blocked: float | None, trace: Trace) -> None:
        if self.log is not None:
            end = self.position
            phase, first = self.phases[-1].start, self.stream.first
            self.log.append(Piece(end - count, end, phase, first, blocked, trace))

    # -- windows and switches --------------------------------------------------------------------

    def _look_ahead(self) -> None:
        """How far it is to the next window; it may open at once."""
        self._plain = _ENDLESS
        if self._reselect is not None:
            opening = self._reselect.opening(self.number, self._pipeline.perturber.block)
            if opening is not None:
                self._plain = opening - (self.position - self._origin)
        self._open_window_if_due()

    def _open_window_if_due(self) -> None:
        if self._plain:
            return
        if self._reselect is None:  # after 2^62 values
            raise OverflowError("the stream is too long")
        block = self._pipeline.perturber.block
        switch = self._reselect.switch(self.number, block)
        length = (switch or 0) - (self.position - self._origin)
        self._window, self._collected = np.zeros(length, dtype=np.int64), 0
        stream = self.stream
        if self._reselect.blocking:
            self.segments.append(
                Gap(
                    origin=self.position,
                    end=self.position,
                    prediction=stream.level,
                    threshold=stream.threshold,
                    step=self._pipeline.lattice.step,
                    epoch=f"{stream.segment.epoch} blocked",
                )
            )

    def _push_window(self, units: IntArray, out: FloatArray) -> None:
        """Values that will choose the next threshold; also released, unless they are blocked."""
        gap = self.segments[-1]
        if isinstance(gap, Gap):
            out[:] = gap.prediction * self._pipeline.lattice.step
            gap.end += units.size
            self._note(units.size, gap.prediction, Trace())
        else:
            self._push_stream(units, out)
        self._window[self._collected : self._collected + units.size] = units
        self._collected += units.size
        if self._collected == self._window.size:
            self._switch()

    def _switch(self) -> None:
        stage = self._pipeline.reselect.threshold  # type: ignore[union-attr]  # a window was open
        self.number += 1
        identity = digest({**self._pipeline.resolved(), "phase": self.number})
        keystream = self._epoch.child(self.number).keystream("threshold", identity)
        # A blocked window may be longer, up to whole blocks: the last values count.
        chosen = stage.choose(self._window[-stage.holdout :], self._pipeline.lattice, keystream)
        self._window.fill(0)  # raw values are not kept longer than needed
        self._window, self._collected = np.empty(0, dtype=np.int64), 0
        self.stream = self._begin(chosen, self.position)
        self._look_ahead()
        self._forget()

    def _begin(self, threshold: int, origin: int) -> Stream:
        epoch = self._epoch if self.number == 0 else self._epoch.child(self.number)
        stream = start_stream(self._pipeline, threshold, epoch, origin)
        self.segments.append(stream.segment)
        step = self._pipeline.lattice.step
        self.phases.append(Phase(origin, threshold * step, epoch.id.hex()))
        return stream

    def _forget(self) -> None:
        """Drop segments and phases that are older than the history."""
        oldest = self.position - self._pipeline.kept_history
        while len(self.segments) > 1 and self.segments[0].end <= oldest:
            del self.segments[0]
        while len(self.phases) > 1 and self.phases[1].start <= oldest:
            del self.phases[0]

    # -- state -----------------------------------------------------------------------------------

    def state(self, brief: bool) -> dict[str, Any]:
        """All that is needed to go on; `brief` leaves out what only queries about the past need."""
        segments = self.segments[-2:] if brief else self.segments
        return {
            "number": self.number,
            "phases": [[phase.start, phase.threshold, phase.epoch] for phase in self.phases],
            "window": self._window,
            "collected": self._collected,
            "plain": self._plain,
            "remainder": self._remainder and state_of(self._remainder),
            "stream": self.stream.state(),
            "segments": [segment_state(segment, brief) for segment in segments],
        }

    @classmethod
    def resumed(
        cls, pipeline: Pipeline, epoch: Epoch, origin: int, state: dict[str, Any]
    ) -> Phases:
        """Go on from a saved state."""
        run = cls(pipeline, epoch, state["stream"]["threshold"], origin)
        run.number = state["number"]
        run.phases = [Phase(*phase) for phase in state["phases"]]
        run._window, run._collected = state["window"], state["collected"]
        run._plain = state["plain"]
        if run._remainder is not None:
            restore(run._remainder, state["remainder"])
        segments = [restored_segment(pipeline, item) for item in state["segments"]]
        present = next(item for item in reversed(segments) if not isinstance(item, Gap))
        stream_epoch = epoch if run.number == 0 else epoch.child(run.number)
        if present.epoch != stream_epoch.id.hex():
            raise SnapshotError("its parts do not belong together")
        run.stream = resumed_stream(pipeline, stream_epoch, present)
        run.stream.restore(state["stream"])
        run.segments = segments
        return run


def segment_state(segment: Segment | Course | Gap, brief: bool = False) -> dict[str, Any]:
    """A segment as plain data; `brief` keeps the last blocks only."""
    shared = {"origin": segment.origin, "threshold": segment.threshold, "epoch": segment.epoch}
    if isinstance(segment, Course):
        return {**shared, "state": course_state(segment, brief)}
    if isinstance(segment, Gap):
        return {**shared, "end": segment.end, "prediction": segment.prediction}
    if brief:  # not by `state_of`, which would copy the whole history at every commit
        table = segment.last_blocks(segment.RESIDUALS + 1)
        state = {"closed": segment.closed, "filled": segment.filled, "table": table}
    else:
        state = state_of(segment)
    return {**shared, "state": state}


def restored_segment(pipeline: Pipeline, state: dict[str, Any]) -> Segment | Course | Gap:
    """The segment that `segment_state` was taken of."""
    shared = {name: state[name] for name in ("origin", "threshold", "epoch")}
    if "end" in state:
        end, prediction = state["end"], state["prediction"]
        return Gap(**shared, end=end, prediction=prediction, step=pipeline.lattice.step)
    segment = begun_segment(pipeline, **shared)
    restore(segment, state["state"])
    return segment
