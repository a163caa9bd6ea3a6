"""Public facts about a release: what a released file carries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate._version import __version__
from tidegate.phases import Phase
from tidegate.pipeline import Pipeline
from tidegate.queries import Record
from tidegate.release import Release
from tidegate.snapshots import plain_record


def describe(
    pipeline: Pipeline, release: Release, phases: Sequence[Phase], record: Record | None = None
) -> dict[str, Any]:
    """Public facts about a release, as plain data.

    They hold the record too where published values alone do not tell it (`Estimator.adds_up`);
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
    if not pipeline.smoother.adds_up and phases:
        facts["record"] = plain_record(release.record if record is None else record)
    return facts
