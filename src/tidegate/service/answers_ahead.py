"""Recompute tables that somebody watches, when their stream has changed and is idle.

A table over many keys smooths every record that has changed: a third of a second of a processor for
100 keys of a month. Its readers request it again and again. So the last table of a stream is
computed here once more, when rows were released and no more come for a moment: what it needs is
kept with the views of the keys, and the next reader gets it at once. An answer is post-processing
of released rows. It costs no privacy, and is bit for bit the one that the reader would have got.

The first reader should not wait either: for streams with few keys, the table by day is computed in
advance, also when the service starts. A smoothed key takes 0.3 megabytes, so that is done for
`_FEW` keys. Where rows come all the time it is done seldom: segments that are closed stay smoothed,
and the code and its tables have run once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tidegate.errors import TidegateError
from tidegate.keyed.committed_keyed_release import CommittedKeyed
from tidegate.service.answers_json import View, table_as_json, view_to_answer
from tidegate.service.gate import GateThread
from tidegate.service.open_streams import Run

_log = logging.getLogger(__name__)
_PAUSE = 0.25  # seconds between two looks
_QUIET = 0.5  # seconds without a released row: then the stream rests
_SHARE = 0.2  # share of a processor that this may take
_SHARE_BETWEEN_ROWS = 0.1  # the same while rows come: the answer is out of date once it is made
_START = 1.0  # seconds that the service waits for first tables before it takes requests
_INTEREST = 3600.0  # seconds for which a table is kept up to date after it was asked for
_MOST = 8  # tables that are kept up to date
_FEW = 256  # keys, over all streams, that are smoothed in advance
_BY_DAY = {"every": "1d", "confidence": 0.95, "total": False}


class _TableAhead(NamedTuple):
    asked: float  # when
    keys: Iterable[str] | None
    answer: Callable[[View], Any]


def _table_ahead_by_day(view: View) -> Any:
    return table_as_json(view, _BY_DAY)


class AnswersAhead:
    """Keeps the last table of each stream up to date.

    Args:
        gate: whose streams these are.
        clock: seconds that only go forward.
        processor: seconds of a processor that a thread has used.
    """

    def __init__(
        self,
        gate: GateThread,
        clock: Callable[[], float] = time.monotonic,
        processor: Callable[[], float] = time.thread_time,
    ) -> None:
        self._gate, self._clock, self._processor = gate, clock, processor
        self._tables: dict[str, _TableAhead] = {}  # by the name of a stream
        self._changed: set[str] = set()
        self._unasked: dict[str, int] = {}  # streams that are ready for a first reader: their keys
        self._released = self._rested = self._rested_between_rows = float("-inf")
        self._ready = asyncio.Event()

    def asked(self, name: str, keys: Iterable[str] | None, answer: Callable[[View], Any]) -> None:
        """Note that somebody asked for this table of a stream."""
        self._tables.pop(name, None)
        self._tables[name] = _TableAhead(self._clock(), keys, answer)
        while len(self._tables) > _MOST:
            del self._tables[next(iter(self._tables))]

    def released(self, names: Iterable[str]) -> None:
        """Note, in the gate's thread, that rows of these streams were released."""
        self._changed.update(names)
        self._released = self._clock()

    def due(self) -> str | None:
        """A stream whose table should be computed now."""
        now = self._clock()
        rows_come = now < self._released + _QUIET
        if now < (self._rested_between_rows if rows_come else self._rested):
            return None
        for name, one in list(self._tables.items()):
            if now - one.asked > _INTEREST:
                del self._tables[name]
            elif name in self._changed:
                return name
        for name in list(self._changed):
            if self._slow(name):
                return name
            self._changed.discard(name)  # nobody looks at it, and nobody will wait for it
        return None

    def _slow(self, name: str) -> bool:
        """Whether a table of this stream would take long, and there is room to keep it."""
        try:
            stream = self._gate.streams.existing(name)
        except TidegateError:
            return False
        room = _FEW - sum(self._unasked.values())
        declared = (stream.keys or {}).get("names")
        few = name in self._unasked or (room > 0 and len(declared or ()) <= room)
        return stream.keys is not None and few and not stream.pipeline.estimator.adds_up

    def _view(self, name: str, run: Run) -> View | None:
        """A view for a table that nobody has asked for. None: it has too many keys."""
        if not isinstance(run, CommittedKeyed):
            return None
        self._unasked.pop(name, None)
        count = len(run.release.keys)
        if sum(self._unasked.values()) + count > _FEW:
            return None
        self._unasked[name] = count
        return view_to_answer(run)

    async def work(self, name: str) -> None:
        """Compute the table of a stream."""
        used, asked = 0.0, self._tables.get(name)
        self._changed.discard(name)

        def look(run: Run) -> View | None:
            return self._view(name, run) if asked is None else view_to_answer(run, asked.keys)

        def work_out(view: View) -> float:
            begin = self._processor()
            (_table_ahead_by_day if asked is None else asked.answer)(view)
            return self._processor() - begin

        try:
            view = await asyncio.to_thread(self._gate.ask, name, look)
            if view is not None:
                used = await self._gate.work_out(lambda: work_out(view))
        except TidegateError:  # the next reader gets the error: the key or the database may be gone
            self._tables.pop(name, None)
        now = self._clock()
        self._rested = now + used * (1 / _SHARE - 1)
        self._rested_between_rows = now + used * (1 / _SHARE_BETWEEN_ROWS - 1)

    async def ready(self) -> None:
        """Wait, for a limited time, until the streams present at the start are ready."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ready.wait(), _START)

    async def run(self) -> None:
        """Compute tables until cancelled."""
        try:
            self._changed.update(await asyncio.to_thread(self._gate.streams.in_use))
            while (name := self.due()) is not None:
                await self._try(name)
                self._rested = self._rested_between_rows = float("-inf")  # nobody waits yet
        finally:
            self._ready.set()
        while True:
            await asyncio.sleep(_PAUSE)
            if (name := self.due()) is not None:
                await self._try(name)

    async def _try(self, name: str) -> None:
        try:
            await self.work(name)
        except Exception as error:  # noqa: BLE001  # its words may quote what is secret
            _log.warning("a table was not worked out ahead: %s", type(error).__name__)
            self._tables.pop(name, None)
