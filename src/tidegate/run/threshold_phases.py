"""`ThresholdPhases`: the run after a hold-out: one stream per threshold, one after the other.

phase 0            phase 1            phase 2
├───────┬─selection┼───────┬─selection┼── …      each phase: its own θ, epoch, forest, segment
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from tidegate.lattice import FloatArray, IntArray
from tidegate.record.segments.journal_entry import JournalEntry, JournalTrace
from tidegate.record.segments.segment import Segment
from tidegate.run.hold_out import HoldOut
from tidegate.run.phased_run import PhasedRun, PhaseKeys
from tidegate.run.stream_of_one_phase import PhaseStream
from tidegate.run.two_sided_caps import Ends, choose_caps
from tidegate.settings import digest
from tidegate.stages import ENDLESS


class ThresholdPhases(PhasedRun):
    """A state machine: one phase, then the selection of a threshold, then the next phase.

    `_plain` counts the values until the next selection; while it is 0, a selection is open and
    `_selection` collects its values. When these are complete, they choose θ, and a phase begins.
    """

    warming, evidence = 0, 0  # no warm-up is released here: see `tidegate.run.refinement_run`

    def __init__(
        self, keys: PhaseKeys, *, ends: Ends | None = None, state: dict[str, Any] | None = None
    ) -> None:
        """Begin with both caps, or continue from `state`."""
        super().__init__(keys)
        self._schedule = self._pipeline.schedule
        self._selection = HoldOut(0)  # raw values that will choose the next threshold
        self._plain = 0  # values until the next selection begins
        if state is not None:
            self.stream = self._resumed(state)
        elif ends is not None:
            self.stream = self._begin(ends, self._origin)
            self._look_ahead()
        else:
            raise AssertionError("phases begin with a threshold, or with a state")

    @classmethod
    def after_hold_out(cls, keys: PhaseKeys, held: IntArray) -> Self:
        """Choose the first threshold from these raw values, and begin with it."""
        pipeline, epoch = keys.pipeline, keys.epoch(0)
        identity = digest(pipeline.resolved_settings)
        lattice, rule = pipeline.lattice, pipeline.threshold
        ends = choose_caps(rule, held, lattice, lambda name: epoch.keystream(name, identity))
        return cls(keys, ends=ends)

    @property
    def ends(self) -> Ends:
        """Both caps of the present phase, in lattice units."""
        return self.stream.ends

    @property
    def position(self) -> int:
        """How many values have been released."""
        return self.segments[-1].end

    @property
    def level(self) -> float:
        """The expected value of one more row, in lattice units, for display."""
        withheld = self.segments[-1].prediction
        return self.stream.levels().level if withheld is None else withheld

    def push(self, units: IntArray, out: FloatArray, levels: FloatArray | None = None) -> None:
        """Release these values into `out`; fill `levels` with theirs, in units."""
        done = 0
        while done < units.size:
            end = done + (self._plain or self._selection.missing)
            part = slice(done, end)
            self._push_piece(units[part], out[part], None if levels is None else levels[part])
            done = end
        if self._remainder is not None:
            self._remainder.settle(out)

    def _push_piece(self, units: IntArray, out: FloatArray, levels: FloatArray | None) -> None:
        """Push values up to the next boundary: all before a selection, or all of one."""
        if self._plain:
            self._push_stream(units, out, levels)
            self._plain -= units.size
            self._begin_selection_if_due()
        else:
            self._push_selection(units, out, levels)

    def push_one(self, unit: int) -> float:
        """Pass one value to the stream of the present phase, without arrays where possible."""
        plain = self._plain
        if plain > 1 and self.log is None:
            self._plain = plain - 1
            value = self.stream.push_one(unit)
            return value if self._remainder is None else self._remainder.settle_one(value)
        out = np.zeros(1)
        self.push(np.array([unit]), out)
        return out.item()

    def finish(self) -> None:
        """Do nothing: no warm-up is open when a stream ends."""

    def _push_stream(self, units: IntArray, out: FloatArray, levels: FloatArray | None) -> None:
        track = None if levels is None else self.stream.levels()
        trace = self.stream.push(units, out)
        if track is not None and levels is not None:
            track.push(trace, levels)
        self._note(units.size, self.stream.first, True, trace)

    def _note(self, count: int, first: float, measured: bool, trace: JournalTrace) -> None:
        if self.log is not None:
            end, phase = self.position, self.phases[-1].start
            self.log.append(JournalEntry(end - count, end, phase, first, measured, trace))

    # -- selections ------------------------------------------------------------------------------

    def _look_ahead(self) -> None:
        """Count the values until the next selection, which may begin at once."""
        opening = self._schedule.opening(self.number, self._pipeline.perturber.block)
        past = self.position - self._origin
        self._plain = ENDLESS if opening is None else opening - past
        self._begin_selection_if_due()

    def _begin_selection_if_due(self) -> None:
        if self._plain:
            return
        switch = self._schedule.switch(self.number, self._pipeline.perturber.block)
        if switch is None:  # after 2^62 values
            raise OverflowError("the stream is too long")
        length = switch - (self.position - self._origin)
        self._selection = HoldOut(length)
        stream = self.stream
        if self._schedule.withholds:
            self.segments.append(
                Segment(
                    self._pipeline.method,
                    threshold=stream.ends.width,
                    below=stream.ends.below,
                    origin=self.position,
                    epoch=f"{stream.segment.epoch} blocked",
                    prediction=stream.level,
                )
            )

    def _push_selection(self, units: IntArray, out: FloatArray, levels: FloatArray | None) -> None:
        """Collect values for the next threshold. They are released too, unless blocked."""
        gap = self.segments[-1]
        if gap.prediction is not None:
            out[:] = gap.prediction * self._pipeline.lattice.step
            if levels is not None:
                levels[:] = gap.prediction
            gap.end += units.size
            self._note(units.size, gap.prediction, False, JournalTrace())
        else:
            self._push_stream(units, out, levels)
        self._selection.add(units)
        if not self._selection.missing:
            self._switch()

    def _switch(self) -> None:
        stage = self._schedule.later_rule(self._pipeline.threshold)
        self.number += 1
        identity = digest({**self._pipeline.resolved_settings, "phase": self.number})
        epoch = self._keys.epoch(self.number)
        # A blocked selection may be longer, up to whole blocks: the last values count.
        held = self._selection.units[-stage.holdout :]
        chosen = choose_caps(
            stage, held, self._pipeline.lattice, lambda name: epoch.keystream(name, identity)
        )
        self._selection.wipe()  # raw values are not kept longer than needed
        self.stream = self._begin(chosen, self.position)
        self._look_ahead()
        self.forget_past()

    def _begin(self, ends: Ends, origin: int) -> PhaseStream:
        segment = self._new_segment(ends, origin)
        return PhaseStream(self._pipeline, self._keys.epoch(self.number), segment)

    # -- state -----------------------------------------------------------------------------------

    def state(self, brief: bool) -> dict[str, Any]:
        """The state to resume from; `brief` omits what only queries about the past need."""
        return {
            **self._kept(brief),
            "number": self.number,
            "selection": self._selection.units,
            "missing": self._selection.missing,
            "plain": self._plain,
            "stream": self.stream.state(),
        }

    def _resumed(self, state: dict[str, Any]) -> PhaseStream:
        self.number = state["number"]
        held = state["selection"]
        self._selection = HoldOut(held.size + state["missing"])
        self._selection.add(held)
        self._plain = state["plain"]
        self._restore_kept(state)
        present = next(item for item in reversed(self.segments) if item.measured)
        self._check_epoch(present)
        return PhaseStream(self._pipeline, self._keys.epoch(self.number), present, state["stream"])
