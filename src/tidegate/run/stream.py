"""One phase at work: from raw units to published values, with one threshold and one epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate.errors import SnapshotError
from tidegate.lattice import FloatArray, IntArray
from tidegate.randomness import Epoch
from tidegate.record.entry import Trace
from tidegate.record.segment import Segment
from tidegate.stages import NO_SUMS

if TYPE_CHECKING:
    from tidegate.run.pipeline import Pipeline


class Stream:
    """Perturber ║ estimator, segment of the record.

    The only thing that goes back over the barrier is which of the public options measures the next
    block: a function of what was released.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        epoch: Epoch,
        segment: Segment,
        state: dict[str, Any] | None = None,
    ) -> None:
        self.segment = segment
        self.threshold = threshold = segment.threshold
        self._irregular = pipeline.perturber.irregular
        self._step = pipeline.lattice.step
        self._identity = pipeline.noise_identity(threshold)
        known = state or {"identity": self._identity, "perturber": None, "estimator": None}
        if known["identity"] != self._identity:
            raise SnapshotError("it was made by a version of Tidegate with another noise law")
        keystream = epoch.keystream("perturb", self._identity)
        self._perturber = pipeline.perturber.start(
            threshold, pipeline.ceiling, keystream, known["perturber"]
        )
        self._estimator = pipeline.estimator.start(
            threshold=threshold,
            perturber=pipeline.perturber,
            state=known["estimator"],
            layout=segment.blocks[-1].layout if segment.blocks else None,
        )
        if state is None:
            self._begin_block()
            segment.leaves.predict(self._estimator.prediction)
        else:
            self._due: int = state["due"]
        self.first = self._estimator.prediction  # if nothing was released yet; else nobody asks

    def state(self) -> dict[str, Any]:
        """What is needed to go on, raw partial sums among it; the segment is kept apart."""
        return {
            "identity": self._identity,
            "due": self._due,
            "perturber": self._perturber.state(),
            "estimator": self._estimator.state(),
        }

    @property
    def level(self) -> float:
        """What one more value is expected to be, in lattice units."""
        return self._estimator.level(self.segment)

    def _begin_block(self) -> None:
        """Let the estimator choose, before the first value of the block is seen."""
        perturber, estimator = self._perturber, self._estimator
        options = perturber.options
        choice = estimator.choose(options, first=perturber.number == 0)
        perturber.begin(choice)
        self.segment.begin(options[choice], choice, estimator.model_weights)
        self._due = self.segment.end + estimator.begin(options[choice])  # for the next choice

    def push(self, units: IntArray, out: FloatArray) -> Trace:
        """Release one piece of the stream into `out`; give what was released of it."""
        segment, estimator = self.segment, self._estimator
        begun = [self._latest()] if segment.end == segment.origin else []
        parts: list[tuple[Any, ...]] = []
        done, size = 0, units.size
        while done < size:
            count = min(size - done, self._due - segment.end)
            noisy = self._perturber.push(units[done : done + count])
            cells = estimator.push(noisy, out[done : done + count])
            segment.extend(noisy, cells.predictions, count)
            done += count
            if segment.end == self._due:
                self._begin_block()
                begun.append(self._latest())
                cells.predictions[-1:] = estimator.prediction  # what follows the block
            parts.append((noisy.sums, *cells, NO_SUMS if noisy.marks is None else noisy.marks))
        if self._step != 1.0:
            out *= self._step
        if len(parts) > 1:
            parts = [tuple(map(np.concatenate, zip(*parts, strict=True)))]
        sums, *published = parts[0]
        rows = np.array(begun, dtype=np.int64).reshape(-1) if begun else NO_SUMS
        return Trace(sums, rows, *published)

    def push_one(self, unit: int) -> float:
        """Perturb one value, publish an estimate, note a completed leaf in the record."""
        if self._irregular:  # more than a number comes out for a value
            out = np.zeros(1)
            self.push(np.array([unit]), out)
            return out.item()
        noisy = self._perturber.push_one(unit)
        value = self._estimator.push_one(noisy)
        segment = self.segment
        segment.end = end = segment.end + 1
        if noisy is not None:
            segment.append_one(noisy, self._estimator.prediction)
        if end == self._due:
            self._begin_block()
        return value * self._step

    def _latest(self) -> tuple[int, int, int, int]:
        block = self.segment.blocks[-1]
        return block.start, block.layout.length, block.choice, block.model_weights
