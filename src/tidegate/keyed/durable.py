"""A keyed release on the disk: it survives kills, and every row is written once.

    rows → charge → push → commit: changed pages, head, rows of this batch, digests ║ → output
                           one transaction, sealed: the journal before the release   ║

The output is a plain file. A commit remembers how long it was before its rows, so after a crash the
file is cut there and the rows of the last commit are written again, from the state: nothing is
computed anew, nothing is lost, nothing comes twice.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from tidegate._contexts import Closed
from tidegate.durable.charging import Charging, Cost
from tidegate.durable.folder import StateError
from tidegate.durable.input_digests import InputDigests, Recogniser
from tidegate.errors import InputError, SettingError, SnapshotError
from tidegate.io import Batch
from tidegate.keyed.committed_rows import packed, tail_digest, unpacked, written_length
from tidegate.keyed.event_release import KeyedEventRelease
from tidegate.keyed.names import key_texts
from tidegate.keyed.rows import KeyedRows
from tidegate.keyed.sink import TextKeyedSink, open_keyed_sink
from tidegate.keyed.snapshot import head, header, restored
from tidegate.keyed.specification import Keyed
from tidegate.keyed.store import KeyedStore, opened_store
from tidegate.ledger import Ledger
from tidegate.ownership import Ownership
from tidegate.sealing import restore, seal, state_of, unseal


class DurableKeyed(Closed):
    """A keyed release with its state in a folder. Made by `DurableKeyed.open`."""

    def __init__(
        self,
        specification: Keyed,
        store: KeyedStore,
        key: bytes | None,
        source: str,
        cap: Any,
        *,
        anew: bool = False,
    ) -> None:
        self.specification, self._store, self._key = specification, store, key
        self.format: str | None = None  # of the output, where its extension does not tell
        self.settled = True  # what is in memory is committed
        self._number = 0
        self._output: dict[str, Any] = {"path": "", "before": 0, "tail": ""}
        begun = store.fact("head") is not None
        stored = None if anew else store.fact("head")
        record = not specification.pipeline.estimator.adds_up
        ledger_path = store.folder / "ledger.jsonl"
        if begun and not ledger_path.exists():
            raise StateError(f"the ledger {ledger_path} is missing: put it back")
        if stored is None:
            self._number = (store.lock.commit or (0, ""))[0]  # of a state that is gone
            self.release = specification.start(record=record)
        else:
            self._resume(stored)
        self._ledger = Ledger.open(ledger_path, cap=cap, expected=store.lock.anchor)
        top = specification.pipeline.lattice.top + specification.pipeline.lattice.bottom
        self._digests = InputDigests(self.release._epoch.derived_key("input"), top)
        cost = Cost("stream", 0, None, specification.guarantee)
        try:
            args = self.release.epoch, source, store.lock
            self._charging = Charging(self._ledger, lambda: iter([cost]), *args)
            self._begin(anew=anew, begun=stored is not None)
        except BaseException:
            self._ledger.close()
            raise

    def _begin(self, *, anew: bool, begun: bool) -> None:
        if anew:
            self._charging.check(1)  # what the cap does not allow gives up nothing
            self._commit(None, b"", anew=True)
            self._store.scrub()
        elif begun:
            restore(self._digests, self._kept)
        elif self._ledger.charges():
            raise StateError(
                f"the state in {self._store.folder} is lost, but its ledger shows what was "
                "released: restore the state, or begin again with --new-epoch, which is charged"
            )
        else:
            self._commit(None, b"")  # the id of the noise is stored before the first value

    @classmethod
    def open(
        cls,
        folder: str | Path,
        specification: Keyed,
        *,
        key: bytes | None = None,
        source: str | None = None,
        cap: Any = None,
        new_epoch: bool = False,
    ) -> DurableKeyed:
        """Begin in a folder, or go on.

        Args:
            folder: of the state; one process at a time.
            specification: from `tidegate.keyed`; keys may be declared later, all else must stay.
            key: 32 bytes that seal the state.
            source: whose values these are, for the ledger; None: the name of the folder.
            cap: the most ε that this source may ever spend.
            new_epoch: give up the present state, or one that was lost, and release the input again
                from its beginning with new noise, into another output. The ledger, which must be
                complete, adds the cost to what was spent before.
        """
        place = Path(folder)
        if (place / "state.sqlite").exists():
            raise StateError(f"{place} has the state of a release without keys: use another folder")
        store = KeyedStore(place)
        opened_store(store, discard=new_epoch)
        named = source or place.resolve().name
        try:
            return cls(specification, store, key, named, cap, anew=new_epoch)
        except BaseException:
            store.close()
            raise

    def _resume(self, stored: bytes) -> None:
        ownership = Ownership("keyed release")
        try:
            public, body = unseal(stored, self._key)
            self._number, self._output = body["commit"], body["output"]
            newest = self._store.lock.commit
            if newest is not None and newest[0] > self._number:
                raise StateError(
                    f"the state in {self._store.folder} is older than what left it: it was put "
                    "back from a copy. Its noise is on other rows already: begin again with "
                    "--new-epoch, which is charged, or use another folder"
                )
            pages = []
            for page in self._store.pages():
                about, state = unseal(page, self._key)
                if about["epoch"] != public["epoch"]:
                    raise SnapshotError("its parts do not belong together")
                pages.append(state)
            self.release = restored(self.specification, public, body, pages, ownership)
        except SnapshotError as error:
            raise StateError(f"the state in {self._store.folder}: {error}") from None
        self._kept = body["digests"]

    def close(self) -> None:
        """Close the state; what was committed stays."""
        try:
            ledger = getattr(self, "_ledger", None)
            if ledger is not None:
                ledger.close()
        finally:
            self._store.close()

    # -- commits ---------------------------------------------------------------------------------

    def push(self, batch: Batch, late: str, sink: TextKeyedSink | None) -> KeyedRows:
        """Release a batch, and commit it; only then may its rows leave."""
        release, keys = self.release, key_texts(batch.users)
        self._charging.charge(release.seen, len(batch))
        self._keep_written(sink)
        self.settled = False
        try:
            rows = release.push_rows(keys, batch.values, batch.times, late)
        except (InputError, SettingError):  # refused: nothing was taken
            self.settled = True
            raise
        units = release.specification.pipeline.lattice.units(batch.values)
        ticks = None if batch.times is None else batch.times.ticks
        self._commit(rows, self._digests.push(units, keys, ticks))
        self.settled = True
        return rows

    def close_ticks(self, end: int, sink: TextKeyedSink | None) -> KeyedRows:
        """Release the ticks of events before number `end`, and commit them; then they may leave."""
        if not isinstance(self.release, KeyedEventRelease):
            raise SettingError("until", "is for event streams: give `every` and `start`")
        self._charging.charge(0, 1)  # a tick without events is charged, too
        self._keep_written(sink)
        self.settled = False
        rows = self.release.close_ticks(end)
        self._commit(rows, b"")
        self.settled = True
        return rows

    def _keep_written(self, sink: TextKeyedSink | None) -> None:
        """What is in the output stays: the next commit builds on it."""
        if sink is not None:
            sink.sync()
            self._output = {**self._output, **written_length(self._output["path"])}

    def _commit(self, rows: KeyedRows | None, digests: bytes, *, anew: bool = False) -> None:
        release, engine = self.release, self.release._engine
        self._number += 1
        public = {**header(release), "commit": self._number}
        body = {**head(release), "commit": self._number, "output": self._output}
        body["digests"] = state_of(self._digests)
        sealed = seal(public, body, self._key)
        pages = {}
        if engine is not None:
            for page in sorted(release.changed):
                first, last = page * engine.PAGE, min((page + 1) * engine.PAGE, len(release.keys))
                state = engine.state(not release._record_kept, first, last)
                pages[page] = seal({**public, "page": page}, state, self._key)
        if anew:
            self._store.begin_anew(sealed)
        else:
            self._store.commit(sealed, pages, b"" if rows is None else packed(rows), digests)
        release.changed.clear()
        self._store.lock.keep_commit((self._number, hashlib.sha256(sealed).hexdigest()))

    # -- the output ------------------------------------------------------------------------------

    def begun(self, output: Path) -> TextKeyedSink | None:
        """The output with every committed row; None: there is none so far."""
        place = str(output.resolve())
        if not self._output["path"]:
            if output.exists() and output.stat().st_size:
                raise StateError(f"{output} exists, and is not the output of this state")
            return None
        if self._output["path"] != place:
            raise StateError(f"the output of this state is {self._output['path']}: give that one")
        before = self._output["before"]
        if not before:
            return self._rewritten(output, 0)
        if not output.exists() or output.stat().st_size < before:
            raise StateError(f"{output} is missing, or shorter than what was released: put it back")
        if tail_digest(output, before) != self._output["tail"]:
            raise StateError(f"{output} is not what this state has written")
        return self._rewritten(output, before)

    def _rewritten(self, output: Path, before: int) -> TextKeyedSink | None:
        """Cut the output to what was there before the last commit, whose rows follow."""
        rows = unpacked(self._store.fact("batch") or b"", self.release.keys)
        if rows is None and not before:
            return None
        clock = self.release.clock
        sink = open_keyed_sink(output, format=self.format, clock=clock, append_at=before)
        if rows is not None:
            sink.write(rows)
        return sink  # type: ignore[return-value]  # only text can be continued

    def expect(self, output: Path) -> None:
        """Remember where rows go, with the next commit."""
        if not self._output["path"]:
            self._output = {"path": str(output.resolve()), "before": 0, "tail": ""}

    def recogniser(self) -> Recogniser:
        """Compares an input that is read again."""
        return Recogniser(self._digests, self._store.digests())
