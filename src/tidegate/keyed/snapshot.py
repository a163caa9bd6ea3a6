"""The state of a keyed release as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate.clock import Clock
from tidegate.errors import SnapshotError
from tidegate.ownership import Ownership
from tidegate.randomness import Epoch
from tidegate.run.ends import Ends
from tidegate.sealing import seal, unseal

if TYPE_CHECKING:
    from tidegate.keyed.release import KeyedRelease
    from tidegate.keyed.specification import Keyed

_CONTENT = "keyed snapshot"


def sealed(release: KeyedRelease, key: bytes | None, *, brief: bool) -> bytes:
    """All keys with their states, the noise key with them: as secret as the raw data."""
    header = {
        "content": _CONTENT,
        "settings": release.specification.identity.hex(),
        "epoch": release.epoch,
        "position": release.seen,
    }
    engine = release._engine
    body: dict[str, Any] = {
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
        "state": engine and engine.state(brief),
    }
    return seal(header, body, key)


def resumed(specification: Keyed, data: bytes, key: bytes | None) -> KeyedRelease:
    """The release that `sealed` was given."""
    from tidegate.keyed.release import KeyedRelease  # on demand: it imports this one

    ownership = Ownership("keyed release")  # before the secret is read: see there
    header, body = unseal(data, key)
    if header.get("content") != _CONTENT:
        raise SnapshotError("this is not a snapshot of a keyed release")
    if header["settings"] != specification.identity.hex():
        raise SnapshotError("it belongs to a keyed release with other settings")
    epoch = Epoch(body["secret"], bytes.fromhex(header["epoch"]), body["simulation"])
    release = KeyedRelease(specification, epoch, ownership=ownership, record=body["record"])
    names = release._names
    if specification.keys is not None and not {*body["names"]} <= {*specification.keys}:
        raise SnapshotError("it has keys that are not declared: declare them, or end them first")
    codes = [names.add(name) for name in body["names"]]  # by name: more keys may be declared
    release._ended = {codes[code] for code in body["ended"]}
    release._seen, release._dropped = body["seen"], body["dropped"]
    release._clock = body["clock"] and Clock.from_plain(body["clock"])
    if body["ends"] is not None and specification.shared:
        release._restore_ends(Ends(*body["ends"]))
    elif body["sample"].size:
        release._sample.add(body["sample"])
    engine = release._engine
    if body["engine"] != (engine and engine.KIND):
        raise SnapshotError("its parts do not belong together")
    if engine is not None:
        engine.restore(body["state"], np.array(codes, dtype=np.int64))
    return release
