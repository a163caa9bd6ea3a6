"""NATS JetStream: the sequence numbers of a stream are the offsets.

The consumer is ephemeral and acknowledges nothing: where to go on is in our own state. So the
stream must keep messages by limits; one that deletes what is acknowledged would keep them for ever.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import nats
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, RetentionPolicy
from nats.js.errors import APIError, NotFoundError

from tidegate.errors import SettingError
from tidegate.io.brokers.address import Address
from tidegate.io.brokers.broker_protocols import MOST, BrokerSink, Message
from tidegate.io.brokers.gaps import Gaps, gap_of_stream_begun_anew
from tidegate.io.errors import SinkError, SourceError

_PATIENCE = 5.0  # seconds for an answer of the server
_BROKEN = (NatsError, APIError, OSError, asyncio.TimeoutError)
Result = TypeVar("Result")


class JetStreamConnection:
    """A connection on its own event loop; library errors stay inside: they may quote data."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.loop = asyncio.new_event_loop()
        self._client: Any = None

    def run(self, work: Awaitable[Result]) -> Result:
        """Run work on the loop, and wait for it."""
        return self.loop.run_until_complete(work)

    async def stream(self) -> Any:
        """The JetStream of a connected client."""
        if self._client is None or self._client.is_closed:
            place = self.address
            self._client = await nats.connect(
                f"nats://{place.host}:{place.port}",
                user=place.user,
                password=place.password,
                connect_timeout=_PATIENCE,
                allow_reconnect=False,  # we connect again, and say from where
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                error_cb=_ignore_in_jetstream,
            )
        return self._client.jetstream(timeout=_PATIENCE)

    async def forget(self) -> None:
        """Drop the client; the next call connects again."""
        client, self._client = self._client, None
        if client is not None and not client.is_closed:
            with suppress(*_BROKEN):
                await client.close()

    def close(self) -> None:
        """Close the connection."""
        if not self.loop.is_closed():
            self.run(self.forget())
            self.loop.close()


async def _ignore_in_jetstream(error: Exception) -> None:
    pass


