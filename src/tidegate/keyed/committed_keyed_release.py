"""A keyed release that commits every row before it returns it, in whatever store.

rows → charge → push → commit: changed pages, head, rows, digests  ║ → readers
                       one transaction, sealed: before the release ║
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from tidegate._context_managers import Closed
from tidegate.durable.charging import ChargedCost, Charging
from tidegate.durable.folder_lock import StateError
from tidegate.durable.input_digests import InputDigests, InputRecogniser
from tidegate.durable.resume_checks import checked_ledger, known_anchors, let_go, resumed_source
from tidegate.errors import InputError, SettingError, SnapshotError
from tidegate.keyed.key_names import key_texts
from tidegate.keyed.keyed_rows import KeyedRows
from tidegate.keyed.keyed_snapshot import public_header, restored_snapshot, snapshot_head
from tidegate.keyed.keyed_specification import Keyed
from tidegate.keyed.keyed_store import KeyedChanges, KeyedStateStore, anchors_in_head
from tidegate.ledger import CapExceeded
from tidegate.ownership import HeldOwnership, NotCopied
from tidegate.sealing import seal, unseal
from tidegate.state_as_bytes import restore, state_of
from tidegate.timestamps import Times

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
# Keys whose release is kept ready: about 90 kB each. Others are resumed when a row comes (1 ms).
_READY = 4096


def changing_committed_release(
    method: Callable[Concatenate[Any, Arguments], Result],
) -> Callable[Concatenate[Any, Arguments], Result]:
    """Let one thread change and commit at a time; after a failure the state must be reopened.

    A retry would count rows once more that are in memory already. The method sets `settled` to
    False before memory changes; what it refuses before that leaves all as it was.
    """

    @wraps(method)
    def whole(self: Any, /, *args: Arguments.args, **named: Arguments.kwargs) -> Result:
        ownership, began, done = self._ownership, False, False
        try:
            with ownership.by_holder():
                began = True
                found = method(self, *args, **named)
                done = True
                self.settled = True
                return found
        except BaseException:
            if began and (done or not self.settled):  # perhaps the caller did not get the rows
                ownership.refuse()
            raise

    return whole


class CommittedKeyed(Closed, NotCopied):
    """A keyed release and its state in a store.

    Attributes:
        release: what was committed can be asked of it: facts, answers, keys. It refuses changes.
        settled: what is in memory is committed.
        finishes: how often warm-ups were ended: answers differ then, and no row shows it.
    """

    def __init__(
        self,
        specification: Keyed,
        store: KeyedStateStore,
        *,
        key: bytes | None,
        source: str | None,
        part: str = "",
        cap: Any = None,
        record: bool,
        anew: bool = False,
    ) -> None:
        self.specification, self._store, self._key = specification, store, key
        self.settled = True
        self.finishes = self._number = 0
        self._named = 0  # names that are committed
        head = store.fact("head")
        stored = None if anew else head
        self._ownership = HeldOwnership("keyed release")  # before there is a secret: see there
        if stored is None:
            self._number = (store.lock.commit or (0, ""))[0]  # belonging to a state that is gone
            self.release = specification.start(record=record)
            self.release._ownership = self._ownership
        else:
            self._resume(stored)
        anchors = known_anchors(store, anchors_in_head(head, key))
        self._ledger = checked_ledger(store, anchors, cap, begun=head is not None)
        lattice = self.specification.pipeline.lattice
        key_of_inputs = self.release._epoch.derived_key("input")
        self._digests = InputDigests(key_of_inputs, lattice.top + lattice.bottom)
        cost = ChargedCost("stream", 0, None, specification.guarantee)
        try:
            # A known source cannot be changed: another name would be charged anew, beside the cap.
            self.source = resumed_source(self._ledger, source, None, store)
            args = self.release.epoch, self.source, store.lock
            self._charging = Charging(self._ledger, lambda: iter([cost]), *args, part=part)
            self._begin(anew=anew, begun=stored is not None)
        except BaseException:
            let_go(self._ledger, store)
            raise

    def _begin(self, *, anew: bool, begun: bool) -> None:
        if begun:
            restore(self._digests, self._kept)
        elif anew:
            self._charging.check(1)  # what the cap does not allow gives up nothing
        elif self._store.own_ledger and self._ledger.charges():
            raise StateError(
                f"the state in {self._store.place} is lost, but its ledger shows what was released:"
                " restore it, or begin again with new_epoch=True (--new-epoch), which is charged"
            )
        if not begun:  # the id of the noise is stored before the first value
            self._commit(None, b"", anew=anew)
        if self._store.own_ledger or not begun:
            self.begin_charges()

    def begin_charges(self) -> None:
        """Charge costs that do not depend on rows, once (`Charging.begin`)."""
        self._charging.begin(counted=self.specification.counts_rows)

    def _resume(self, stored: bytes) -> None:
        store = self._store
        try:
            public, body = unseal(stored, self._key)
            self._number = body["commit"]
            newest = store.lock.commit
            here = self._number, hashlib.sha256(stored).hexdigest()
            if newest is not None and newest[0] >= self._number and newest != here:
                raise StateError(
                    f"the state in {store.place} is older than what left it, or another: it was "
                    "put back from a copy. Its noise is on other rows already: begin again with "
                    "new_epoch=True (--new-epoch), which is charged, or use another folder"
                )
            names: list[str] = []
            for piece in store.names():
                about, content = unseal(piece, self._key)
                if about["epoch"] != public["epoch"] or about["first"] != len(names):
                    raise SnapshotError("its parts do not belong together")
                names += content["names"]
            if len(names) != body["names"]:
                raise SnapshotError("its parts do not belong together")
            pages = []
            for page in store.pages():
                about, state = unseal(page, self._key)
                if about["epoch"] != public["epoch"]:
                    raise SnapshotError("its parts do not belong together")
                pages.append(state)
            self.release = restored_snapshot(
                self.specification, public, {**body, "names": names}, pages, self._ownership
            )
            self.specification = self.release.specification
        except SnapshotError as error:
            raise StateError(f"the state in {store.place}: {error}") from None
        self._named = len(names)
        self._kept, self.finishes = body["digests"], body.get("finishes", 0)
        self._resumed(body)

    def _resumed(self, body: dict[str, Any]) -> None:
        """Read more facts from a stored head."""

    def _more(self) -> dict[str, Any]:
        """More facts to store in the head."""
        return {}

    def close(self) -> None:
        """Close the state; commits stay."""
        try:
            if (ledger := getattr(self, "_ledger", None)) is not None:
                let_go(ledger, self._store)
        finally:
            self._store.close()

    # -- rows ------------------------------------------------------------------------------------

    @property
    def seen(self) -> int:
        """The number of rows taken. Not public with declared keys, as other rows are dropped."""
        return self.release.seen

    @property
    def cut_short(self) -> bool:
        """Whether memory may be ahead of the last commit."""
        return not self.settled or self._ownership.cut_short

    @changing_committed_release
    def push_rows(
        self, keys: Any, values: Any, times: Times | None = None, late: str = "refuse"
    ) -> KeyedRows:
        """Release rows. When this returns they are committed and may leave.

        Raises:
            InputError: refused; nothing was taken.
            CapExceeded: the cap does not allow it; nothing was taken.
        """
        rows, digests = self._pushed(keys, values, times, late)
        self._commit(rows, digests)
        return rows

    def _pushed(
        self, keys: Any, values: Any, times: Times | None, late: str
    ) -> tuple[KeyedRows, bytes]:
        """Charge and release rows, in memory. A commit must follow."""
        release, pipeline = self.release, self.specification.pipeline
        counted = self.specification.counts_rows
        at = release.seen if counted else 0  # no message may count rows that are dropped
        numbers, texts = pipeline.lattice.numbers(values, at), key_texts(keys)  # as a release does
        self.settled = False
        try:
            self._charging.charge_rows(release.seen, numbers.size, counted=counted)
            rows = release.push_rows(texts, numbers, times, late)
        except (InputError, SettingError, CapExceeded):  # refused: nothing was taken
            self.settled = True
            raise
        units = pipeline.lattice.units(numbers)
        return rows, self._digests.push(units, texts, None if times is None else times.ticks)

    @changing_committed_release
    def close_ticks(self, end: int) -> KeyedRows:
        """Release the ticks before number `end`. When this returns they are committed."""
        return self._closed(end)

    @changing_committed_release
    def finish(self) -> None:
        """End open warm-ups now: for streams that are over (`KeyedRelease.finish`)."""
        self.settled = False
        self.release.finish()
        self.finishes += 1
        if self.release._engine is not None:
            last = max(0, len(self.release.keys) - 1) // self.release._engine.PAGE
            self.release.changed.update(range(last + 1))
        self._commit(None, b"")

    def _closed(self, end: int) -> KeyedRows:
        """Charge, release and commit the ticks before number `end`."""
        if self.release.specification.pipeline.ticks is None:
            raise SettingError("until", "is for event streams: give `every` and `start`")
        self._charging.charge(0, 1)  # a tick without events is charged, too
        self.settled = False
        rows = self.release.close_ticks(end)
        self._commit(rows, b"")
        return rows

    def _replace(self, changes: KeyedChanges) -> None:
        """Commit the beginning of a new release in place of another."""
        raise AssertionError("this store has no way to begin anew")

    def _commit(self, rows: KeyedRows | None, digests: bytes, *, anew: bool = False) -> None:
        release, engine = self.release, self.release._engine
        self._number += 1
        public = {**public_header(release), "commit": self._number}
        body = {**snapshot_head(release), "commit": self._number, **self._more()}
        known = body["names"]
        fresh, body["names"] = known[self._named :], len(known)
        body |= {"digests": state_of(self._digests), "finishes": self.finishes}
        body |= {"ledger": [self._ledger.count, self._ledger.head]}
        sealed = seal(public, body, self._key)
        pages, names = {}, b""
        # A page is written when its keys change: what is readable of it must not tell when.
        part = {name: public[name] for name in ("content", "settings", "epoch")}
        if fresh:
            names = seal({**part, "first": self._named}, {"names": fresh}, self._key)
        if engine is not None:
            for page in sorted(release.changed):
                first, last = page * engine.PAGE, min((page + 1) * engine.PAGE, len(known))
                state = engine.state(not release._record_kept, first, last)
                pages[page] = seal({**part, "page": page}, state, self._key)
        write = self._replace if anew else self._store.commit
        write(KeyedChanges(sealed, pages, names, digests, rows))
        self._named = len(known)
        release.changed.clear()
        self.rest()
        self._store.lock.keep_commit((self._number, hashlib.sha256(sealed).hexdigest()))

    def rest(self) -> None:
        """Free memory: keys that wait for rows are kept as stored state."""
        if self.release._engine is not None:
            self.release._engine.rest(_READY)

    # -- what was read ---------------------------------------------------------------------------

    def recogniser(self, start: int = 0) -> InputRecogniser:
        """Compares re-read input, from row `start` on, with the input taken before."""
        return InputRecogniser(self._digests, self._store.inputs(), start)

    def fingerprint(self, content: bytes) -> bytes:
        """A keyed digest that recognises a secret text when it comes again."""
        return hmac.digest(self.release._epoch.derived_key("requests"), content, "sha256")
