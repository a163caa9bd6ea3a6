"""One phase at work: from raw units to published values, with one threshold and one epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.errors import SnapshotError
from tidegate.lattice import FloatArray, IntArray
from tidegate.publish import Publisher
from tidegate.randomness import Epoch
from tidegate.sealing import restore, state_of
from tidegate.segments import Segment
from tidegate.settings import digest
from tidegate.stages import SmootherRun

if TYPE_CHECKING:
    from tidegate.pipeline import Pipeline


class Stream:
    """Perturber ║ smoother, publisher, segment of the record."""

    def __init__(
        self,
        pipeline: Pipeline,
        threshold: int,
        epoch: Epoch,
        origin: int,
        segment: Segment | None = None,
    ) -> None:
        stage, block, step = pipeline.perturber, pipeline.perturber.block, pipeline.lattice.step
        law = stage.noise_law(threshold)
        self.threshold = threshold
        # Every scale, and which words go where: other settings must never meet the same noise.
        self._identity = digest(
            {**pipeline.resolved(), "threshold in units": threshold, "law": repr(law)}
        )
        self._perturber = stage.start(threshold, epoch.keystream("perturb", self._identity))
        self._smoother: SmootherRun = pipeline.smoother.start(
            threshold=threshold, block=block, blocks=-(-stage.horizon // block)
        )
        self._publisher = Publisher(self._smoother, block, step)
        self.segment = segment or Segment(
            law=law,
            block=block,
            threshold=threshold,
            step=step,
            history=pipeline.kept_history,
            origin=origin,
            epoch=epoch.id.hex(),
            first=self._smoother.first,
        )

    @property
    def first(self) -> float:
        """The prediction for the first block."""
        return self._smoother.first

    def push(self, units: IntArray, out: FloatArray) -> tuple[IntArray, FloatArray]:
        """Release one piece of the stream into `out`; give its block sums and predictions."""
        noisy = self._perturber.push(units)
        following = self._publisher.push(noisy, out)
        self.segment.extend(noisy.sums, following, self._publisher.filled)
        return noisy.sums, following

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
