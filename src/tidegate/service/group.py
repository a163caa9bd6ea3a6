"""The requests of one transaction: pushed, noted, answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy import insert, select

from tidegate.durable import DurableRelease, StorageError
from tidegate.errors import TidegateError
from tidegate.record.rows import Rows
from tidegate.service import schema
from tidegate.service.database import Database
from tidegate.service.pending import Conflict, Pending, Receipt
from tidegate.service.released_rows import packed
from tidegate.service.streams import Streams

Outcome = Receipt | TidegateError
_DIGEST, _START, _COUNT = range(3)  # columns of a request that was kept


class Group:
    """Pushes requests, in their order within each stream.

    Attributes:
        rows: what was released, by stream.
    """

    def __init__(self, streams: Streams, database: Database) -> None:
        self._streams = streams
        self._database = database
        self._outcomes: list[tuple[Pending, Outcome]] = []
        self.rows: dict[str, list[Rows]] = {}

    def push(self, requests: Sequence[Pending]) -> None:
        """Everything of these requests, in the open transaction."""
        by_stream: dict[str, list[Pending]] = {}
        for one in requests:
            by_stream.setdefault(one.stream, []).append(one)
        for name, waiting in by_stream.items():
            try:
                run = self._streams.writable(name)
            except TidegateError as error:
                if isinstance(error, StorageError):
                    raise
                self._outcomes += [(one, error) for one in waiting]
                continue
            self._push_all(run, name, waiting)
            run.save()  # held-out values too are durable before they are acknowledged

    def answer(self) -> None:
        """The transaction is durable: let the answers leave."""
        for one, outcome in self._outcomes:
            if isinstance(outcome, TidegateError):
                one.answer.set_exception(outcome)
            else:
                one.answer.set_result(outcome)

    # -- one stream ------------------------------------------------------------------------------

    def _push_all(self, run: DurableRelease, name: str, waiting: list[Pending]) -> None:
        new: list[Pending] = []
        seen = run.seen
        known: dict[str, Pending] = {}
        for one in waiting:
            earlier = known.get(one.key) if one.key is not None else None
            outcome = self._again(run, name, one, earlier, seen)
            if outcome is not None:
                self._outcomes.append((one, outcome))
                continue
            if one.key is not None:
                known[one.key] = one
            new.append(one)
            seen += one.values.size
        for batch in _batches(new):
            self._push_batch(run, name, batch)

    def _again(
        self, run: DurableRelease, name: str, one: Pending, earlier: Pending | None, seen: int
    ) -> Outcome | None:
        """The answer to a request that was sent before, or that does not follow; None: it is new.

        `earlier`: a request of this group with the same key; `seen`: with all before it.
        """
        if earlier is not None:
            if earlier.content() != one.content():
                return Conflict(_OTHER_BODY, seen)
            return Conflict("the same request is being worked on: ask again", seen)
        if one.key is not None:
            table = schema.requests
            columns = (table.c["digest"], table.c["start"], table.c["count"])
            query = select(*columns).where(table.c.stream == name, table.c.key == one.key)
            found = self._database.connection.execute(query).one_or_none()
            if found is not None:
                if bytes(found[_DIGEST]) != run.fingerprint(one.content()):
                    return Conflict(_OTHER_BODY, seen)
                return Receipt(found[_START], found[_COUNT], repeated=True)
        if one.start is None or one.start == seen:
            return None
        if one.start > seen:
            problem = f"values are missing: the stream continues at {seen}, not at {one.start}"
            return Conflict(problem, seen)
        if one.start + one.values.size <= run.seen and self._same(run, one):
            return Receipt(one.start, one.values.size, repeated=True)
        return Conflict(
            f"the stream continues at {seen}, and other values were taken at {one.start}", seen
        )

    def _same(self, run: DurableRelease, one: Pending) -> bool:
        """Whether these values were taken at their place before."""
        recogniser = run.recogniser(one.start or 0)
        units = run.pipeline.lattice.units(run.pipeline.lattice.numbers(one.values, 0))
        return recogniser.push(units, None, one.times and one.times.ticks)

    def _push_batch(self, run: DurableRelease, name: str, batch: list[Pending]) -> None:
        """Requests that can be pushed together: how a stream is split changes nothing."""
        if len(batch) > 1:
            start = run.seen
            try:
                self._keep(name, run.push_rows(np.concatenate([one.values for one in batch])))
            except TidegateError as error:
                if _changed_something(error, run):
                    raise
                for one in batch:  # refused whole, perhaps for the fault of one of them
                    self._push_batch(run, name, [one])
                return
            self._note(run, name, batch, start)
            return
        (one,) = batch
        start = run.seen
        try:
            self._keep(name, run.push_rows(one.values, None, one.times))
        except TidegateError as error:
            if _changed_something(error, run):
                raise
            self._outcomes.append((one, error))
            return
        self._note(run, name, batch, start)

    def _note(self, run: DurableRelease, name: str, batch: list[Pending], start: int) -> None:
        """Receipts; where the cap allowed some of the values only, the rest is told."""
        for one in batch:
            count = max(0, min(one.values.size, run.seen - start))
            if count < one.values.size:
                self._outcomes.append((one, _partly(count)))
            else:
                self._outcomes.append((one, Receipt(start, count)))
            if one.key is not None and count == one.values.size:
                row: dict[str, Any] = {"stream": name, "key": one.key, "start": start}
                row |= {"count": count, "digest": run.fingerprint(one.content())}
                self._database.connection.execute(insert(schema.requests).values(**row))
            start += count

    def _keep(self, name: str, rows: Rows) -> None:
        if not rows.values.size:
            return
        self.rows.setdefault(name, []).append(rows)
        body = {"first": rows.first, "end": rows.first + rows.values.size, "body": packed(rows)}
        self._database.connection.execute(insert(schema.released).values(stream=name, **body))


def _batches(new: list[Pending]) -> list[list[Pending]]:
    """Neighbours without times together; each with times by itself, since it may be late."""
    found: list[list[Pending]] = []
    for one in new:
        if found and one.times is None and found[-1][-1].times is None:
            found[-1].append(one)
        else:
            found.append([one])
    return found


def _changed_something(error: TidegateError, run: DurableRelease) -> bool:
    """Whether memory may be ahead of the database: then the whole group is given up."""
    return isinstance(error, StorageError) or run.cut_short


def _partly(count: int) -> TidegateError:
    return TidegateError(f"the cap of the source allowed {count} of these values, and no more")


_OTHER_BODY = "this idempotency key was used for another request"
