"""The state of a keyed release as bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidegate.clock import Clock
from tidegate.errors import SnapshotError
from tidegate.keyed.object_engine import ObjectEngine
from tidegate.ownership import Ownership
from tidegate.randomness import Epoch
from tidegate.run.earlier_pipelines import earlier_pipelines
from tidegate.run.two_sided_caps import Ends
from tidegate.sealing import seal, unseal

if TYPE_CHECKING:
    from tidegate.keyed.keyed_release import KeyedRelease
    from tidegate.keyed.keyed_specification import Keyed

_CONTENT = "keyed snapshot"


def sealed_keys(release: KeyedRelease, key: bytes | None, *, brief: bool) -> bytes:
    """The states of all keys with the noise key, as bytes: as secret as the raw data."""
    engine, body = release._engine, snapshot_head(release)
    body["state"] = engine and engine.state(brief, 0, len(release._names))
    return seal(public_header(release), body, key)


def public_header(release: KeyedRelease) -> dict[str, Any]:
    """The readable part of a state.

    Privacy: the released rows, and never the taken ones: these are as many as there are events, or
    rows of keys that were not declared, and neither number is public.
    """
    return {
        "content": _CONTENT,
        "settings": release.specification.identity.hex(),
        "epoch": release.epoch,
        "position": release.position,
    }


def snapshot_head(release: KeyedRelease) -> dict[str, Any]:
    """The state without that of single keys."""
    engine = release._engine
    return {
        "secret": release._epoch.secret,
        "simulation": release._epoch.simulation,
        "names": release._names.names,
        "ended": sorted(release._ended),
        "seen": release._seen,
        "dropped": release._dropped,
        "sample": release._sample.units,
        "ends": release._ends and list(release._ends),
        "clock": release._clock and release._clock.plain(),
        "record": release._record_kept,
        "engine": engine and engine.KIND,
    }


def resumed_keys(specification: Keyed, data: bytes, key: bytes | None) -> KeyedRelease:
    """The release from what `sealed_keys` returned."""
    ownership = Ownership("keyed release")  # before the secret is read: see there
    public, body = unseal(data, key)
    return restored_snapshot(specification, public, body, [body["state"]], ownership)


def restored_snapshot(
    specification: Keyed,
    public: Mapping[str, Any],
    body: Mapping[str, Any],
    states: Iterable[Mapping[str, Any] | None],
    ownership: Ownership,
) -> KeyedRelease:
    """The release from a head and from states of its keys."""
    if public.get("content") != _CONTENT:
        raise SnapshotError("this is not a snapshot of a keyed release")
    earlier = earlier_pipelines(specification.pipeline)
    made = specification, *(replace(specification, pipeline=each) for each in earlier)
    for specification in made:
        if public["settings"] == specification.identity.hex():
            break
    else:
        raise SnapshotError("it belongs to a keyed release with other settings")
    if specification.keys is not None and not {*body["names"]} <= {*specification.keys}:
        raise SnapshotError("it has keys that are not declared: declare them, or end them first")
    epoch = Epoch(body["secret"], bytes.fromhex(public["epoch"]), body["simulation"])
    before = {*body["names"]}  # their codes stay; more keys may be declared
    names = [*body["names"], *(key for key in specification.keys or () if key not in before)]
    kept: dict[str, Any] = {"ownership": ownership, "record": body["record"], "names": names}
    release = specification.kind(specification, epoch, **kept)
    release._ended = {*body["ended"]}
    release._seen, release._dropped = body["seen"], body["dropped"]
    release._clock = body["clock"] and Clock.from_plain(body["clock"])
    if body["ends"] is not None and specification.shared:
        release._restore_ends(Ends(*body["ends"]))
    elif body["sample"].size:
        release._sample.add(body["sample"])
    engine = release._engine
    if engine is not None and body["engine"] == ObjectEngine.KIND != engine.KIND:
        # Written before arrays could run this pipeline: its keys stay objects.
        engine = release._engine = ObjectEngine(
            specification.pipeline, epoch, release._names, release._ends
        )
    if body["engine"] != (engine and engine.KIND):
        raise SnapshotError("its parts do not belong together")
    for state in states:
        if engine is not None and state is not None:
            engine.restore(state)
    return release
