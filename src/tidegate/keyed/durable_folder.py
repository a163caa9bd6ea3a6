"""A keyed release in a folder, with its output: it survives kills and writes every row once.

The output is a plain file. A commit remembers how long it was before its rows, so after a crash the
file is cut there and the rows of the last commit are written again, from the state: nothing is
computed anew, nothing is lost, nothing comes twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidegate.durable.charging import charging_in, refuse_column_alone
from tidegate.durable.commit import CountedCommits
from tidegate.durable.folder_lock import StateError
from tidegate.durable.resume_checks import resumed_source
from tidegate.guarantee import Guarantee
from tidegate.io import Batch
from tidegate.io.file_kind_and_row_count import file_kind_of
from tidegate.keyed.committed_keyed_release import CommittedKeyed, changing_committed_release
from tidegate.keyed.keyed_rows import KeyedRows
from tidegate.keyed.keyed_sink import TextKeyedSink, open_keyed_sink, text_length_in_sink
from tidegate.keyed.keyed_specification import Keyed
from tidegate.keyed.keyed_store import (
    KeyedChanges,
    KeyedStore,
    open_keyed_store,
    tail_digest,
    unpacked_keyed_rows,
    written_length_in_store,
)
from tidegate.timestamps import Times


class DurableKeyed(CommittedKeyed, CountedCommits):
    """A keyed release with its state in a folder. Made by `DurableKeyed.open`."""

    _store: KeyedStore

    def __init__(self, specification: Keyed, store: KeyedStore, **settings: Any) -> None:
        self.format: str | None = None  # format of the output, if its extension does not tell
        self._output: dict[str, Any] = {"path": "", "before": 0, "tail": ""}
        # What adds up can be asked of the output; else the state keeps the record.
        record = not specification.pipeline.estimator.adds_up
        super().__init__(specification, store, record=record, **settings)

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
        """Begin in a folder, or resume.

        Args:
            folder: of the state; one process at a time.
            specification: from `tidegate.keyed`; keys may be declared later, all else must stay.
            key: 32 bytes that seal the state.
            source: whose values these are, for the ledger; None: as before, or the name of the
                folder. A known one cannot be changed.
            cap: the most ε that this source may ever spend.
            new_epoch: give up the present state, or one that was lost, and release the input again
                from its beginning with new noise, into another output. The ledger, which must be
                complete, adds the cost to what was spent before.
        """
        store = KeyedStore(Path(folder))
        if new_epoch:
            refuse_column_alone(store.folder)

        def allowed() -> None:
            with store.ledger(cap=cap, expected=store.lock.anchor, needed=False) as ledger:
                name = resumed_source(ledger, source, None, store)
                ledger.check(name, [(0, None, specification.guarantee)])

        open_keyed_store(store, allowed if new_epoch else None)
        try:
            found = cls(specification, store, key=key, source=source, cap=cap, anew=new_epoch)
            found._charging = charging_in(store.folder, found._charging)
            return found
        except BaseException:
            store.close()
            raise

    @property
    def epoch(self) -> str:
        """The public id of the noise."""
        return self.release.epoch

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for every row, in this epoch."""
        return self.release.guarantee

    @property
    def position(self) -> int:
        """The number of released rows, over all keys."""
        return self.release.position

    def _resumed(self, body: dict[str, Any]) -> None:
        self._output = body["output"]

    def _more(self) -> dict[str, Any]:
        return {"output": self._output}

    def push_rows(
        self, keys: Any, values: Any, times: Times | None = None, late: str = "refuse"
    ) -> KeyedRows:
        """`CommittedKeyed.push_rows`, for a state without an output."""
        self._keep_written(None)
        return super().push_rows(keys, values, times, late)

    @changing_committed_release
    def push(self, batch: Batch, late: str, sink: TextKeyedSink | None) -> KeyedRows:
        """Release a batch, and commit it; only then may its rows leave."""
        self._keep_written(sink)
        rows, digests = self._pushed(batch.users, batch.values, batch.times, late)
        self._commit(rows, digests)
        return rows

    @changing_committed_release
    def close_ticks(self, end: int, sink: TextKeyedSink | None = None) -> KeyedRows:
        """Release the ticks before number `end`, and commit them; then they may leave."""
        self._keep_written(sink)
        return self._closed(end)

    def _keep_written(self, sink: TextKeyedSink | None) -> None:
        """Keep what is in the output: the next commit follows it."""
        path = self._output["path"]
        if sink is not None:
            sink.sync()
            self._output = {**self._output, **written_length_in_store(path)}
        elif path and self.release.position:
            raise StateError(
                f"the rows of this state go to {path}, where these would be missing: use "
                "`transfer_durably` (tidegate release --by)"
            )

    def _replace(self, changes: KeyedChanges) -> None:
        self._store.begin_anew(changes)
        self._store.scrub()

    # -- the output ------------------------------------------------------------------------------

    def begun(self, output: Path) -> TextKeyedSink | None:
        """The output with every committed row. None: there is none so far."""
        place = str(output.resolve())
        if not self._output["path"] and self.release.position:
            raise StateError(
                "rows of this state were released without an output, and would be missing in one: "
                "continue as before (`push_rows`), or use another folder"
            )
        if not self._output["path"]:
            if output.exists() and output.stat().st_size:
                raise StateError(f"{output} exists, and is not the output of this state")
            return None
        if self._output["path"] != place:
            raise StateError(f"the output of this state is {self._output['path']}: give that one")
        if self._output.get("kind", self._kind(output)) != self._kind(output):
            raise StateError(
                f"{output} was begun in another format: give the same --output-format as before"
            )
        before = self._output["before"]
        if not before:
            return self._rewritten(output, 0)
        if not output.exists() or output.stat().st_size < before:
            raise StateError(f"{output} is missing, or shorter than what was released: put it back")
        if tail_digest(output, before) != self._output["tail"]:
            raise StateError(f"{output} is not what this state has written")
        return self._rewritten(output, before)

    def _rewritten(self, output: Path, before: int) -> TextKeyedSink | None:
        """Cut the output to its length before the last commit, then write its rows again."""
        rows = unpacked_keyed_rows(self._store.fact("batch") or b"", self.release.keys)
        clock, known = self.release.clock, before
        if rows is not None:
            known += text_length_in_sink(
                output, rows, format=self.format, clock=clock, first=not before
            )
        if output.exists() and output.stat().st_size > known:
            raise StateError(
                f"{output} holds more than this state has released: the state is older than its "
                "output (restored from a backup?). Continuing would use noise a second time. Put "
                "the newest state folder back. If it is gone, its ledger is as old, and does not "
                "count what was charged since: see the runbook before you begin again with "
                "new_epoch=True (--new-epoch)"
            )
        if rows is None and not before:
            return None
        sink = open_keyed_sink(output, format=self.format, clock=clock, append_at=before)
        if rows is not None:
            sink.write(rows)
        return sink  # type: ignore[return-value]  # only text can be continued

    def expect(self, output: Path) -> None:
        """Store the place of the output with the next commit."""
        if not self._output["path"]:
            place = {"path": str(output.resolve()), "kind": self._kind(output)}
            self._output = {**place, "before": 0, "tail": ""}

    def _kind(self, output: Path) -> list[str]:
        """The form of the output's rows: fixed when the output began."""
        kind = file_kind_of(output, self.format)
        return [kind.format, kind.delimiter]
