"""Public facts about a release: what a released file carries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tidegate._version import __version__
from tidegate.guarantee import Guarantee
from tidegate.phases import Phase
from tidegate.pipeline import Pipeline
from tidegate.queries import Record
from tidegate.snapshots import plain_record


class Described(Protocol):
    """What is public of a release, durable or not."""

    @property
    def guarantee(self) -> Guarantee:
        """What is promised."""

    @property
    def threshold(self) -> float | None:
        """θ, once chosen."""

    @property
    def position(self) -> int:
        """How many values were released."""

    @property
    def record(self) -> Record | None:
        """What queries are answered from."""


def describe(
    pipeline: Pipeline, release: Described, phases: Sequence[Phase], record: Record | None = None
) -> dict[str, Any]:
    """Public facts about a release, as plain data.

    Of a guided release they hold the record too, since published values alone do not tell it;
    `record` is needed if the release has forgotten, or does not know, some of its past.
    """
    promise = release.guarantee
    facts = {
        "tidegate": __version__,
        "guarantee": str(promise),
        "epsilon": str(promise.epsilon),
        "delta": str(promise.delta),
        "unit": promise.unit,
        "settings": pipeline.settings(),
        "threshold": release.threshold,
        "block": pipeline.perturber.block,
        "holdout": pipeline.threshold.holdout,
        "released": release.position,
        "phases": [vars(phase) for phase in phases],
    }
    record = release.record if record is None and pipeline.guided and phases else record
    if pipeline.guided and phases and record is not None:
        facts["record"] = plain_record(record)
    return facts
