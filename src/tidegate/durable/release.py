"""`DurableRelease`: a release whose every step is on the disk before it leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidegate.contexts import Closed
from tidegate.durable.facts import describe
from tidegate.durable.inputs import Recogniser
from tidegate.durable.journal import pieces, published, verified
from tidegate.durable.looking_back import JournalRecord
from tidegate.durable.opening import opened, source_of
from tidegate.durable.payments import Payments
from tidegate.durable.saving import Saving
from tidegate.durable.store import StateError, Store
from tidegate.errors import InputError
from tidegate.lattice import FloatArray
from tidegate.ledger import Ledger
from tidegate.phases import Phase
from tidegate.pipeline import Pipeline
from tidegate.queries import Record
from tidegate.release import Release

# Nothing is released during the hold-out, so it need not be saved value by value.
_HELD_UNSAVED = 1024


class DurableRelease(Closed):
    """A release in a folder. Made by `DurableRelease.open`; close it, or use `with`.

    Order of every step: charge the ledger (on the disk) → release in memory → commit journal, state
    and input digests in one transaction (on the disk) → hand the values out. So whatever the moment
    of a crash, a value that left is in the journal, and is emitted again from there, never computed
    again; what was read but not committed was never released, and may be read again: the noise that
    it met was not seen by anyone.

    A copy of the folder (a backup, a clone) continues the same noise: use one, once.
    """

    def __init__(
        self, store: Store, ledger: Ledger, release: Release, key: bytes | None, source: str
    ) -> None:
        self._store = store
        self._ledger = ledger
        self.release = release
        self.pipeline = release.pipeline
        self._saving = Saving(store, ledger, release, key)
        self._payments = Payments(ledger, release, source)
        self._torn = False
        self._journalled = JournalRecord(release.pipeline)
        self.source = source
        release.journalled()

    def __repr__(self) -> str:
        return f"<DurableRelease source={self.source!r} {self.release!r}>"

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
        store.lock()
        try:
            if new_epoch:
                return cls._anew(store, pipeline, key, source, cap)
            store.open(create=True)
            state = store.state()
            body = None if state is None else opened(state, key, pipeline, store)
            anchor = None if body is None else (body["ledger count"], body["ledger head"])
            ledger = Ledger.open(store.folder / "ledger.jsonl", cap=cap, expected=anchor)
        except BaseException:
            store.close()
            raise
        try:
            if body is not None:
                run = cls._continued(store, ledger, pipeline, key, body)
                if source not in (None, run.source):
                    raise StateError(f"this state belongs to the source {run.source!r}")
            elif ledger.charges():
                raise StateError(
                    f"the state in {store.folder} is lost, but its ledger shows what was released: "
                    "restore the state, or begin again with --new-epoch, which is charged"
                )
            else:
                run = cls(store, ledger, pipeline.start(), key, source_of(ledger, source, store))
                run._saving.begin(run.source)
        except BaseException:
            ledger.close()
            store.close()
            raise
        return run

    @classmethod
    def _anew(
        cls, store: Store, pipeline: Pipeline, key: bytes | None, source: str | None, cap: Any
    ) -> DurableRelease:
        """Give up what is there, but only once the ledger has taken the charge."""
        ledger = Ledger.open(store.folder / "ledger.jsonl", cap=cap)
        try:
            run = cls(store, ledger, pipeline.start(), key, source_of(ledger, source, store))
            run._payments.pay(0, pipeline.threshold.holdout + 1)
            store.discard()
            store.open(create=True)
            run._saving.begin(run.source)
        except BaseException:
            ledger.close()
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
    def _continued(
        cls,
        store: Store,
        ledger: Ledger,
        pipeline: Pipeline,
        key: bytes | None,
        body: dict[str, Any],
    ) -> DurableRelease:
        source = (store.fact("source") or b"").decode()
        run = cls(store, ledger, pipeline.resume(body["snapshot"]), key, source)
        run._saving.resume(body)
        return run

    def close(self) -> None:
        """Save what was held, and let go of the folder."""
        try:
            if self._saving.unsaved and not self._torn:
                self._saving.commit([])
        finally:
            self._ledger.close()
            self._store.close()

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
        if self._torn:
            raise StateError("an earlier push was cut short: open the state again to go on")
        numbers = self.pipeline.lattice.numbers(values, self.seen)
        if users is not None and len(users) != numbers.size:
            raise InputError(f"{numbers.size} values but {len(users)} users")
        allowed = self._payments.pay(self.seen, numbers.size)
        self._torn = True  # until everything that this push changes is on the disk
        numbers, users = numbers[:allowed], None if users is None else users[:allowed]
        first, seen = self.position, self.seen
        try:
            out = self.release.push(numbers, users)
        except InputError:
            self._torn = self.seen != seen  # refused whole: nothing was changed
            raise
        self._saving.take(self.pipeline.lattice.units(numbers), users)
        released = self.release.journalled()
        if released or self._saving.unsaved >= _HELD_UNSAVED or not self.release.holding:
            self._saving.commit(released)
        self._torn = False
        return first, out

    # -- what was released, and what was read ----------------------------------------------------

    def replay(self, start: int = 0) -> Iterator[tuple[int, FloatArray]]:
        """Published values from position `start` on, as they were published: from the journal."""
        key = self.release.derived_key("journal")
        verified(self._store.journal(), key, self._saving.head)  # before any of it goes out again
        for first, values in published(self.pipeline, pieces(self._store.journal())):
            if first + values.size > start:
                skip = max(0, start - first)
                yield first + skip, values[skip:]

    @property
    def phases(self) -> list[Phase]:
        """Every threshold so far, and from which position on it holds."""
        return list(self._saving.phases)

    @property
    def record(self) -> Record | None:
        """All that was released, from the journal, to be asked; None: nothing was.

        (The running release knows only what came since it was opened.)
        """
        key = self.release.derived_key("journal")
        self._journalled.catch_up(self._store, key, self._saving.head, self._saving.phases)
        return self._journalled.record(str(self.release.guarantee))

    def recogniser(self) -> Recogniser:
        """Tells whether an input that is read again is the one that was read before."""
        return Recogniser(self._saving.digests, self._store.inputs())

    # -- keeping house ---------------------------------------------------------------------------

    def change_key(self, key: bytes | None) -> None:
        """Seal the state with another key; the old key opens nothing afterwards."""
        self._saving.change_key(key)

    def erase(self) -> None:
        """Remove everything secret: raw sums, held-out values, the noise key. There is no way back.

        What was released can no longer be emitted again: keep the output.
        """
        self._torn = True  # nothing more can be released, or saved
        self._saving.erase()

    def facts(self) -> dict[str, Any]:
        """The public metadata of what is released: enough to understand and query it."""
        record = None if self.pipeline.smoother.adds_up else self.record
        return describe(self.pipeline, self.release, self._saving.phases, record)
