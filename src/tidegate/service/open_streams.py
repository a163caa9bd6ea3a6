"""`OpenStreams`: the service's streams: created, retired, opened on demand."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import insert, select, update

from tidegate.durable import DurableRelease, StateError
from tidegate.errors import MissingError, RefusedError, SettingError
from tidegate.keyed.committed_keyed_release import CommittedKeyed
from tidegate.keyed.key_names import declared_keys
from tidegate.ledger import Ledger
from tidegate.ledger.entries import check_entry_text
from tidegate.run.pipeline import Pipeline
from tidegate.service import database_schema
from tidegate.service.database import Database
from tidegate.service.sql_ledger import SqlLedger
from tidegate.service.sql_stream_state import SqlKeyedStore, SqlStore
from tidegate.service.stored_stream import EPOCH, StoredStream, advising, newest_epochs

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
_NO_NAME = (
    "must have up to 120 letters, digits, dots, dashes or underscores, and begin with a letter or "
    "a digit"
)
Run = DurableRelease | CommittedKeyed


class OpenStreams:
    """All of memory that belongs to streams. Only the gate's thread changes it."""

    def __init__(self, database: Database, key: bytes | None, cap: Any) -> None:
        self._database = database
        self._key = key
        self._cap = cap
        self._ledger: Ledger | None = None
        self._runs: dict[str, Run] = {}
        self._known: dict[str, StoredStream] = {}  # the newest epoch of each stream, by plain name
        self._changes = 0  # of what is known

    @property
    def mark(self) -> tuple[int, int]:
        """A value that changes whenever the ledger or a stream in memory does."""
        return self.ledger.count, self._changes

    def open_ledger(self) -> None:
        """Verify the ledger, once, in the open transaction."""
        if self._ledger is None:
            chain = SqlLedger(self._database)
            chain.reconcile()
            self._ledger = Ledger.over(chain, cap=self._cap)
            self._read_streams()

    def begin_epochs(self) -> None:
        """Begin new epochs after a restore: the old noise may have met values that are now lost.

        Every stream that takes values begins a new epoch. Charges that the database lacks were
        adopted from the copy in the folder; what that lacks too, nobody knows.
        """
        self.ledger.remark("the database was restored: every stream begins a new epoch")
        for stream in list(self._known.values()):
            if stream.retired is None:
                self.begin_epoch(stream.name, "after the database was restored")

    def _read_streams(self) -> None:
        rows = self._database.connection.execute(select(database_schema.streams))
        self._known = newest_epochs(map(StoredStream.from_row, rows))

    def forget(self) -> None:
        """Drop memory, which may be ahead of the database."""
        self._ledger = None
        self._runs = {}

    @property
    def ledger_open(self) -> bool:
        """Whether the ledger was verified since memory was dropped."""
        return self._ledger is not None

    @property
    def ledger(self) -> Ledger:
        """The ledger."""
        if self._ledger is None:
            raise AssertionError("the ledger is opened first")
        return self._ledger

    # -- in the gate's transaction ---------------------------------------------------------------

    def create(
        self,
        name: str,
        pipeline: Pipeline,
        source: str | None = None,
        *,
        part: str | None = None,
        keys: dict[str, Any] | None = None,
        grace: int | None = None,
    ) -> StoredStream:
        """Create a stream; charge its first value to `source`, or for events the whole stream."""
        if not _NAME.fullmatch(name):
            raise SettingError("name", _NO_NAME)
        if name in self._known:
            raise RefusedError(f"there is a stream {name!r} already")
        for setting, text in (("source", source), ("part", part)):
            if text:
                check_entry_text(setting, text)
        settings, at = json.loads(json.dumps(pipeline.settings())), _time_now()
        return self._add(StoredStream(name, settings, source or name, at, None, part, keys, grace))

    def create_columns(
        self,
        name: str,
        pipelines: dict[str, Pipeline],
        source: str | None = None,
        *,
        part: str | None = None,
    ) -> dict[str, StoredStream]:
        """Create streams `NAME.COLUMN` of one source, for rows with several values."""
        if not _NAME.fullmatch(name):
            raise SettingError("name", _NO_NAME)
        made: dict[str, StoredStream] = {}
        try:
            for column, pipeline in pipelines.items():
                stream = self.create(f"{name}.{column}", pipeline, source or name, part=part)
                made[column] = self._change(replace(stream, row_of=name))
        except BaseException:
            self.forget()  # some are in memory, and none will be in the database
            raise
        return made

    def columns_of(self, name: str) -> dict[str, StoredStream]:
        """The streams of rows with several values, by column. From any thread."""
        found = {
            one.plain_name.removeprefix(f"{name}."): one
            for one in list(self._known.values())
            if one.row_of == name
        }
        if not found:
            shown = f"of {name!r}" if _NAME.fullmatch(name) else "of this name"
            raise MissingError(f"there are no columns {shown}")
        return found

    def _add(self, stream: StoredStream) -> StoredStream:
        _ = stream.guarantee  # refuses settings that do not fit together
        self._database.connection.execute(insert(database_schema.streams).values(**stream.row()))
        self._open(stream)
        self._know(stream)
        self.ledger.remark(f"stream {stream.name} was created for the source {stream.source}")
        return stream

    def set_cap(self, cap: Any, source: str) -> None:
        """Set the cap of a source; charge streams that waited for a higher one."""
        waiting: list[Run] = []
        for stream in self._known.values():
            if stream.source == source and not stream.retired:
                with suppress(StateError, SettingError):  # its next user gets the error
                    waiting += [] if stream.counts_rows else [self.run(stream.name)]
        self.ledger.set_cap(cap, source=source)
        for run in waiting:
            _charge_stream_if_possible(run)

    def retire(self, name: str) -> StoredStream:
        """Take no more values. What was released stays and can be queried."""
        stream = self.existing(name)
        if stream.retired is None:
            stream = self._change(replace(stream, retired=_time_now()))
            self.ledger.remark(f"stream {stream.name} was retired")
        return stream

    def begin_epoch(self, name: str, why: str) -> StoredStream:
        """Begin a stream anew at position 0 with new noise. Charged as in `create`.

        The epoch before stays, retired: `meters@1` can be asked when `meters` is `meters@2`.
        """
        stream = self.existing(name)
        if stream.retired is not None:
            raise RefusedError(f"the stream {stream.name!r} was retired")
        self._change(replace(stream, retired=_time_now()))
        following = f"{stream.plain_name}{EPOCH}{stream.epoch + 1}"
        self.ledger.remark(f"stream {stream.plain_name}: a new epoch, {why}")
        return self._add(replace(stream, name=following, created=_time_now(), retired=None))

    def finish(self, name: str) -> StoredStream:
        """End open warm-ups with the values so far: for a stream that is over."""
        run, stream = self.writable(name), self.existing(name)
        try:
            run.finish()
        except BaseException:
            self._runs.pop(stream.name, None)  # it may be ahead of the database
            raise
        return stream

    def closed_by_clock(self) -> list[StoredStream]:
        """The streams whose ticks this service closes. From any thread."""
        return [
            one for one in list(self._known.values()) if one.grace is not None and not one.retired
        ]

    def in_use(self) -> list[str]:
        """The names of the streams that are not retired. From any thread."""
        return [name for name, one in list(self._known.items()) if one.retired is None]

    def declare_keys(self, name: str, keys: list[Any]) -> StoredStream:
        """Declare more keys of a stream."""
        stream = self.existing(name)
        if stream.keys is None or stream.keys["names"] is None:
            raise RefusedError(f"the stream {stream.name!r} has no declared keys")
        known = dict.fromkeys(stream.keys["names"])
        names = [*known, *(key for key in declared_keys(keys) if key not in known)]
        changed = self._change(replace(stream, keys={**stream.keys, "names": names}))
        self._runs.pop(stream.name, None)  # it is opened with the new keys
        self.ledger.remark(f"stream {stream.name}: {len(names)} keys are declared now")
        return changed

    def _change(self, stream: StoredStream) -> StoredStream:
        table = database_schema.streams
        change = update(table).where(table.c.name == stream.name).values(**stream.row())
        self._database.connection.execute(change)
        if self._known[stream.plain_name].name == stream.name:
            self._know(stream)
        return stream

    def _know(self, stream: StoredStream) -> None:
        self._known[stream.plain_name], self._changes = stream, self._changes + 1

    def writable(self, name: str) -> Run:
        """The release of a stream that takes values."""
        stream = self.existing(name)
        if stream.retired is not None:
            raise RefusedError(f"the stream {name!r} was retired: it takes no values")
        return self.run(name)

    def run(self, name: str) -> Run:
        """The release of a stream, as committed."""
        stream = self.existing(name)
        if stream.name not in self._runs:
            self._open(stream)
        return self._runs[stream.name]

    def loaded(self, name: str) -> bool:
        """Whether `run` works without a transaction."""
        stream = self._known.get(name)
        return self.ledger_open and stream is not None and stream.name in self._runs

    def _open(self, stream: StoredStream) -> None:
        common: dict[str, Any] = {"key": self._key, "source": stream.source}
        common["part"] = stream.part or ""
        place = (self._database, stream.name, self.ledger)
        with advising(stream.name):
            if stream.specification is None:
                run: Run = DurableRelease.continued(SqlStore(*place), stream.pipeline, **common)
            else:
                kept = SqlKeyedStore(*place)
                run = CommittedKeyed(stream.specification, kept, record=True, **common)
        if stream.retired is None:
            _charge_stream_if_possible(run)
        self._runs[stream.name] = run

    # -- from any thread -------------------------------------------------------------------------

    def existing(self, name: str) -> StoredStream:
        """An existing stream: its newest epoch, or that in the name."""
        known = self._known.get(name)
        if known is None and EPOCH in name:
            plain, _, epoch = name.partition(EPOCH)
            newest = self._known.get(plain)
            if newest is not None and epoch.isascii() and epoch.isdigit() and len(epoch) < 10:
                known = newest if newest.epoch == int(epoch) else self._earlier(plain, int(epoch))
        if known is None:
            shown = f"stream {name!r}" if _NAME.fullmatch(name) else "stream of this name"
            raise MissingError(f"there is no {shown}")
        return known

    def _earlier(self, plain: str, epoch: int) -> StoredStream | None:
        stored = plain if epoch == 1 else f"{plain}{EPOCH}{epoch}"
        query = select(database_schema.streams).where(database_schema.streams.c.name == stored)
        with self._database.reading() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else StoredStream.from_row(row)

    def listed(self) -> list[StoredStream]:
        """All committed streams, by name."""
        query = select(database_schema.streams).order_by(database_schema.streams.c.name)
        with self._database.reading() as connection:
            return [StoredStream.from_row(row) for row in connection.execute(query)]


def _charge_stream_if_possible(run: Run) -> None:
    """Charge a stream that waited for a higher cap. `set_cap` and readers must not fail by it."""
    with suppress(SettingError):  # charged for another unit meanwhile: the next push gets the error
        run.begin_charges()


def _time_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
