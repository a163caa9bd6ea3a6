"""`DurableRelease`: a release whose every step is on the disk before it leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from tidegate._version import __version__
from tidegate.durable.charges import Cost, costs
from tidegate.durable.inputs import InputDigests, Recogniser
from tidegate.durable.journal import HEAD_BYTES, Row, published, rows
from tidegate.durable.store import StateError, Store
from tidegate.errors import SnapshotError
from tidegate.lattice import FloatArray
from tidegate.ledger import CapExceeded, Ledger
from tidegate.phases import Phase, Piece
from tidegate.pipeline import Pipeline
from tidegate.release import Release
from tidegate.sealing import restore, seal, state_of, unseal

# Nothing is released during the hold-out, so it need not be saved value by value.
_HELD_UNSAVED = 1024


class DurableRelease:
    """A release in a folder. Made by `DurableRelease.open`; close it, or use `with`.

    Order of every step: charge the ledger (on the disk) → release in memory → commit journal, state
    and input digests in one transaction (on the disk) → hand the values out. So whatever the moment
    of a crash, a value that left is in the journal, and is emitted again from there, never computed
    again; what was read but not committed was never released, and may be read again: the noise that
    it met was not seen by anyone.

    A copy of the folder (a backup, a clone) continues the same noise: use one, once.
    """

    def __init__(self, store: Store, ledger: Ledger, release: Release, key: bytes | None) -> None:
        self._store = store
        self._ledger = ledger
        self._key = key
        self.release = release
        self.pipeline = release.pipeline
        self._digests = InputDigests(release.derived_key("input"), release.pipeline.lattice.top)
        self._fresh_digests = b""
        self._head = bytes(HEAD_BYTES)
        self._unsaved = 0
        self._phases: list[Phase] = []
        self.source = ""
        self._costs: Iterator[Cost] = iter(())
        self._next_cost: Cost | None = None
        release.journalled()

    # -- opening ---------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        folder: str | Path,
        pipeline: Pipeline,
        *,
        key: bytes | None = None,
        source: str | None = None,
        cap: Any = None,
        new_epoch: bool = False,
    ) -> DurableRelease:
        """Begin in an empty folder, or go on where the last run stopped.

        Args:
            folder: where the state is kept; readable by its owner only.
            pipeline: must be the one that the state was begun with.
            key: 32 bytes to seal the state with. Must be given again every time.
            source: whose values these are, for the ledger; None: the name of the folder.
            cap: the most ε that the source may spend, over all epochs.
            new_epoch: give up the state that is there (or was lost), and release the input anew
                from its beginning with new noise. The ledger adds it to what was spent before.
        """
        store = Store(Path(folder))
        store.open(create=True) if not new_epoch else _fresh_store(store)
        try:
            state = store.state()
            body = None if state is None else _opened(state, key, pipeline, store)
            anchor = None if body is None else (body["ledger count"], body["ledger head"])
            ledger = Ledger.open(store.folder / "ledger.jsonl", cap=cap, expected=anchor)
        except BaseException:
            store.close()
            raise
        try:
            if body is None and ledger.charges() and not new_epoch:
                raise StateError(
                    f"the state in {store.folder} is lost, but its ledger shows what was released: "
                    "restore the state, or begin again with --new-epoch, which is charged"
                )
            if body is None:
                run = cls._begun(store, ledger, pipeline, key, source)
            else:
                run = cls._continued(store, ledger, pipeline, key, body)
            charged = sum(charge.epoch == run.release.epoch for charge in ledger.charges())
            run._costs = islice(costs(pipeline), charged, None)
            run._next_cost = next(run._costs, None)
        except BaseException:
            ledger.close()
            store.close()
            raise
        return run

    @classmethod
    def existing(cls, folder: str | Path, *, key: bytes | None = None) -> DurableRelease:
        """Open what is there, with the settings that it was begun with."""
        store = Store(Path(folder))
        store.open(create=False)
        try:
            settings = json.loads(store.fact("settings") or b"null")
        finally:
            store.close()
        if settings is None:
            raise StateError(f"no release was begun in {folder}")
        return cls.open(folder, Pipeline.from_settings(settings), key=key)

    @classmethod
    def _begun(
        cls, store: Store, ledger: Ledger, pipeline: Pipeline, key: bytes | None, source: str | None
    ) -> DurableRelease:
        run = cls(store, ledger, pipeline.start(), key)
        run.source = source or store.folder.resolve().name
        facts = {
            "settings": json.dumps(pipeline.settings()).encode(),
            "source": run.source.encode(),
            "version": __version__.encode(),
        }
        # The identity of the noise is on the disk before the first value is read.
        store.begin(facts, run._state())
        return run

    @classmethod
    def _continued(
        cls,
        store: Store,
        ledger: Ledger,
        pipeline: Pipeline,
        key: bytes | None,
        body: dict[str, Any],
    ) -> DurableRelease:
        run = cls(store, ledger, pipeline.resume(body["snapshot"]), key)
        restore(run._digests, body["digests"])
        run._head = body["journal head"]
        run._phases = store.phases()
        run.source = (store.fact("source") or b"").decode()
        return run

    def close(self) -> None:
        """Save what was held, and let go of the folder."""
        if self._unsaved:
            self._commit([])
        self._ledger.close()
        self._store.close()

    def __enter__(self) -> DurableRelease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # -- data ------------------------------------------------------------------------------------

    @property
    def seen(self) -> int:
        """How many input values were taken."""
        return self.release.seen

    @property
    def position(self) -> int:
        """How many values were released."""
        return self.release.position

    def push(self, values: Any, users: Any = None) -> tuple[int, FloatArray]:
        """Release values; when this returns they are on the disk and may leave.

        If the cap allows only a part of them, that part is released, and the next call is refused
        with `CapExceeded`: ask for `seen` to know how many were taken.

        Returns:
            The position of the first released value, and the values.
        """
        numbers = self.pipeline.lattice.numbers(values, self.seen)
        allowed = self._charged(numbers.size)
        numbers, users = numbers[:allowed], None if users is None else users[:allowed]
        first = self.position
        out = self.release.push(numbers, users)
        units = self.pipeline.lattice.units(numbers)
        self._fresh_digests += self._digests.push(units, users)
        self._unsaved += numbers.size
        pieces = self.release.journalled()
        if pieces or self._unsaved >= _HELD_UNSAVED or not self.release.holding:
            self._commit(pieces)
        return first, out

    def _charged(self, count: int) -> int:
        """Charge the ledger for the next `count` values; give how many of them are paid for."""
        while (cost := self._next_cost) is not None and cost.start < self.seen + count:
            try:
                self._ledger.charge(
                    source=self.source,
                    epoch=self.release.epoch,
                    stage=cost.stage,
                    start=cost.start,
                    end=cost.end,
                    guarantee=cost.guarantee,
                )
            except CapExceeded:
                if cost.start <= self.seen:
                    raise
                return cost.start - self.seen
            self._next_cost = next(self._costs, None)
        return count

    def _commit(self, pieces: list[Piece]) -> None:
        """Everything that a push changed, in one transaction."""
        journal = []
        for row in _merged(pieces):
            body, self._head = row.encode(self._head, self.release.derived_key("journal"))
            journal.append(body)
        known = self._phases[-1].start if self._phases else -1
        fresh = [phase for phase in self.release.phases if phase.start > known]
        self._store.commit(self._state(), journal, self._fresh_digests, fresh)
        self._phases += fresh
        self._fresh_digests, self._unsaved = b"", 0

    def _state(self) -> bytes:
        body = {
            "snapshot": self.release.snapshot(brief=True),
            "digests": state_of(self._digests),
            "journal head": self._head,
            "ledger count": self._ledger.count,
            "ledger head": self._ledger.head,
        }
        header = {
            "content": "durable state",
            "epoch": self.release.epoch,
            "position": self.position,
        }
        return seal(header, body, self._key)

    # -- what was released, and what was read ----------------------------------------------------

    def replay(self, start: int = 0) -> Iterator[tuple[int, FloatArray]]:
        """Published values from position `start` on, as they were published: from the journal."""
        key = self.release.derived_key("journal")
        journal = rows(self._store.journal(), key, self._head)
        for first, values in published(self.pipeline, journal):
            if first + values.size > start:
                skip = max(0, start - first)
                yield first + skip, values[skip:]

    def recogniser(self) -> Recogniser:
        """Tells whether an input that is read again is the one that was read before."""
        return Recogniser(self._digests, self._store.inputs())

    # -- keeping house ---------------------------------------------------------------------------

    def change_key(self, key: bytes | None) -> None:
        """Seal the state with another key; the old key opens nothing afterwards."""
        self._key = key
        self._store.replace_state(self._state(), {})

    def erase(self) -> None:
        """Remove everything secret: raw sums, held-out values, the noise key. There is no way back.

        What was released can no longer be emitted again: keep the output.
        """
        self._store.replace_state(b"erased", {"erased": b"yes"})

    def facts(self) -> dict[str, Any]:
        """The public metadata of what is released: enough to understand and query it."""
        return describe(self.pipeline, self.release, self._phases)


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


def _merged(pieces: list[Piece]) -> list[Row]:
    """Neighbouring pieces of one phase as one row."""
    merged: list[Row] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if last and (last.phase_start, last.blocked) == (piece.phase_start, piece.blocked):
            last.end = piece.end
            last.sums = np.concatenate((last.sums, piece.sums))
            last.following = np.concatenate((last.following, piece.following))
        else:
            merged.append(Row(**vars(piece)))
    return merged


def _opened(state: bytes, key: bytes | None, pipeline: Pipeline, store: Store) -> dict[str, Any]:
    if store.fact("erased"):
        raise StateError(f"the state in {store.folder} was erased: begin again with --new-epoch")
    stored = json.loads(store.fact("settings") or b"{}")
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


def _fresh_store(store: Store) -> None:
    """Put a state that is given up aside (it is still secret), and open an empty one."""
    store.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    number = 1 + len(list(store.folder.glob("given-up-*.sqlite")))
    for suffix in ("", "-wal", "-shm"):
        old = store.folder / f"state.sqlite{suffix}"
        if old.exists():
            old.rename(store.folder / f"given-up-{number}.sqlite{suffix}")
    store.open(create=True)
