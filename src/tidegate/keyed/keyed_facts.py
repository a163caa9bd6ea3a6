"""Metadata of a file with many keys: public facts, and a compact index of the keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.run.phased_run import Phase
from tidegate.run.pipeline import Pipeline
from tidegate.run.public_facts import promised_facts
from tidegate.run.snapshot import plain_record_snapshot

if TYPE_CHECKING:
    from tidegate.keyed.keyed_release import KeyedRelease


def keyed_facts(release: KeyedRelease, *, complete: bool) -> dict[str, Any]:
    """Public facts about the release. They say nothing about dropped rows.

    `keys` has a list for each fact, in the order of the names, of keys that have rows: how many,
    the phases as [start, threshold, epoch, floor], and, where the rows do not show it, the record.
    """
    specification = release.specification
    pipeline = specification.pipeline
    active = release.released_keys()
    keys: dict[str, Any] = {
        "names": [name for name, _, _ in active],
        "released": [count for _, count, _ in active],
        "phases": [[_compact_key_facts(phase) for phase in phases] for _, _, phases in active],
    }
    if not pipeline.estimator.adds_up:
        keys["records"] = [
            plain_record_snapshot(release.record(name)) if phases else []
            for name, _, phases in active
        ]
    facts = {
        **promised_facts(release.guarantee),
        "settings": pipeline.settings(),
        "threshold by": specification.threshold,
        "block": pipeline.perturber.block,
        "holdout": pipeline.holdout,
        "warm-up": pipeline.warm_up,
        "released": sum(keys["released"]),
        "keys": keys,
        **({} if complete else {"complete": False}),
    }
    if release.clock is not None:
        facts["time"] = release.clock.plain()
    return facts


def _compact_key_facts(phase: Phase) -> list[Any]:
    return [phase.start, phase.threshold, phase.epoch, *([phase.floor] if phase.floor else [])]


@dataclass(frozen=True)
class KeyFacts:
    """The facts about one key in the metadata."""

    released: int
    phases: list[Phase]
    record: list[Any] | None


def read_key_facts(metadata: dict[str, Any]) -> tuple[Pipeline, dict[str, KeyFacts]]:
    """The pipeline, and the facts of each key. Damaged metadata may raise any error."""
    pipeline = Pipeline.from_settings(metadata["settings"])
    if pipeline.perturber.block != metadata["block"]:
        raise ValueError("another version of Tidegate made other blocks")
    keys = metadata["keys"]
    records = keys.get("records") or [None] * len(keys["names"])
    found = {}
    columns = (keys["names"], keys["released"], keys["phases"], records)
    for name, released, phases, record in zip(*columns, strict=True):
        if type(released) is not int or not 0 <= released < 1 << 62 or not isinstance(name, str):
            raise TypeError("a key has a name and a number of rows")
        found[name] = KeyFacts(released, [Phase(*phase) for phase in phases], record)
    return pipeline, found
