"""Public facts about a release: what a released file carries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate._version import __version__
from tidegate.phases import Phase
from tidegate.pipeline import Pipeline
from tidegate.release import Release


def describe(pipeline: Pipeline, release: Release, phases: Sequence[Phase]) -> dict[str, Any]:
    """Public facts about a release, as plain data."""
    promise = release.guarantee
    return {
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
