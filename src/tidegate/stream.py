"""What runs after the hold-out, from raw units to published values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.errors import SnapshotError
from tidegate.lattice import FloatArray, IntArray
from tidegate.publish import Publisher, Remainder
from tidegate.queries import Record
from tidegate.sealing import restore, state_of
from tidegate.stages import PerturberRun, SmootherRun

if TYPE_CHECKING:
    from tidegate.pipeline import Pipeline


class Stream:
    """What runs after the hold-out: perturber ║ smoother, publisher, record."""

    def __init__(
        self,
        pipeline: Pipeline,
        threshold: int,
        perturber: PerturberRun,
        origin: int,
        epoch: str,
        identity: bytes,
    ) -> None:
        block, step = pipeline.perturber.block, pipeline.lattice.step
        self.threshold = threshold
        self._identity = identity
        self._perturber = perturber
        self._smoother: SmootherRun = pipeline.smoother.start(
            threshold=threshold, block=block, blocks=-(-pipeline.perturber.horizon // block)
        )
        self._publisher = Publisher(self._smoother, block, step)
        self._remainder = Remainder() if pipeline.non_negative else None
        self.record = Record(
            law=pipeline.perturber.noise_law(threshold),
            block=block,
            threshold=threshold,
            step=step,
            history=pipeline.kept_history,
            origin=origin,
            epoch=epoch,
            first=self._smoother.first,
        )

    def push(self, units: IntArray, out: FloatArray) -> None:
        """Release one piece of the stream into `out`."""
        noisy = self._perturber.push(units)
        following = self._publisher.push(noisy, out)
        self.record.extend(noisy.sums, following, self._publisher.filled)
        if self._remainder is not None:
            self._remainder.settle(out)

    def push_one(self, unit: int) -> float:
        """Release one value, without arrays where that is possible."""
        noisy = self._perturber.push_one(unit)
        value, following = self._publisher.push_one(noisy)
        if noisy is None:
            self.record.filled += 1
        else:
            self.record.append_one(noisy, following)
        return value if self._remainder is None else self._remainder.settle_one(value)

    def _runs(self) -> dict[str, object]:
        runs: dict[str, object] = {
            "perturber": self._perturber,
            "smoother": self._smoother,
            "publisher": self._publisher,
            "record": self.record,
        }
        return runs if self._remainder is None else {**runs, "remainder": self._remainder}

    def state(self) -> dict[str, Any]:
        """All that a snapshot needs; raw partial sums among it."""
        states = {name: state_of(run) for name, run in self._runs().items()}
        return {"threshold": self.threshold, "identity": self._identity, **states}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        if state["identity"] != self._identity:
            raise SnapshotError("it was made by a version of Tidegate with another noise law")
        for name, run in self._runs().items():
            restore(run, state[name])
