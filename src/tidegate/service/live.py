"""Live readers: released rows as server-sent events, resumed by the position that was seen last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import orjson

from tidegate.record.rows import Rows
from tidegate.service.database import Database
from tidegate.service.group import Group
from tidegate.service.released_rows import between

_PAGE = 1000  # rows of an event, at most
_HEARTBEAT = 15  # seconds without news until a comment keeps the connection open


class Live:
    """Wakes readers when something was released. Readers read the database, each at its pace."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: dict[str, asyncio.Event] = {}
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

    async def events(self, stream: str, position: int) -> AsyncIterator[bytes]:
        """Rows from `position` on, for ever. The id of an event is the position after its rows."""
        self.readers += 1
        try:
            while True:
                news = self._news.setdefault(stream, asyncio.Event())
                rows = await asyncio.to_thread(self._page, stream, position)
                if rows:
                    for one in rows:
                        position = one.first + one.values.size
                        yield b"id: %d\ndata: %s\n\n" % (position, _encoded(one))
                    continue
                try:
                    await asyncio.wait_for(news.wait(), _HEARTBEAT)
                except TimeoutError:
                    yield b": nothing new\n\n"
        finally:
            self.readers -= 1

    def _page(self, stream: str, position: int) -> list[Rows]:
        return list(between(self._database, stream, position, position + _PAGE))


def _encoded(rows: Rows) -> bytes:
    return orjson.dumps(as_json(rows))


def as_json(rows: Rows) -> dict[str, object]:
    """Rows as columns. Times are nanoseconds since 1970, as texts: browsers round such numbers."""
    times = {} if rows.times is None else {"times": [str(tick) for tick in rows.times.tolist()]}
    return {
        "first": rows.first,
        "values": rows.values.tolist(),
        "levels": rows.levels.tolist(),
        **times,
    }
