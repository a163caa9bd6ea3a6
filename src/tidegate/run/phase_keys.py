"""The noise keys of a refined release, phase by phase."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.randomness import Epoch, Keystream
from tidegate.run.ends import Ends
from tidegate.settings import digest

if TYPE_CHECKING:
    from tidegate.run.pipeline import Pipeline


class PhaseKeys:
    """Every phase has an epoch of its own, and every use in it a key of its own.

    All facts that decide about a choice or a scale are part of its key, positions count from the
    beginning of the release: the same noise never meets other settings.
    """

    def __init__(self, pipeline: Pipeline, epoch: Epoch, origin: int) -> None:
        self.pipeline, self._epoch, self.origin = pipeline, epoch, origin
        self._latest = 0, epoch  # the phase that was last asked for

    def epoch(self, number: int) -> Epoch:
        """That of phase `number`; the first is the release's own."""
        if self._latest[0] != number:
            self._latest = number, self._epoch.child(number) if number else self._epoch
        return self._latest[1]

    def choice(self, number: int, values: int, purpose: str = "threshold") -> Keystream:
        """For the choice of θ, or of the shape of both ends, from so many values."""
        facts = {**self.pipeline.resolved(), "phase": number, "values": values}
        return self.epoch(number).keystream(purpose, digest(facts))

    def noise(self, purpose: str, number: int, ends: Ends, start: int, **facts: Any) -> Keystream:
        """For sums of values that are capped at θ or its multiples."""
        law = self.pipeline.noise_identity(ends.width, ends.below).hex()
        identity = digest({"law": law, "start": start - self.origin, **facts})
        return self.epoch(number).keystream(purpose, identity)
