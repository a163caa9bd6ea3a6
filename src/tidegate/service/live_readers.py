"""Live readers: released rows as server-sent events, resumed from the last position seen.

The id of an event is the position after its rows, and the number of the epoch if that is not the
first: `500`, `500@2`. Positions begin at 0 in every epoch, so a position alone would skip rows.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import orjson

from tidegate.service.database import Database
from tidegate.service.push_group import PushGroup
from tidegate.service.released_rows import RowBlock, rows_as_json, rows_between
from tidegate.service.stored_stream import EPOCH, StoredStream

_PAGE = 1000  # rows of an event, at most
_HEARTBEAT = 15  # seconds without news until a comment keeps the connection open
_KEPT = 256  # pages that several readers may need
_ASKED_AGAIN = 1.0  # seconds after which a reader's token is looked at again
_ID = re.compile(r"([0-9]{1,18})(?:@([0-9]{1,9}))?")

Names = Callable[[], Sequence[str] | None]
_Place = tuple[str, int, str | None]  # stream, position, key


def first_live_position(
    stream: StoredStream, last_id: str, start: int | None, released: int
) -> int:
    """The position where a reader begins.

    Args:
        stream: what is read.
        last_id: of the event that was seen last; anything else than an id counts as none.
        start: the position that was asked for instead; None: from now on.
        released: how many rows there are.
    """
    seen = _ID.fullmatch(last_id.strip())
    if seen is None:
        return released if start is None else start
    if int(seen[2] or 1) != stream.epoch:
        return 0  # of another epoch: all rows of this one are new
    return min(int(seen[1]), released)


@dataclass(frozen=True)
class LiveReader:
    """A reader and the stream that it follows.

    Attributes:
        stream: the stored name.
        position: of the first row.
        key: of rows that are wanted; None: all.
        names: of keys, for its rows.
        allowed: whether the reader may still read: tokens expire and are revoked.
        newest: whether this is still the epoch that the reader asked for.
    """

    stream: str
    position: int
    key: str | None
    names: Names
    allowed: Callable[[], Awaitable[bool]]
    newest: Callable[[], bool]


class _LivePiece(NamedTuple):
    position: int  # after its rows
    text: bytes


class LiveReaders:
    """Wakes readers when rows were released.

    Readers read the database, each at its pace. Those at the same place share what is read.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: dict[str, asyncio.Event] = {}
        self._pages: dict[_Place, tuple[asyncio.Task[list[_LivePiece]], asyncio.Event]] = {}
        self.readers = 0
        self._ending = False

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use this event loop from now on."""
        self._loop = loop

    def end(self) -> None:
        """Disconnect all readers, as the service stops; they reconnect by their ids."""
        self._ending = True
        self._wake(list(self._news))

    def tell(self, group: PushGroup) -> None:
        """Announce, from the gate's thread, that these streams have new committed rows."""
        names = [name.partition(EPOCH)[0] for name in group.rows]  # a new epoch wakes readers, too
        if names and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake, names)

    def _wake(self, names: list[str]) -> None:
        for name in names:
            if (event := self._news.pop(name, None)) is not None:
                event.set()

    async def events(self, reader: LiveReader) -> AsyncIterator[bytes]:
        """Rows as they come, until the reader loses its permission or another epoch begins.

        An id comes first, without rows: who loses the connection before the first rows come
        resumes from there.
        """
        self.readers += 1
        stream, position = reader.stream, reader.position
        plain = stream.partition(EPOCH)[0]
        looked = time.monotonic()
        try:
            yield b"id: %d%s\n\n" % (position, _live_id_suffix(stream))
            while not self._ending:
                if time.monotonic() >= looked + _ASKED_AGAIN:
                    if not await reader.allowed():
                        return
                    looked = time.monotonic()
                news = self._news.setdefault(plain, asyncio.Event())
                newest = reader.newest()  # before rows are read: the last ones are not missed
                pieces = await self._read((stream, position, reader.key), reader.names, news)
                if pieces:
                    position = pieces[-1].position
                    yield b"".join(piece.text for piece in pieces)
                    continue
                if not newest:
                    return
                try:
                    await asyncio.wait_for(news.wait(), _HEARTBEAT)
                except TimeoutError:
                    yield b": nothing new\n\n"
        finally:
            self.readers -= 1

    async def _read(self, place: _Place, names: Names, news: asyncio.Event) -> list[_LivePiece]:
        """The rows at a place, read once for all readers there.

        A reading that began before the last news may not have seen what they were about: who
        shared it would wait for the next.
        """
        task, before = self._pages.get(place, (None, news))
        if task is None or (before is not news and not task.done()):
            task = asyncio.create_task(asyncio.to_thread(self._page, *place, names))
            self._pages[place] = task, news
            task.add_done_callback(partial(self._forget, place))
            while len(self._pages) > _KEPT:
                self._pages.pop(next(iter(self._pages)))
        return await asyncio.shield(task)

    def _forget(self, place: _Place, done: asyncio.Task[list[_LivePiece]]) -> None:
        """Keep full pages only, as they never change."""
        failed = done.cancelled() or done.exception() is not None
        full = not failed and done.result() and done.result()[-1].position >= place[1] + _PAGE
        if not full and self._pages.get(place, (None,))[0] is done:
            del self._pages[place]

    def _page(self, stream: str, position: int, key: str | None, names: Names) -> list[_LivePiece]:
        blocks = list(rows_between(self._database, stream, position, position + _PAGE))
        if not blocks:
            return []
        known = names()
        epoch = _live_id_suffix(stream)
        pieces = []
        for block in blocks:
            shown = block if key is None or known is None else _live_rows_of_key(block, known, key)
            text = orjson.dumps(rows_as_json(shown, known)) if shown.values.size else b""
            event = b"id: %d%s\ndata: %s\n\n" % (block.end, epoch, text) if text else b""
            pieces.append(_LivePiece(block.end, event))
        return pieces


def _live_id_suffix(stream: str) -> bytes:
    """The epoch in ids, in the form of stored names: empty for the first."""
    return stream[len(stream.partition(EPOCH)[0]) :].encode()


def _live_rows_of_key(block: RowBlock, names: Sequence[str], key: str) -> RowBlock:
    code = names.index(key) if key in names else -1
    if block.codes is None:
        return block
    return block.chosen(np.flatnonzero(block.codes == code))
