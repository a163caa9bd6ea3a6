"""Check that a state may be resumed: settings, key, source and ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from tidegate.durable.charging import refuse_column_alone
from tidegate.durable.folder_lock import Anchor, StateError
from tidegate.durable.state_file import WAY_ON
from tidegate.durable.state_stores import ChargedStore, FolderStore, StateStore
from tidegate.errors import SettingError, SnapshotError
from tidegate.ledger import Ledger
from tidegate.run.earlier_pipelines import earlier_pipelines
from tidegate.run.pipeline import Pipeline
from tidegate.sealing import unseal

UNCHECKED = (
    "a new epoch, after the state and its lock file were lost: whether this ledger is complete "
    "could not be checked"
)


class EarlierStateToResume(NamedTuple):
    """Facts about the state that a new epoch replaces; its key may be lost."""

    begun: bool
    readable: bool
    anchors: list[Anchor]
    source: str | None


def opened_to_resume(
    state: bytes, key: bytes | None, pipeline: Pipeline, store: StateStore
) -> dict[str, Any]:
    """The content of a state, if it belongs to this pipeline and this key opens it."""
    if store.fact("erased"):
        raise StateError(
            f"the state in {store.place} was erased: begin again with new_epoch=True (--new-epoch)"
        )
    stored = resumed_settings(store) or {}
    made = pipeline, *earlier_pipelines(pipeline)
    if all(stored != json.loads(json.dumps(each.settings())) for each in made):
        changed = ", ".join(_told_differences(stored, pipeline.settings())) or "settings"
        raise StateError(
            f"the state in {store.place} was begun with other settings ({changed}): use those. "
            "For other values, use another folder. To release the same values again, use "
            "new_epoch=True (--new-epoch), which is charged on top"
        )
    try:
        header, body = unseal(state, key)
    except SnapshotError as error:
        raise StateError(f"the state in {store.place} cannot be opened: {error}") from None
    if header.get("content") != "durable state":
        raise StateError(f"the state in {store.place} is of another kind")
    if (store.fact("source") or b"").decode("utf-8", "replace") != body["source"]:
        raise StateError(f"the source of the state in {store.place} was tampered with: restore it")
    _refuse_to_resume_rollback(store, body)
    return body


def _refuse_to_resume_rollback(store: StateStore, body: dict[str, Any]) -> None:
    """Refuse a state that is older than the newest commit in the lock file.

    Noise of later commits has left; an older state would put the same noise on what comes next.
    """
    kept = store.lock.commit
    number, head = body["commits"], body["journal head"].hex()
    if kept is None or number > kept[0] or (number, head) == kept:
        return
    raise StateError(
        f"the state in {store.place} is older than its last commit (it is commit {number}, and "
        f"the lock file has seen {kept[0]}): a file was restored, or `state.sqlite-wal` is "
        "missing. Put the newest files back, or begin again with "
        "new_epoch=True (--new-epoch), which is charged"
    )


def resumed_settings(store: StateStore) -> dict[str, Any] | None:
    """The settings that a release began with. None: none has begun."""
    fact = store.fact("settings")
    if fact is None:
        return None
    try:
        settings = json.loads(fact)
    except (ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise StateError(f"the state in {store.place} is damaged: {WAY_ON}")
    return settings


def earlier_state_to_resume(store: FolderStore, key: bytes | None) -> EarlierStateToResume:
    """Open the present state, if possible, and read the anchors of its ledger.

    The state holds the anchor twice: sealed, and as a plain fact in case the key is lost. An error
    of the disk is raised: it is no reason to give up a state.
    """
    refuse_column_alone(store.folder)
    if not store.exists():
        return EarlierStateToResume(False, False, [], None)
    try:
        store.open(create=False)
        anchor, source, state = store.anchor(), store.fact("source"), store.state()
    except StateError:  # damaged, or of another format
        store.let_go()
        return EarlierStateToResume(True, False, [], None)
    anchors = [] if anchor is None else [anchor]
    if state is not None:
        with suppress(SnapshotError, KeyError):
            body = unseal(state, key)[1]
            anchors.append((body["ledger count"], body["ledger head"]))
    name = None if source is None else source.decode("utf-8", "replace")
    return EarlierStateToResume(state is not None or name is not None, True, anchors, name)


def known_anchors(store: ChargedStore, states: list[Anchor]) -> list[Anchor]:
    """The anchors from states and from the lock file, which outlives them; the newest is last."""
    kept = store.lock.anchor
    return sorted({*states, *([] if kept is None else [kept])})


def checked_ledger(
    store: ChargedStore, known: list[Anchor], cap: Any, *, begun: bool = False
) -> Ledger:
    """The ledger of a store, if it contains every known anchor.

    A missing ledger is created only where no release was `begun` and no anchor is known.
    """
    newest = known[-1] if known else None
    ledger = store.ledger(cap=cap, expected=newest, needed=bool(known) or begun)
    try:
        for anchor in known[:-1]:
            ledger.check_anchor(anchor)
        if known or not ledger.charges():  # else nothing vouches for what is in it
            store.lock.keep((ledger.count, ledger.head))
    except BaseException:
        let_go(ledger, store)
        raise
    return ledger


def let_go(ledger: Ledger, store: ChargedStore) -> None:
    """Close a ledger, unless it is shared."""
    if store.own_ledger:
        ledger.close()


# What users give; most other settings follow from these.
_GIVEN = {
    "perturber.epsilon: ": "epsilon: ",
    "threshold.bound: ": "bound: ",
    "perturber.horizon: ": "horizon: ",
    "resolution: ": "resolution: ",
}


def _told_differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The settings that differ, as text: the usual ones, or else all."""
    found = list(_resumed_differences(old, new))
    given = [
        line.replace(path, name)
        for path, name in _GIVEN.items()
        for line in found
        if line.startswith(path)
    ]
    return given or found


def _resumed_differences(
    old: dict[str, Any], new: dict[str, Any], prefix: str = ""
) -> Iterator[str]:
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _resumed_differences(before, after, f"{prefix}{name}.")
        elif before != after:
            yield f"{prefix}{name}: {before} then, {after} now"


def resumed_source(
    ledger: Ledger, source: str | None, remembered: str | None, store: ChargedStore
) -> str:
    """The name of the source. It cannot be changed: a new name would escape the cap."""
    charged = ledger.sources if store.own_ledger else []
    known = charged if remembered is None else [remembered]
    if not known:
        name = source or store.default_source
        if not name.isprintable() or not name:  # the ledger would refuse it, once it is too late
            problem = "must be printable text, and not empty: name the source (--ledger-source)"
            raise SettingError("source", problem)
        return name
    names = ", ".join(known)
    if source is None and len(known) > 1:
        raise StateError(f"the ledger here counts several sources ({names}): name one of them")
    if source not in (None, *known):
        owner = "ledger" if remembered is None else "state"
        raise StateError(f"the {owner} here belongs to the source {names!r}, not {source!r}")
    return source or known[0]
