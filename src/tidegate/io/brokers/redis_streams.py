"""Redis Streams: ids of entries are the offsets; a row's id is its position.

Ids do not follow one another, so they do not tell of entries that were trimmed. Redis counts what
was ever added (since 7.0), so an offset is an id with that count: `1526919030474-0/57`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import redis

from tidegate.io.brokers.address import Address
from tidegate.io.brokers.broker_protocols import MOST, BrokerSink, Message
from tidegate.io.brokers.gaps import Gaps, gap_of_stream_begun_anew
from tidegate.io.errors import SinkError, SourceError

FIELD = b"value"  # of an entry: the payload
_PATIENCE = 5.0
_FIRST = "0-0"  # before every entry


def _connected_to_redis(address: Address) -> Any:
    return redis.Redis(
        host=address.host,
        port=address.port,
        db=int(address.path[0]) if address.path[0].isdecimal() else 0,
        username=address.user,
        password=address.password,
        socket_timeout=_PATIENCE,
    )


class RedisStreamExtent(NamedTuple):
    """The range of entries in a stream, from `XINFO STREAM`.

    Attributes:
        first: the id of the oldest entry; None: it holds none.
        last: the newest id that was ever given.
        deleted: the newest id that was deleted one by one (XDEL).
        number: which of all that were ever added the oldest is, counted from 1; None: unknown.
    """

    first: str | None
    last: str
    deleted: str
    number: int | None

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> RedisStreamExtent:
        """The extent from the server's answer."""
        first = None if info["first-entry"] is None else info["first-entry"][0].decode()
        deleted = info.get("max-deleted-entry-id", _FIRST.encode()).decode()
        added = info.get("entries-added")
        counted = added is not None and (
            first is None or _redis_order(deleted) < _redis_order(first)
        )
        number = added - info["length"] + 1 if counted else None
        return cls(first, info["last-generated-id"].decode(), deleted, number)

    def missing(self, after: str) -> str | None:
        """What was deleted after the entry that was read last. None: nothing."""
        if _redis_order(self.last) <= _redis_order(after):
            return None
        if _redis_order(self.deleted) > _redis_order(after):
            return "entries were"
        if self.first is not None and _redis_order(self.first) <= _redis_order(after):
            return None
        read = _redis_number(after)
        if read is None or self.number is None:
            return f"entries after {_redis_id(after)} were, it seems,"
        count = self.number - read - 1
        return None if count == 0 else f"{count} entries were" if count > 0 else "entries were"


class RedisReader:
    """Entries of one stream; the field `value` is the payload."""

    numbered = True

    def __init__(self, address: Address, gaps: Gaps) -> None:
        self._address, self._client = address, _connected_to_redis(address)
        self._gaps, self._told = gaps, ""
        try:
            self._client.ping()
        except redis.RedisError:
            raise SourceError(None, "cannot be reached", str(address)) from None

    def read(self, after: str | None, wait: float) -> Sequence[Message]:
        """The next messages after an offset."""
        start = {self._address.path[1]: _redis_id(after or _FIRST)}
        try:
            if not (found := self._read(after)):
                self._client.xread(start, count=1, block=max(1, int(1000 * wait)))
                found = self._read(after)
        except redis.RedisError:  # the server is gone: the next call connects again
            time.sleep(min(wait, 0.2))
            return []
        return found

    def _read(self, after: str | None) -> Sequence[Message]:
        """What is there now, and what has been deleted, in one transaction."""
        stream = self._address.path[1]
        with self._client.pipeline(transaction=True) as together:
            together.xinfo_stream(stream)
            together.xread({stream: _redis_id(after or _FIRST)}, count=MOST)
            info, found = together.execute(raise_on_error=False)
        if isinstance(info, redis.ResponseError):
            if "no such key" not in str(info):
                problem = "is not a stream, or this user may not ask about it (XINFO STREAM)"
                raise SourceError(None, problem, str(self._address))
            if after is not None:
                raise gap_of_stream_begun_anew(str(self._address))
            return []
        here = RedisStreamExtent.of(info)
        number = here.number if after is None else self._checked(here, after)
        return [
            Message(
                _redis_offset(id_, None if number is None else number + at), fields.get(FIELD, b"")
            )
            for at, (id_, fields) in enumerate(_redis_entries(found))
        ]

    def _checked(self, here: RedisStreamExtent, after: str) -> int | None:
        """Check which entry comes next. Report once if some are missing."""
        if _redis_order(here.last) < _redis_order(after):
            raise gap_of_stream_begun_anew(str(self._address))
        missing = here.missing(after)
        if missing is None:
            read = _redis_number(after)
            return None if read is None else read + 1
        if self._told != after:
            self._gaps.found(missing, str(self._address))
            self._told = after
        return here.number

    def ended(self, after: str | None) -> bool:
        """Whether there is nothing after this offset at present."""
        try:
            last = self._client.xrevrange(self._address.path[1], count=1)
        except redis.RedisError:
            return False
        return not last or _redis_order(last[0][0].decode()) <= _redis_order(after or _FIRST)

    def taken(self, messages: Sequence[Message]) -> None:
        """Do nothing: entries stay until the stream is trimmed."""

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def _redis_entries(found: Any) -> Any:
    """The entries of the requested stream; the answer is a list, or a dictionary (RESP3)."""
    if isinstance(found, dict):
        return next(iter(found.values()))[0] if found else ()
    return found[0][1] if found else ()


def _redis_id(offset: str) -> str:
    return offset.partition("/")[0]


def _redis_number(offset: str) -> int | None:
    number = offset.partition("/")[2]
    return int(number) if number else None


def _redis_offset(id_: bytes, number: int | None) -> str:
    return id_.decode() if number is None else f"{id_.decode()}/{number}"


def _redis_order(offset: str) -> tuple[int, int]:
    first, _, second = _redis_id(offset).partition("-")
    return int(first), int(second)


class RedisSink(BrokerSink):
    """Rows as entries: row `position` has the id `position + 1`-0; the server refuses repeats."""

    def __init__(self, address: Address, epoch: str) -> None:
        super().__init__(epoch)
        self._address, self._client = address, _connected_to_redis(address)

    def written(self) -> int:
        """The number of rows that the broker has."""
        try:
            last = self._client.xrevrange(self._address.path[1], count=1)
        except redis.RedisError:
            raise self._error("cannot be reached, or is not a stream") from None
        if not last:
            return 0
        if last[0][1].get(b"epoch", b"").decode("ascii", "replace") != self.epoch:
            raise self._error("holds rows of another epoch, or others: use another stream")
        return _redis_order(last[0][0].decode())[0]

    def publish(self, first: int, rows: Sequence[bytes]) -> None:
        """Publish rows from position `first` on, and wait until they are stored."""
        try:
            with self._client.pipeline(transaction=True) as together:  # all of them or none
                for at, row in enumerate(rows, first + 1):
                    fields = {"epoch": self.epoch, "row": row}
                    together.xadd(self._address.path[1], fields, id=f"{at}-0")
                together.execute()
        except redis.RedisError:
            raise self._error("did not store all rows. Run the same command again") from None

    def _error(self, problem: str) -> SinkError:
        return SinkError(None, problem, str(self._address))

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def open_reader(address: Address, client: str, gaps: Gaps) -> RedisReader:
    """Open a stream for reading."""
    return RedisReader(address, gaps)


def open_sink(address: Address, epoch: str, client: str) -> RedisSink:
    """Open a stream for writing rows."""
    return RedisSink(address, epoch)
