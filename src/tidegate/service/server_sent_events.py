"""Live readers: released rows as server-sent events, resumed by the position that was seen last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

import numpy as np
import orjson

from tidegate.service.database import Database
from tidegate.service.push_group import Group
from tidegate.service.released_rows import RowBlock, rows_as_json, rows_between

_PAGE = 1000  # rows of an event, at most
_HEARTBEAT = 15  # seconds without news until a comment keeps the connection open
_KEPT = 256  # pages that several readers may need

Names = Callable[[], Sequence[str] | None]


class _Piece(NamedTuple):
    position: int  # after its rows
    text: bytes


class LiveReaders:
    """Wakes readers when something was released.

    Readers read the database, each at its pace. Those at the same place share what is read.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: dict[str, asyncio.Event] = {}
        self._pages: dict[tuple[str, int, str | None], asyncio.Task[list[_Piece]]] = {}
        self.readers = 0

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Work in this loop from now on."""
        self._loop = loop

    def tell(self, group: Group) -> None:
        """From the gate's thread: these streams have new rows, and they are committed."""
        names = list(group.rows)
        if names and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake, names)

    def _wake(self, names: list[str]) -> None:
        for name in names:
            if (event := self._news.pop(name, None)) is not None:
                event.set()

    async def events(
        self, stream: str, position: int, key: str | None, names: Names
    ) -> AsyncIterator[bytes]:
        """Rows from `position` on, for ever. The id of an event is the position after its rows."""
        self.readers += 1
        try:
            while True:
                news = self._news.setdefault(stream, asyncio.Event())
                pieces = await self._read(stream, position, key, names)
                if pieces:
                    position = pieces[-1].position
                    yield b"".join(piece.text for piece in pieces)
                    continue
                try:
                    await asyncio.wait_for(news.wait(), _HEARTBEAT)
                except TimeoutError:
                    yield b": nothing new\n\n"
        finally:
            self.readers -= 1

    async def _read(
        self, stream: str, position: int, key: str | None, names: Names
    ) -> list[_Piece]:
        """The pieces at a place: read once for all readers that stand there."""
        place = (stream, position, key)
        task = self._pages.get(place)
        if task is None:
            reading = asyncio.to_thread(self._page, stream, position, key, names)
            task = self._pages[place] = asyncio.create_task(reading)
            task.add_done_callback(lambda done: self._forget(place, done))
            while len(self._pages) > _KEPT:
                self._pages.pop(next(iter(self._pages)))
        return await asyncio.shield(task)

    def _forget(self, place: tuple[str, int, str | None], done: asyncio.Task[list[_Piece]]) -> None:
        """Keep full pages only: they never change."""
        failed = done.cancelled() or done.exception() is not None
        full = not failed and done.result() and done.result()[-1].position >= place[1] + _PAGE
        if not full and self._pages.get(place) is done:
            del self._pages[place]

    def _page(self, stream: str, position: int, key: str | None, names: Names) -> list[_Piece]:
        blocks = list(rows_between(self._database, stream, position, position + _PAGE))
        if not blocks:
            return []
        known = names()
        pieces = []
        for block in blocks:
            shown = block if key is None or known is None else _of_key(block, known, key)
            text = orjson.dumps(rows_as_json(shown, known)) if shown.values.size else b""
            event = b"id: %d\ndata: %s\n\n" % (block.end, text) if text else b""
            pieces.append(_Piece(block.end, event))
        return pieces


def _of_key(block: RowBlock, names: Sequence[str], key: str) -> RowBlock:
    code = names.index(key) if key in names else -1
    if block.codes is None:
        return block
    return block.chosen(np.flatnonzero(block.codes == code))
