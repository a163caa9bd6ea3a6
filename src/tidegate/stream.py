"""One phase at work: from raw units to published values, with one threshold and one epoch.

`BlockStream` measures blocks of one size; `GuidedStream` asks its forecaster before every block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tidegate.courses import Course
from tidegate.errors import SnapshotError
from tidegate.lattice import FloatArray, IntArray
from tidegate.pieces import Trace
from tidegate.publish import Publisher
from tidegate.randomness import Epoch
from tidegate.recording import begun_segment
from tidegate.sealing import restore, state_of
from tidegate.segments import Segment
from tidegate.settings import digest
from tidegate.stages import SmootherRun, no_sums

if TYPE_CHECKING:
    from tidegate.pipeline import Pipeline


class _Kept(ABC):
    """The state of a phase: that of its runs, and whose noise they continue."""

    threshold: int
    _identity: bytes

    @abstractmethod
    def _runs(self) -> dict[str, object]: ...

    def state(self) -> dict[str, Any]:
        """What is needed to go on, raw partial sums among it; the segment is kept apart."""
        states = {name: state_of(run) for name, run in self._runs().items()}
        return {"threshold": self.threshold, "identity": self._identity, **states}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        if state["identity"] != self._identity:
            raise SnapshotError("it was made by a version of Tidegate with another noise law")
        for name, run in self._runs().items():
            restore(run, state[name])


class BlockStream(_Kept):
    """Perturber ║ smoother, publisher, segment of the record."""

    def __init__(
        self,
        pipeline: Pipeline,
        threshold: int,
        epoch: Epoch,
        origin: int,
        segment: Segment | None = None,
    ) -> None:
        stage, smoother = pipeline.fixed_stages
        block = stage.block
        law = stage.noise_law(threshold)
        self.threshold = threshold
        # Every scale, and which words go where: other settings must never meet the same noise.
        self._identity = digest(
            {**pipeline.resolved(), "threshold in units": threshold, "law": law.identity}
        )
        self._perturber = stage.start(threshold, epoch.keystream("perturb", self._identity))
        self._smoother: SmootherRun = smoother.start(
            threshold=threshold, block=block, blocks=-(-stage.horizon // block)
        )
        self._publisher = Publisher(self._smoother, block, pipeline.lattice.step)
        first = self._smoother.first
        self.segment = segment or cast(
            Segment,
            begun_segment(
                pipeline, threshold=threshold, origin=origin, epoch=epoch.id.hex(), first=first
            ),
        )

    @property
    def first(self) -> float:
        """The prediction for the first block."""
        return self._smoother.first

    @property
    def level(self) -> float:
        """What one more value is expected to be, in lattice units."""
        return self.segment.level

    def push(self, units: IntArray, out: FloatArray) -> Trace:
        """Release one piece of the stream into `out`; give its block sums and predictions."""
        noisy = self._perturber.push(units)
        following = self._publisher.push(noisy, out)
        self.segment.extend(noisy.sums, following, self._publisher.filled)
        return Trace(noisy.sums, following)

    def push_one(self, unit: int) -> float:
        """Release one value, without arrays where that is possible."""
        noisy = self._perturber.push_one(unit)
        value, following = self._publisher.push_one(noisy)
        if noisy is None:
            self.segment.filled += 1
        else:
            self.segment.append_one(noisy, following)
        return value

    def _runs(self) -> dict[str, object]:
        return {
            "perturber": self._perturber,
            "smoother": self._smoother,
            "publisher": self._publisher,
        }


class GuidedStream(_Kept):
    """Guided perturber ║ forecaster, course of the record.

    The only thing that goes back over the barrier is which of the public options measures the next
    block: a function of what was released.
    """

    first = 0.0  # the forecaster publishes; there is no first prediction to be remembered

    def __init__(
        self,
        pipeline: Pipeline,
        threshold: int,
        epoch: Epoch,
        origin: int,
        segment: Course | None = None,
    ) -> None:
        stage, forecaster = pipeline.guided_stages
        ceiling = pipeline.ceiling
        self.threshold = threshold
        # All that any choice can lead to: other settings must never meet the same noise.
        self._identity = digest(
            {
                **pipeline.resolved(),
                "threshold in units": threshold,
                "law": stage.noise_identity(threshold, ceiling),
            }
        )
        keystream = epoch.keystream("perturb", self._identity)
        self._perturber = stage.start_guided(threshold, ceiling, keystream)
        self._forecaster = forecaster.start_forecast(threshold=threshold, perturber=stage)
        self._step = pipeline.lattice.step
        self.segment = segment or cast(
            Course,
            begun_segment(pipeline, threshold=threshold, origin=origin, epoch=epoch.id.hex()),
        )
        if segment is None:
            self._begin_block()

    @property
    def level(self) -> float:
        """What one more value is expected to be, in lattice units."""
        return self._forecaster.prediction

    def _begin_block(self) -> None:
        """Let the forecaster choose, before the first value of the block is seen."""
        perturber, forecaster = self._perturber, self._forecaster
        options = perturber.options
        choice = forecaster.choose(options, first=perturber.number == 0)
        perturber.begin(choice)
        self.segment.begin(options[choice], choice, forecaster.opinion)
        forecaster.begin(options[choice])

    def push(self, units: IntArray, out: FloatArray) -> Trace:
        """Release one piece of the stream into `out`; give the sums and the blocks that began."""
        done = 0
        forecaster, segment = self._forecaster, self.segment
        sums, begun = [no_sums()], [*segment.latest] if segment.end == segment.origin else []
        while done < units.size:
            count = min(units.size - done, forecaster.room)
            part = out[done : done + count]
            noisy = self._perturber.push(units[done : done + count])
            forecaster.push(noisy, part)
            if self._step != 1.0:
                part *= self._step
            segment.extend(noisy.sums, count)
            sums.append(noisy.sums)
            done += count
            if not forecaster.room:
                self._begin_block()
                begun += segment.latest
        return Trace(sums=np.concatenate(sums), begun=np.array(begun, dtype=np.int64))

    def push_one(self, unit: int) -> float:
        """Release one value, without arrays where that is possible."""
        noisy = self._perturber.push_one(unit)
        value = self._forecaster.push_one(noisy)
        self.segment.append_one(noisy)
        if not self._forecaster.room:
            self._begin_block()
        return value * self._step

    def _runs(self) -> dict[str, object]:
        return {"perturber": self._perturber, "forecaster": self._forecaster}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        super().restore(state)
        self._forecaster.resume(self._perturber.options[self._perturber.choice])


Stream = BlockStream | GuidedStream


def start_stream(pipeline: Pipeline, threshold: int, epoch: Epoch, origin: int) -> Stream:
    """Begin a phase."""
    kind = GuidedStream if pipeline.guided else BlockStream
    return kind(pipeline, threshold, epoch, origin)


def resumed_stream(pipeline: Pipeline, epoch: Epoch, segment: Segment | Course) -> Stream:
    """A phase that goes on with a segment of the record; its state is restored next."""
    if isinstance(segment, Course):
        return GuidedStream(pipeline, segment.threshold, epoch, segment.origin, segment)
    return BlockStream(pipeline, segment.threshold, epoch, segment.origin, segment)
