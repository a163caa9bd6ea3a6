"""`DurableRelease`: a release whose every step is on the disk before it leaves."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from tidegate._contexts import Closed
from tidegate.durable.checks import (
    earlier,
    known_anchors,
    opened,
    settings_of,
    source_of,
    trusted_ledger,
)
from tidegate.durable.commit import Saving
from tidegate.durable.folder import StateError
from tidegate.durable.payments import Payments
from tidegate.durable.reading import AGAIN, Reading
from tidegate.durable.store import Store
from tidegate.errors import InputError, SettingError
from tidegate.lattice import FloatArray
from tidegate.ledger import CapExceeded, Ledger
from tidegate.ownership import Custody
from tidegate.run.pipeline import Pipeline
from tidegate.run.release import Release
from tidegate.sealing import seal
from tidegate.units import checked_users

# Nothing is released during the hold-out, so it need not be saved value by value.
_HELD_UNSAVED = 1024
_UNCHECKED = (
    "a new epoch, after the state and its lock file were lost: whether this ledger is complete "
    "could not be checked"
)


class DurableRelease(Reading, Closed):
    """A release in a folder. Made by `DurableRelease.open`; close it, or use `with`.

    Order of every step: charge the ledger (on the disk) → release in memory → commit journal, state
    and input digests in one transaction (on the disk) → hand the values out. So whatever the moment
    of a crash, a value that left is in the journal, and is emitted again from there, never computed
    again; what was read but not committed was never released, and may be read again: the noise that
    it met was not seen by anyone.

    There is no way around this order: the release within is private, and one lock keeps threads
    apart in everything that touches state, journal or ledger. A process that is forked from this
    one may not go on with it. A push that is cut short is refused from then on, until the state
    has been opened again. `seen`, `position`, `phases` and `threshold` never tell of a push that
    was not completed.

    A copy of the folder (a backup, a clone) continues the same noise: use one, once.
    """

    def __init__(
        self, store: Store, ledger: Ledger, release: Release, key: bytes | None, source: str
    ) -> None:
        custody = Custody("durable release", AGAIN)
        saving = Saving(store, ledger, release, key)
        super().__init__(store, release, saving, source, custody)
        self._ledger = ledger
        self._payments = Payments(ledger, release, source, store.lock)
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
                from its beginning with new noise. The ledger adds it to what was spent before, and
                must hold all of that: it is compared with what the old state and the lock file
                remember of it, for which the old key is not needed.
        """
        store = Store(Path(folder).absolute())  # the working directory may change
        store.lock.acquire()
        try:
            if new_epoch:
                return cls._anew(store, pipeline, key, source, cap)
            return cls._going_on(store, pipeline, key, source, cap)
        except BaseException:
            store.close()
            raise

    @classmethod
    def _going_on(
        cls, store: Store, pipeline: Pipeline, key: bytes | None, source: str | None, cap: Any
    ) -> DurableRelease:
        """Continue the state that is there, or begin where nothing was ever charged."""
        store.open(create=True)
        state = store.state()
        body = None if state is None else opened(state, key, pipeline, store)
        anchors = [] if body is None else [(body["ledger count"], body["ledger head"])]
        ledger = trusted_ledger(store, known_anchors(store, anchors), cap)
        try:
            if body is None and ledger.charges():
                raise StateError(
                    f"the state in {store.folder} is lost, but its ledger shows what was released: "
                    "restore the state, or begin again with --new-epoch, which is charged"
                )
            name = source_of(ledger, source, None if body is None else body["source"], store)
            if body is None:
                run = cls(store, ledger, pipeline.start(), key, name)
                run._saving.begin(name)
            else:
                run = cls(store, ledger, pipeline.resume(body["snapshot"]), key, name)
                run._saving.resume(body)
        except BaseException:
            ledger.close()
            raise
        return run

    @classmethod
    def _anew(
        cls, store: Store, pipeline: Pipeline, key: bytes | None, source: str | None, cap: Any
    ) -> DurableRelease:
        """Give up what is there, once it is known that the ledger is whole and the cap allows it.

        The new state takes the place of the old one in one transaction. It has read nothing, and is
        charged before it does, like any other: a command that fails before that (its input or its
        output cannot be used) costs nothing, however often it is given. (A state that cannot be
        read is removed, and the new one made after that.)
        """
        old = earlier(store, key)
        known = known_anchors(store, old.anchors)
        ledger = trusted_ledger(store, known, cap, begun=old.begun)
        try:
            name = source_of(ledger, source, old.source, store)
            run = cls(store, ledger, pipeline.start(), key, name)
            run._payments.check(pipeline.holdout + 1)
            if ledger.charges() and not known:
                ledger.remark(_UNCHECKED)
            if old.readable:
                with suppress(StateError):  # damaged where nobody has looked so far
                    run._saving.begin(name)
                    store.scrub()
                    return run
                store.let_go()
            store.discard()
            store.open(create=True)
            run._saving.begin(name)
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
            settings = settings_of(store)
        finally:
            store.close()
        if settings is None:
            raise StateError(f"no release was begun in {folder}")
        return cls.open(folder, Pipeline.from_settings(settings), key=key)

    def close(self) -> None:
        """Save what was held, and let go of the folder. Does nothing in a forked process."""
        if not self._open or self._store.disowned:
            return
        with self._custody.lock:
            self._open = False
            try:
                if self._saving.unsaved and not self._custody.cut_short:
                    self._saving.commit([])
            finally:
                try:
                    self._ledger.close()
                finally:
                    self._store.close()

    # -- data ------------------------------------------------------------------------------------

    def push(self, values: Any, users: Any = None) -> tuple[int, FloatArray]:
        """Release values; when this returns they are on the disk and may leave.

        If the cap allows only a part of them, that part is released, and the next call is refused
        with `CapExceeded`: ask for `seen` to know how many were taken. After any other exception
        than `InputError` and `CapExceeded`, open the state again: it knows what was taken.

        Returns:
            The position of the first released value, and the values.
        """
        begun = False
        try:
            with self._custody.lock:
                self._check()
                numbers = self._pipeline.lattice.numbers(values, self.seen)
                protects = self._release.user_cap is not None
                users = checked_users(users, numbers.size, needed=protects, position=self.seen)
                self._custody.begin()
                begun = True
                result = self._pushed(numbers, users)
                self._custody.done()
                return result
        except BaseException as error:
            refused = isinstance(error, InputError | CapExceeded)
            if begun and refused and self._release.seen == self.seen:
                self._custody.done()  # refused whole: nothing was changed
            elif begun:
                self._custody.refuse()  # perhaps it was committed, but the caller does not know
            raise

    def _pushed(self, numbers: Any, users: Any) -> tuple[int, FloatArray]:
        allowed = self._payments.pay(self.seen, numbers.size)
        numbers, users = numbers[:allowed], None if users is None else users[:allowed]
        first = self.position
        out = self._release.push(numbers, users)
        self._saving.take(self._pipeline.lattice.units(numbers), users)
        released = self._release.journalled()
        if released or self._saving.unsaved >= _HELD_UNSAVED or not self._release.holding:
            self._saving.commit(released)
        self._seen = self._release.seen
        return first, out

    def finish(self) -> None:
        """End an open warm-up now: for a stream that is over (`tidegate.Release.finish`)."""
        with self._custody.lock:
            self._check()
            self._custody.begin()
            try:
                self._release.finish()
                self._saving.commit(self._release.journalled())
            except BaseException:
                self._custody.refuse()
                raise
            self._custody.done()

    # -- keeping house ---------------------------------------------------------------------------

    @property
    def sealed(self) -> bool:
        """Whether the state on the disk is encrypted."""
        return self._saving.sealed

    def change_key(self, key: bytes) -> None:
        """Seal the state with another key; the old key opens nothing afterwards."""
        if not isinstance(key, bytes):  # None would unseal it
            raise SettingError("key", "must be 32 bytes; to have no key, use unseal()")
        seal({}, {}, key)  # refuses what is no key before anything changes
        self._sealed_anew(key)

    def unseal(self) -> None:
        """Keep the state unencrypted from now on: who can read the folder can read raw sums."""
        self._sealed_anew(None)

    def _sealed_anew(self, key: bytes | None) -> None:
        with self._custody.lock:
            self._check()
            self._custody.begin()
            self._saving.change_key(key)
            self._custody.done()

    def erase(self) -> None:
        """Remove everything secret: raw sums, held-out values, the noise key. There is no way back.

        What was released can no longer be emitted again: keep the output.
        """
        with self._custody.lock:
            self._check()
            self._custody.begin()  # for ever: nothing more can be released, or saved
            self._saving.erase()
