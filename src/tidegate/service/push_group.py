"""`PushGroup`: the pushes of one transaction: recognise repetitions, release, answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, delete, insert, select

from tidegate.durable import DurableRelease, StorageError
from tidegate.errors import SettingError, TidegateError
from tidegate.service import database_schema
from tidegate.service.database import Database
from tidegate.service.loop_wakeups import wakeups_together
from tidegate.service.open_streams import OpenStreams, Run
from tidegate.service.pending_requests import Conflict, PendingPush, Receipt, fulfil_request
from tidegate.service.released_rows import RowBlock, stored_rows
from tidegate.service.stream_kinds import (
    of_one_kind_together,
    pushed_by_kind,
    stream_places_are_public,
)
from tidegate.service.whole_rows import check_rows_are_even, refused_whole_rows

Outcome = Receipt | TidegateError
_ADD_ROWS, _ADD_REQUEST = insert(database_schema.released), insert(database_schema.requests)
_REQUESTS = database_schema.requests.c
_FIND_REQUEST = select(_REQUESTS["digest"], _REQUESTS["start"]).where(
    _REQUESTS["stream"] == bindparam("of"),
    # Plain ids were stored before decision 0128; a retry across the upgrade is no new request.
    _REQUESTS["key"].in_([bindparam("request"), bindparam("plain")]),
)
_FORGET_REQUEST = delete(database_schema.requests).where(
    _REQUESTS["stream"] == bindparam("of"), _REQUESTS["key"] == bindparam("request")
)
_DIGEST, _START = range(2)  # columns of a request that was kept


class PushGroup:
    """Pushes requests in order within each stream.

    Attributes:
        rows: what was released, by stream.
    """

    def __init__(self, streams: OpenStreams, database: Database) -> None:
        self._streams = streams
        self._database = database
        self._outcomes: list[tuple[PendingPush, Outcome]] = []
        self.rows: dict[str, list[RowBlock]] = {}

    def push(self, requests: Sequence[PendingPush]) -> None:
        """Push all of these requests, in the open transaction.

        Raises:
            UnevenError: one column of some rows was taken, and another refused.
        """
        refused = refused_whole_rows(requests, self._streams, self._known)
        by_stream: dict[str, list[PendingPush]] = {}
        for one in requests:
            if one.rows is not None and one.rows in refused:
                self._outcomes.append((one, refused[one.rows]))
            else:
                by_stream.setdefault(one.stream, []).append(one)
        for name, waiting in by_stream.items():
            try:
                run = self._streams.writable(name)
            except TidegateError as error:
                if isinstance(error, StorageError):
                    raise
                self._outcomes += [(one, self._taken_before(one) or error) for one in waiting]
                continue
            self._push_all(run, self._streams.existing(name).name, waiting)
            if isinstance(run, DurableRelease):
                run.save()  # held-out values too are durable before they are acknowledged
        check_rows_are_even(self._outcomes)

    @property
    def size(self) -> int:
        """The number of released rows."""
        return sum(block.values.size for blocks in self.rows.values() for block in blocks)

    def answer(self) -> None:
        """Send the answers: the transaction is durable."""
        with wakeups_together():
            for one, outcome in self._outcomes:
                fulfil_request(one.answer, outcome)

    # -- one stream ------------------------------------------------------------------------------

    def _taken_before(self, one: PendingPush) -> Receipt | None:
        """The receipt of a request taken before its stream was retired. None: it is new."""
        try:
            run, name = self._streams.run(one.stream), self._streams.existing(one.stream).name
        except StorageError:
            raise
        except TidegateError:  # it is not there, or its state is damaged: others are not
            return None
        outcome = self._again(run, name, one, run.seen)
        return outcome if isinstance(outcome, Receipt) else None

    def _push_all(self, run: Run, name: str, waiting: list[PendingPush]) -> None:
        while waiting:  # a request that is sent again waits for the first one
            waiting = self._push_new(run, name, waiting)

    def _push_new(self, run: Run, name: str, waiting: list[PendingPush]) -> list[PendingPush]:
        """Push these requests, except possible repetitions of others: they come next."""
        new: list[PendingPush] = []
        later: list[PendingPush] = []
        seen = run.seen
        ids: set[str] = set()
        for one in waiting:
            if one.request_id in ids or _push_meets(one, run.seen, seen):
                later.append(one)
                continue
            outcome = self._again(run, name, one, seen)
            if outcome is not None:
                self._outcomes.append((one, outcome))
                continue
            if one.request_id is not None:
                ids.add(one.request_id)
            new.append(one)
            seen += one.values.size
        for batch in of_one_kind_together(new):
            self._push_batch(run, name, batch)
        return later

    def _again(self, run: Run, name: str, one: PendingPush, seen: int) -> Outcome | None:
        """The answer to a repeated request, or to one with a gap before it. None: it is new.

        `seen`: how many values there are, with those of all requests before it.

        Privacy: values are compared with those of the same sender's own requests alone. To any
        other request at a place that is taken the answer is the same, whatever its values are: it
        would tell raw values of others, one guess after the other.
        """
        public = stream_places_are_public(run)
        if one.start is not None and not public:
            return SettingError(
                "start",
                "is for streams whose number of rows is public: that of events, and of rows whose "
                "key may not be declared, is not. Use an Idempotency-Key",
            )
        found = self._stored_request(run, name, one)
        same = found is not None and bytes(found[_DIGEST]) == run.fingerprint(one.content())
        if same:
            # The same content, so the same number: that of events is not kept.
            return _push_receipt(run, found[_START], one.values.size, repeated=True)
        if found is not None and one.key is not None:
            return Conflict(_OTHER_BODY, seen if public else None)
        if one.start is None or one.start == seen:
            return None
        if one.start > seen:
            problem = f"values are missing: the stream continues at {seen}, not at {one.start}"
            return Conflict(problem, seen)
        return Conflict(
            f"the stream continues at {seen}: values from {one.start} on were taken before, by "
            "another request",
            seen,
        )

    def _stored_request(self, run: Run, name: str, one: PendingPush) -> Any:
        if one.request_id is None:
            return None
        asked = {"of": name, "request": _sealed_push(run, one.request_id), "plain": one.request_id}
        return self._database.connection.execute(_FIND_REQUEST, asked).first()

    def _known(self, one: PendingPush) -> bool:
        """Whether this request was taken before, as far as its stream can be read."""
        try:
            run, name = self._streams.run(one.stream), self._streams.existing(one.stream).name
        except StorageError:
            raise
        except TidegateError:
            return False
        return self._stored_request(run, name, one) is not None

    def _push_batch(self, run: Run, name: str, batch: list[PendingPush]) -> None:
        """Push requests together: how a stream is split changes nothing."""
        start = run.seen
        if not _pushes_follow(batch, start):  # a request before them was refused
            for one in batch:
                outcome = self._again(run, name, one, run.seen)
                if outcome is None:
                    self._push_batch(run, name, [one])
                else:
                    self._outcomes.append((one, outcome))
            return
        try:
            self._check_paid_for(run, name, sum(one.values.size for one in batch))
            blocks = pushed_by_kind(run, batch)
        except TidegateError as error:
            if _push_changed_something(error, run):
                raise
            if len(batch) > 1:  # refused whole, perhaps for the fault of one of them
                for one in batch:
                    self._push_batch(run, name, [one])
            else:
                self._outcomes.append((batch[0], error))
            return
        for block in blocks:
            self._keep(name, block)
        self._note(run, name, batch, start)

    def _check_paid_for(self, run: Run, name: str, count: int) -> None:
        """Refuse values that the cap allows in part only: repeated, that part would count twice.

        Raises:
            CapExceeded: nothing was taken.
        """
        if isinstance(run, DurableRelease) and (due := run.due(count)):
            part = self._streams.existing(name).part or ""
            self._streams.ledger.check(run.source, due, part=part)

    def _note(self, run: Run, name: str, batch: list[PendingPush], start: int) -> None:
        """Store the receipts.

        What is kept to recognise a request can be read in the database: no number that is not
        public. A place is taken again where a new epoch begins.
        """
        public = stream_places_are_public(run)
        for one in batch:
            count = one.values.size
            self._outcomes.append((one, _push_receipt(run, start, count)))
            if one.request_id is not None:
                sealed = _sealed_push(run, one.request_id)
                if one.key is None:
                    again = {"of": name, "request": sealed}
                    self._database.connection.execute(_FORGET_REQUEST, again)
                row: dict[str, Any] = {"stream": name, "key": sealed}
                row |= {"start": start if public else 0, "count": count if public else 0}
                row["digest"] = run.fingerprint(one.content())
                self._database.connection.execute(_ADD_REQUEST, row)
            start += count

    def _keep(self, name: str, block: RowBlock) -> None:
        if block.values.size:
            self.rows.setdefault(name, []).append(block)
            self._database.connection.execute(_ADD_ROWS, stored_rows(name, block))


def _push_meets(one: PendingPush, start: int, end: int) -> bool:
    """Whether a request claims places that overlap [start, end)."""
    return one.start is not None and one.start < end and start < one.start + one.values.size


def _pushes_follow(batch: list[PendingPush], place: int) -> bool:
    """Whether each request begins where the previous one ends, the first of them at `place`."""
    for one in batch:
        if one.start not in (None, place):
            return False
        place += one.values.size
    return True


def _sealed_push(run: Run, request_id: str) -> str:
    """The stored form of a request, sealed: keys may be names, which a reader could guess."""
    return run.fingerprint(request_id.encode()).hex()


def _push_receipt(run: Run, start: int, count: int, *, repeated: bool = False) -> Receipt:
    """The receipt, without positions that would reveal numbers of events or of dropped rows."""
    return Receipt(start if stream_places_are_public(run) else None, count, repeated)


def _push_changed_something(error: TidegateError, run: Run) -> bool:
    """Whether memory may be ahead of the database; then the whole group is given up."""
    return isinstance(error, StorageError) or run.cut_short


_OTHER_BODY = "this idempotency key was used for another request"