class JetStreamReader:
    """Messages of one subject of a stream."""

    numbered = True

    def __init__(self, address: Address, gaps: Gaps) -> None:
        self._connection, self._gaps = JetStreamConnection(address), gaps
        self._stream, self._subject = address.path
        self._alone = False  # whether all sequence numbers of the stream are of this subject
        self._told = 0  # gaps up to this sequence number
        self._subscription: Any = None
        self._next: str | None = ""  # after which offset the subscription goes on
        try:
            info = self._connection.run(self._info())
        except NotFoundError:
            self.close()
            raise SourceError(None, "there is no such stream", str(address)) from None
        except _BROKEN:
            self.close()
            raise SourceError(None, "cannot be reached", str(address)) from None
        if info.config.retention not in (None, RetentionPolicy.LIMITS):
            self.close()
            raise SettingError(
                "source", f"stream {self._stream} must keep messages by limits (--retention limits)"
            )

    async def _info(self) -> Any:
        return await (await self._connection.stream()).stream_info(self._stream)

    def read(self, after: str | None, wait: float) -> Sequence[Message]:
        """The next messages after an offset."""
        try:
            return self._connection.run(self._read(after, wait))
        except SourceError:  # ours: messages are missing
            raise
        except _BROKEN:  # the server is gone, or the consumer is: begin again at our offset
            self._subscription = None
            self._connection.run(self._pause(wait))
            return []

    async def _pause(self, wait: float) -> None:
        await self._connection.forget()
        await asyncio.sleep(min(wait, 0.2))

    async def _read(self, after: str | None, wait: float) -> Sequence[Message]:
        stream = await self._connection.stream()
        if self._subscription is None or self._next != after:
            self._check_deleted(after, await stream.stream_info(self._stream))
            config = ConsumerConfig(
                ack_policy=AckPolicy.NONE,
                deliver_policy=DeliverPolicy.ALL
                if after is None
                else DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=None if after is None else int(after) + 1,
                inactive_threshold=60,
                max_deliver=1,
                mem_storage=True,  # where we are is in our own state
            )
            self._subscription = await stream.pull_subscribe(
                self._subject, stream=self._stream, config=config
            )
            self._next = after
        try:
            found = await self._subscription.fetch(MOST, timeout=wait)
        except TimeoutError:
            return []
        messages = [Message(str(one.metadata.sequence.stream), one.data) for one in found]
        previous = 0 if after is None else int(after)
        for at, message in enumerate(messages):
            if int(message.offset) <= previous:  # a consumer that lost its place is made again
                self._subscription = None
                return []
            if self._alone and previous and int(message.offset) > previous + 1:
                if at:  # those before the gap first
                    self._subscription = None
                    return messages[:at]
                self._missing(previous, int(message.offset))
            previous = int(message.offset)
        self._next = messages[-1].offset if messages else after
        return messages

    def _check_deleted(self, after: str | None, info: Any) -> None:
        """Check where the stream begins now, before reading on."""
        self._alone = info.config.subjects == [self._subject]
        if after is None:  # whatever was deleted before our first look was never ours to read
            return
        last, first = int(after), info.state.first_seq
        if info.state.last_seq < last:
            raise gap_of_stream_begun_anew(str(self._connection.address))
        self._missing(last, first)

    def _missing(self, last: int, first: int) -> None:
        """Report, once, that messages between these two are missing."""
        last, self._told = max(last, self._told), max(first - 1, self._told)
        if first - 1 <= last:
            return
        place, these = str(self._connection.address), f"messages {last + 1} to {first - 1}"
        if self._alone:
            self._gaps.found(f"{these} were", place)
        else:
            self._gaps.perhaps(
                f"{these} of the stream were deleted. Whether unread ones of this subject were "
                "among them cannot be told: the stream has others",
                place,
            )

    def ended(self, after: str | None) -> bool:
        """Whether there is nothing after this offset at present."""
        try:
            info = self._connection.run(self._last())
        except _BROKEN:
            return False
        return info <= (0 if after is None else int(after))

    async def _last(self) -> int:
        stream = await self._connection.stream()
        try:
            return int((await stream.get_last_msg(self._stream, self._subject)).seq)
        except NotFoundError:
            return 0

    def taken(self, messages: Sequence[Message]) -> None:
        """Do nothing: the stream keeps messages by its limits."""

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class JetStreamSink(BrokerSink):
    """Rows on one subject. The server stores a row only after the previous row."""

    def __init__(self, address: Address, epoch: str) -> None:
        super().__init__(epoch)
        self._connection = JetStreamConnection(address)
        self._stream, self._subject = address.path

    def written(self) -> int:
        """The number of rows that the broker has."""
        try:
            return self._connection.run(self._written())
        except _BROKEN:
            raise self._error("cannot be reached, or has no such stream") from None

    async def _written(self) -> int:
        stream = await self._connection.stream()
        await stream.stream_info(self._stream)
        try:
            last = await stream.get_last_msg(self._stream, self._subject)
        except NotFoundError:
            return 0
        try:
            epoch = last.headers["Nats-Msg-Id"].rpartition("/")[0]
            position = int(json.loads(last.data)["position"])
        except (KeyError, TypeError, ValueError):
            raise self._error("holds messages that are not released rows") from None
        if epoch != self.epoch:
            raise self._error("holds rows of another epoch: use another subject")
        return position + 1

    def publish(self, first: int, rows: Sequence[bytes]) -> None:
        """Publish rows from position `first` on, and wait until they are stored."""
        try:
            self._connection.run(self._publish(first, rows))
        except _BROKEN:
            raise self._error("did not store all rows. Run the same command again") from None

    async def _publish(self, first: int, rows: Sequence[bytes]) -> None:
        stream = await self._connection.stream()
        sent = [
            stream.publish(
                self._subject, row, stream=self._stream, headers=self._headers(first + at)
            )
            for at, row in enumerate(rows)
        ]
        await asyncio.gather(*sent)

    def _headers(self, position: int) -> dict[str, str]:
        found = {"Nats-Msg-Id": f"{self.epoch}/{position}"}
        if position:
            found["Nats-Expected-Last-Msg-Id"] = f"{self.epoch}/{position - 1}"
        return found

    def _error(self, problem: str) -> SinkError:
        return SinkError(None, problem, str(self._connection.address))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def open_reader(address: Address, client: str, gaps: Gaps) -> JetStreamReader:
    """Open a subject for reading."""
    return JetStreamReader(address, gaps)


def open_sink(address: Address, epoch: str, client: str) -> JetStreamSink:
    """Open a subject for writing rows."""
    return JetStreamSink(address, epoch)
