"""Metadata: the public facts that a released file carries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidegate._version import __version__
from tidegate.clock import Clock
from tidegate.guarantee import Guarantee
from tidegate.record.record import Record
from tidegate.run.phased_run import Phase
from tidegate.run.pipeline import Pipeline
from tidegate.run.release import Release
from tidegate.run.snapshot import plain_record_snapshot


def promised_facts(promise: Guarantee) -> dict[str, Any]:
    """The first facts of every released file: who wrote it, and the guarantee."""
    return {
        "tidegate": __version__,
        "guarantee": str(promise),
        "epsilon": str(promise.epsilon),
        "delta": str(promise.delta),
        "unit": promise.unit,
    }


def public_facts(
    pipeline: Pipeline,
    promise: Guarantee,
    phases: Sequence[Phase],
    *,
    released: int,
    record: Record | None = None,
    clock: Clock | None = None,
) -> dict[str, Any]:
    """Public facts about what was released, as plain data.

    They leave with the file, so they are passed one by one and not read from a running release: a
    durable release passes what is committed, whatever it has in memory.

    Args:
        pipeline: how it was released.
        promise: the guarantee.
        phases: every threshold so far, and from which position on it holds.
        released: how many values.
        record: of what was measured, where the published values do not show it
            (`Estimator.adds_up`).
        clock: of the times, if values have them.
    """
    facts = {
        **promised_facts(promise),
        "settings": pipeline.settings(),
        "threshold": phases[-1].threshold if phases else None,
        **({"floor": phases[-1].floor} if phases and phases[-1].floor else {}),
        "block": pipeline.perturber.block,
        "holdout": pipeline.holdout,
        "warm-up": pipeline.warm_up,
        "released": released,
        "phases": [phase.plain() for phase in phases],
    }
    if clock is not None:
        facts["time"] = clock.plain()
    if not pipeline.estimator.adds_up and record is not None:
        facts["record"] = plain_record_snapshot(record)
    return facts


def describe_facts(
    pipeline: Pipeline, release: Release, phases: Sequence[Phase], record: Record | None = None
) -> dict[str, Any]:
    """The facts about a release in memory whose values have all been returned.

    `record` is needed if the release has forgotten some of its past.
    """
    if not pipeline.estimator.adds_up and phases and record is None:
        record = release.record
    return public_facts(
        pipeline,
        release.guarantee,
        phases,
        released=release.position,
        record=record,
        clock=release.clock,
    )
