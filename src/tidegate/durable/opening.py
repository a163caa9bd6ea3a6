"""May this state be used? Settings, seals and sources are compared before anything goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tidegate.durable.store import StateError, Store
from tidegate.errors import SnapshotError
from tidegate.ledger import Ledger
from tidegate.pipeline import Pipeline
from tidegate.sealing import unseal


def opened(state: bytes, key: bytes | None, pipeline: Pipeline, store: Store) -> dict[str, Any]:
    """The content of a state that belongs to this pipeline and opens with this key."""
    if store.fact("erased"):
        raise StateError(f"the state in {store.folder} was erased: begin again with --new-epoch")
    try:
        stored = json.loads(store.fact("settings") or b"{}")
    except (ValueError, RecursionError):
        raise StateError(f"the settings of the state in {store.folder} are damaged") from None
    if stored != json.loads(json.dumps(pipeline.settings())):
        changed = ", ".join(_differences(stored, pipeline.settings())) or "settings"
        raise StateError(
            f"the state in {store.folder} was begun with other settings ({changed}): use those, or "
            "another folder"
        )
    try:
        header, body = unseal(state, key)
    except SnapshotError as error:
        raise StateError(f"the state in {store.folder} cannot be opened: {error}") from None
    if header.get("content") != "durable state":
        raise StateError(f"the state in {store.folder} is of another kind")
    return body


def _differences(old: dict[str, Any], new: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _differences(before, after, f"{prefix}{name}.")
        elif before != after:
            yield f"{prefix}{name}: {before} then, {after} now"


def source_of(ledger: Ledger, source: str | None, store: Store) -> str:
    """Whose values these are: what the ledger says already, so that no new name escapes the cap."""
    charged = [charge.source for charge in ledger.charges()]
    if charged and source not in (None, charged[-1]):
        raise StateError(f"the ledger here belongs to the source {charged[-1]!r}, not {source!r}")
    return charged[-1] if charged else source or store.folder.resolve().name
