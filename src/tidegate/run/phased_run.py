"""The base of all runs with phases: noise keys, public facts, record segments, remainder, log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.errors import SnapshotError
from tidegate.lattice import FloatArray
from tidegate.randomness import Epoch, Keystream
from tidegate.record.rows_and_levels import Levels
from tidegate.record.segments.journal_entry import JournalEntry, JournalTrace
from tidegate.record.segments.segment import Segment
from tidegate.record.segments.segment_codec_and_joining import restored_segment, segment_state
from tidegate.run.non_negative import NonNegativeRemainder
from tidegate.run.two_sided_caps import Ends
from tidegate.settings import digest
from tidegate.state_as_bytes import restore, state_of

if TYPE_CHECKING:
    from tidegate.run.pipeline import Pipeline


class PhaseKeys:
    """The noise keys of phases: an epoch for each phase, and a key for each purpose in it.

    All facts that decide about a choice or a scale are part of its key, positions count from the
    beginning of the release: the same noise never meets other settings.
    """

    def __init__(self, pipeline: Pipeline, epoch: Epoch, origin: int) -> None:
        self.pipeline, self._epoch, self.origin = pipeline, epoch, origin
        self._latest = 0, epoch  # the phase that was last asked for

    def epoch(self, number: int) -> Epoch:
        """The epoch of phase `number`; phase 0 has that of the release."""
        if self._latest[0] != number:
            self._latest = number, self._epoch.child(number) if number else self._epoch
        return self._latest[1]

    def choice(self, number: int, values: int, purpose: str = "threshold") -> Keystream:
        """The key for choosing θ, or the shape of both caps, from this many values."""
        return self.epoch(number).keystream(
            purpose, phase_choice_identity(self.pipeline, number, values)
        )

    def noise(self, purpose: str, number: int, ends: Ends, start: int, **facts: Any) -> Keystream:
        """The key for sums of values that are capped at θ or its multiples."""
        identity = phase_noise_identity(self.pipeline, ends, start - self.origin, **facts)
        return self.epoch(number).keystream(purpose, identity)


def phase_choice_identity(pipeline: Pipeline, number: int, values: int) -> bytes:
    """The facts that determine a choice from this many values, in phase `number`."""
    return pipeline.known.of(
        ("choice", number, values),
        lambda: digest({**pipeline.resolved_settings, "phase": number, "values": values}),
    )


def phase_noise_identity(pipeline: Pipeline, ends: Ends, begun: int, **facts: Any) -> bytes:
    """The facts that determine the noise scales of a phase that began here, and `facts`."""

    def identified() -> bytes:
        law = pipeline.noise_identity(ends.width, ends.below).hex()
        return digest({"law": law, "start": begun, **facts})

    return pipeline.known.of(("noise", ends, begun, *sorted(facts.items())), identified)


@dataclass(frozen=True)
class Phase:
    """The public facts of a part of the stream with one threshold.

    Larger values count as `threshold`, smaller ones as `floor`, in the unit of the data.
    """

    start: int
    threshold: float
    epoch: str
    floor: float = 0.0

    @classmethod
    def of(cls, start: int, ends: Ends, step: float, epoch: str) -> Phase:
        """The phase with these caps, in multiples of `step`."""
        return cls(start, ends.above * step, epoch, -ends.below * step if ends.below else 0.0)

    def plain(self) -> dict[str, Any]:
        """The phase as plain data; `floor` only where it is not 0."""
        facts = dict(vars(self))
        if not self.floor:
            del facts["floor"]
        return facts

    def ends(self, step: float) -> Ends:
        """The caps that `of` was given."""
        return Ends(round(self.threshold / step), round(-self.floor / step))


class PhasedRun:
    """The base of both kinds of runs (`ThresholdPhases`, `RefinementRun`).

    Attributes:
        number: of the present phase.
        phases: those that are kept, oldest first; public.
        segments: of the record, oldest first.
        log: what was released since it was last read; None: nobody keeps a journal.
    """

    def __init__(self, keys: PhaseKeys) -> None:
        self._keys, self._pipeline, self._origin = keys, keys.pipeline, keys.origin
        self._remainder = NonNegativeRemainder() if keys.pipeline.non_negative else None
        self.number = 0
        self.phases: list[Phase] = []
        self.segments: list[Segment] = []
        self.log: list[JournalEntry] | None = None

    def _new_segment(self, ends: Ends, origin: int) -> Segment:
        """Begin the segment of a phase that begins at `origin`."""
        return self.add_phase(ends, origin, self._keys.epoch(self.number).id.hex())

    def add_phase(self, ends: Ends, origin: int, epoch: str) -> Segment:
        """Add a phase with the public id of its noise."""
        method = self._pipeline.method
        facts = {"threshold": ends.width, "below": ends.below, "origin": origin}
        segment = Segment(method, epoch=epoch, **facts)
        self.segments.append(segment)
        self.phases.append(Phase.of(origin, ends, method.step, epoch))
        return segment

    def _fill(
        self,
        out: FloatArray,
        levels: FloatArray | None,
        push: Callable[[int], tuple[int, JournalTrace]],
        levels_from_here: Callable[[], Levels],
    ) -> None:
        """Fill `out`, and `levels` in units, piece by piece; `push` releases from an index on."""
        done = 0
        while done < out.size:
            track = None if levels is None else levels_from_here()
            count, trace = push(done)
            if track is not None and levels is not None:
                track.push(trace, levels[done : done + count])
            done += count
        out *= self._pipeline.method.step
        if self._remainder is not None:
            self._remainder.settle(out)

    def forget_past(self) -> None:
        """Drop segments and phases that lie before the history.

        A phase that pieces of the log belong to is kept: one push can be longer than the history,
        and who keeps the journal asks for its phases only afterwards.
        """
        segments, phases = self.segments, self.phases
        oldest = segments[-1].end - self._pipeline.kept_history
        while len(segments) > 1 and segments[0].end <= oldest:
            del segments[0]
        if self.log:
            oldest = min(oldest, self.log[0].phase_start)
        while len(phases) > 1 and phases[1].start <= oldest:
            del phases[0]

    def _kept(self, brief: bool) -> dict[str, Any]:
        """The state of these parts; `brief` omits what only queries about the past need."""
        segments = self.segments[-2:] if brief else self.segments
        return {
            "phases": [list(phase.plain().values()) for phase in self.phases],
            "remainder": self._remainder and state_of(self._remainder),
            "segments": [segment_state(segment, brief) for segment in segments],
        }

    def _restore_kept(self, state: dict[str, Any]) -> None:
        if self._remainder is not None:
            restore(self._remainder, state["remainder"])
        self.phases = [Phase(*phase) for phase in state["phases"]]
        method = self._pipeline.method
        self.segments = [restored_segment(method, item) for item in state["segments"]]

    def _check_epoch(self, segment: Segment) -> None:
        """Refuse a state whose open segment does not belong to the present phase."""
        if segment.epoch != self._keys.epoch(self.number).id.hex():
            raise SnapshotError("its parts do not belong together")
