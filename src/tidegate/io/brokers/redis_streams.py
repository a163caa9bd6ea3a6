"""Redis Streams: the ids of entries are the offsets; a row has its position as id."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import redis

from tidegate.io.brokers.address import Address
from tidegate.io.brokers.contract import MOST, BrokerSink, Message
from tidegate.io.errors import SinkError, SourceError

FIELD = b"value"  # of an entry: the payload
_PATIENCE = 5.0
_FIRST = "0-0"  # before every entry


def _connected_to_redis(address: Address) -> Any:
    return redis.Redis(
        host=address.host,
        port=address.port,
        db=int(address.path[0]) if address.path[0].isdigit() else 0,
        username=address.user,
        password=address.password,
        socket_timeout=_PATIENCE,
    )


class RedisReader:
    """Entries of one stream; the field `value` is the payload."""

    numbered = True

    def __init__(self, address: Address) -> None:
        self._address, self._client = address, _connected_to_redis(address)
        try:
            self._client.ping()
        except redis.RedisError:
            raise SourceError(None, "cannot be reached", str(address)) from None

    def read(self, after: str | None, wait: float) -> Sequence[Message]:
        """The next messages after an offset."""
        stream = self._address.path[1]
        try:
            found = self._client.xread(
                {stream: after or _FIRST}, count=MOST, block=max(1, int(1000 * wait))
            )
        except redis.RedisError:  # the server is gone: the next call connects again
            time.sleep(min(wait, 0.2))
            return []
        entries = [] if not found else (found[0][1] if isinstance(found, list) else found)
        if isinstance(found, dict):
            entries = next(iter(found.values()))[0] if found else []
        return [Message(id_.decode(), fields.get(FIELD, b"")) for id_, fields in entries]

    def ended(self, after: str | None) -> bool:
        """Whether there is nothing after this offset now."""
        try:
            last = self._client.xrevrange(self._address.path[1], count=1)
        except redis.RedisError:
            return False
        return not last or _order(last[0][0].decode()) <= _order(after or _FIRST)

    def taken(self, messages: Sequence[Message]) -> None:
        """Do nothing: entries stay until the stream is trimmed."""

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()


def _order(offset: str) -> tuple[int, int]:
    first, _, second = offset.partition("-")
    return int(first), int(second)


class RedisSink(BrokerSink):
    """Row `position` has the id `position + 1`-0: the server refuses one that it has."""

    def __init__(self, address: Address, epoch: str) -> None:
        super().__init__(epoch)
        self._address, self._client = address, _connected_to_redis(address)

    def written(self) -> int:
        """How many rows the broker holds."""
        try:
            last = self._client.xrevrange(self._address.path[1], count=1)
        except redis.RedisError:
            raise self._error("cannot be reached, or is not a stream") from None
        if not last:
            return 0
        if last[0][1].get(b"epoch", b"").decode("ascii", "replace") != self.epoch:
            raise self._error("holds rows of another epoch, or others: use another stream")
        return _order(last[0][0].decode())[0]

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
        """Let go of the connection."""
        self._client.close()


def open_reader(address: Address, client: str) -> RedisReader:
    """Entries of a stream."""
    return RedisReader(address)


def open_sink(address: Address, epoch: str, client: str) -> RedisSink:
    """Rows in a stream."""
    return RedisSink(address, epoch)
