"""`DurableRelease`: a release that commits every value before it returns it."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tidegate._context_managers import Closed
from tidegate.durable.charging import Charging, charged_costs, charging_in
from tidegate.durable.commit import Committer
from tidegate.durable.committed_reading import AGAIN
from tidegate.durable.folder_lock import StateError
from tidegate.durable.resume_checks import (
    UNCHECKED,
    checked_ledger,
    earlier_state_to_resume,
    known_anchors,
    let_go,
    opened_to_resume,
    resumed_settings,
    resumed_source,
)
from tidegate.durable.state_stores import FolderStore, StateStore
from tidegate.durable.ticks_and_key_changes import DurableTicks
from tidegate.errors import InputError, TidegateError
from tidegate.lattice import FloatArray
from tidegate.ledger import CapExceeded, Ledger
from tidegate.ownership import NotCopied, Ownership
from tidegate.record.rows_and_levels import Rows
from tidegate.run.pipeline import Pipeline
from tidegate.run.release import Release
from tidegate.run.user_cap import checked_users
from tidegate.timestamps import Times

# Nothing is released during the hold-out, so it need not be saved value by value.
_HELD_UNSAVED = 1024


class DurableRelease(DurableTicks, Closed, NotCopied):
    """A release in a folder. Made by `DurableRelease.open`; close it, or use `with`.

    Order of every step: charge the ledger (on the disk) → release in memory → commit journal, state
    and input digests in one transaction (on the disk) → hand the values out. So at any moment of a
    crash, a value that left is in the journal; it is emitted again from there and never computed
    again. What was read but not committed was never released: nobody has seen its noise.

    There is no way around this order: the inner release is private, and one lock guards state,
    journal and ledger against other threads. A forked process cannot use it. After an interrupted
    push everything is refused until the state is opened again. A copy continues the same noise.
    """

    def __init__(
        self,
        store: StateStore,
        ledger: Ledger,
        release: Release,
        key: bytes | None,
        source: str,
        part: str = "",
    ) -> None:
        ownership = Ownership("durable release", AGAIN)
        committer = Committer(store, ledger, release, key)
        super().__init__(store, release, committer, source, ownership)
        self._ledger = ledger
        of = partial(charged_costs, release.pipeline)
        self._charging = Charging(ledger, of, release.epoch, source, store.lock, part=part)
        release.journal_entries()

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
        """Begin in an empty folder, or continue where the last run stopped.

        Args:
            folder: where the state is kept; readable by its owner only.
            pipeline: must be the one that the state was begun with.
            key: 32 bytes to seal the state with. Must be given again every time.
            source: the name of the source in the ledger; None: the name of the folder.
            cap: the most ε that the source may spend, over all epochs.
            new_epoch: give up the present state (or one that was lost), and release the input again
                with new noise, charged on top. The ledger must be complete: it is compared with
                the anchors in the old state and in the lock file, without the old key.
        """
        store = FolderStore(Path(folder))
        store.lock.acquire()
        try:
            if new_epoch:
                run = cls._anew(store, pipeline, key, source, cap)
            else:
                store.open(create=True)
                run = cls.continued(store, pipeline, key=key, source=source, cap=cap)
            run.begin_charges()
            run._charging = charging_in(store.folder, run._charging)
            return run
        except BaseException:
            store.close()
            raise

    @classmethod
    def continued(
        cls,
        store: StateStore,
        pipeline: Pipeline,
        *,
        key: bytes | None = None,
        source: str | None = None,
        part: str = "",
        cap: Any = None,
    ) -> DurableRelease:
        """Resume the state in an open store, or begin if nothing was ever charged."""
        state = store.state()
        body = None if state is None else opened_to_resume(state, key, pipeline, store)
        anchors = [] if body is None else [(body["ledger count"], body["ledger head"])]
        ledger = checked_ledger(store, known_anchors(store, anchors), cap)
        try:
            if body is None and store.own_ledger and ledger.charges():
                raise StateError(
                    f"the state in {store.place} is lost, but its ledger shows what was released: "
                    "restore it, or begin again with new_epoch=True (--new-epoch), which is charged"
                )
            name = resumed_source(ledger, source, None if body is None else body["source"], store)
            if body is None:
                run = cls(store, ledger, pipeline.start(), key, name, part)
                run._committer.begin(name)
                run.begin_charges()
            else:
                run = cls(store, ledger, pipeline.resume(body["snapshot"]), key, name, part)
                run._committer.resume(body)
        except BaseException:
            let_go(ledger, store)
            raise
        return run

    @classmethod
    def _anew(
        cls, store: FolderStore, pipeline: Pipeline, key: bytes | None, source: str | None, cap: Any
    ) -> DurableRelease:
        """Replace the present state, after checking the ledger and its cap.

        The new state replaces the old one in one transaction. It has read nothing, and is charged
        before it does, like any other: a command that fails before that (its input or its output
        cannot be used) costs nothing, but for events. A state that cannot be read is removed first.
        """
        old = earlier_state_to_resume(store, key)
        known = known_anchors(store, old.anchors)
        ledger = checked_ledger(store, known, cap, begun=old.begun)
        try:
            name = resumed_source(ledger, source, old.source, store)
            run = cls(store, ledger, pipeline.start(), key, name)
            run._charging.check(pipeline.holdout + 1)
            if ledger.charges() and not known:
                ledger.remark(UNCHECKED)
            if old.readable:
                with suppress(StateError):  # damaged in a part that was not read so far
                    run._committer.begin(name)
                    store.scrub()
                    return run
                store.let_go()
            store.discard()
            store.open(create=True)
            run._committer.begin(name)
        except BaseException:
            ledger.close()
            raise
        return run

    @classmethod
    def existing(cls, folder: str | Path, *, key: bytes | None = None) -> DurableRelease:
        """Open an existing state, with the settings that it began with."""
        store = FolderStore(Path(folder))
        store.open(create=False)
        try:
            settings = resumed_settings(store)
        finally:
            store.close()
        if settings is not None:
            return cls.open(folder, Pipeline.from_settings(settings), key=key)
        raise StateError(f"no release was begun in {folder}")

    def close(self) -> None:
        """Commit what was taken, and unlock the folder. Does nothing in a forked process."""
        if not self._open or self._store.disowned:
            return
        with self._ownership.lock:
            self._open = False
            try:
                if self._committer.unsaved and not self._ownership.cut_short:
                    self._committer.commit([])
            finally:
                try:
                    let_go(self._ledger, self._store)
                finally:
                    self._store.close()

    # -- data ------------------------------------------------------------------------------------

    def push(
        self, values: Any, users: Any = None, times: Any = None, late: str = "refuse"
    ) -> tuple[int, FloatArray]:
        """Release values: `push_rows` without levels. Events: `push(times, values)`.

        Returns:
            The position of the first released value, and the values.
        """
        try:
            rows = self.push_rows(*self._in_order(values, users, times), late)
            return rows.first, rows.values
        except TidegateError:  # `push_rows` has seen to it
            raise
        except BaseException:  # perhaps after it: committed, but the caller does not know
            self._ownership.refuse()
            raise

    def push_rows(
        self, values: Any, users: Any = None, times: Any = None, late: str = "refuse"
    ) -> Rows:
        """Release values. When this returns they are committed and may leave.

        If the cap allows only some of them, those are released, and the next call raises
        `CapExceeded`; `seen` says how many were taken. After any exception other than `InputError`
        and `CapExceeded`, open the state again: it knows what was taken.
        """
        begun = False
        try:
            with self._ownership.lock:
                self._check()
                at = 0 if self._pipeline.ticks else self.seen  # the number of events is secret
                numbers = self._pipeline.lattice.numbers(values, at)
                protects = self._release.user_cap is not None
                users = checked_users(users, numbers.size, needed=protects, position=at)
                when = self._release.checked_times(times, numbers.size, late)
                self._ownership.begin()
                begun = True
                result = self._pushed(numbers, users, when)
                self._ownership.done()
                return result
        except BaseException as error:
            refused = isinstance(error, InputError | CapExceeded)
            if begun and refused and self._release.seen == self.seen:
                self._ownership.unchanged()  # refused whole
            elif begun:
                self._ownership.refuse()  # it may be committed, but the caller does not know
            raise

    def _pushed(self, numbers: Any, users: Any, when: Times | None) -> Rows:
        counted = self._pipeline.ticks is None
        paid = self._charging.charge_rows(self.seen, numbers.size, counted=counted)
        numbers, users = numbers[:paid], None if users is None else users[:paid]
        when = when and Times(when.ticks[:paid], when.clock)
        rows = self._release.push_rows(numbers, users, when, "keep")  # their order was checked
        self._committer.take(self._pipeline.lattice.units(numbers), users, when and when.ticks)
        released = self._release.journal_entries()
        if rows.times is not None:
            for entry in released:
                entry.times = rows.times[entry.start - rows.first : entry.end - rows.first]
        # Events wait for their tick: their number grows, and so does what a commit writes.
        patience = max(_HELD_UNSAVED, self.seen // 4) if self._pipeline.ticks else _HELD_UNSAVED
        waits = self._release.holding or self._pipeline.ticks
        if released or self._committer.unsaved >= patience or not waits:
            self._committer.commit(released)
        self._seen = self._release.seen
        return rows

    def due(self, count: int) -> list[Any]:
        """The costs of the next `count` values that are not charged yet (`Ledger.check`)."""
        return self._charging.own.due(self.seen + count)

    def save(self) -> None:
        """Commit everything taken so far. Otherwise held-out values are committed in batches."""
        with self._ownership.lock:
            self._check()
            if self._committer.unsaved:
                self._ownership.begin()
                self._committer.commit([])
                self._ownership.done()

    def finish(self) -> None:
        """End an open warm-up now: for a stream that is over (`tidegate.Release.finish`)."""
        with self._ownership.lock:
            self._check()
            self._ownership.begin()
            try:
                self._release.finish()
                self._committer.commit(self._release.journal_entries())
            except BaseException:
                self._ownership.refuse()
                raise
            self._ownership.done()
