"""Kafka: one partition is one stream; its offsets are ours, without a consumer group."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tidegate.errors import SettingError
from tidegate.io.brokers.address import Address
from tidegate.io.brokers.broker_protocols import MOST, BrokerSink, Message
from tidegate.io.brokers.gaps import Gaps, gap_of_stream_begun_anew
from tidegate.io.errors import SinkError, SourceError

_PATIENCE = 10.0
_OUT_OF_RANGE = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)


def _kafka_settings(address: Address) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bootstrap.servers": f"{address.host}:{address.port}",
        "log_level": 0,  # its log goes to stderr, around ours
    }
    if address.user is not None:
        found |= {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": address.user,
            "sasl.password": address.password or "",
        }
    return found


def _kafka_partition(address: Address) -> int:
    return int(address.path[1]) if len(address.path) > 1 else 0


class KafkaReader:
    """Messages of the only partition of a topic."""

    numbered = True

    def __init__(self, address: Address, name: str, gaps: Gaps) -> None:
        self._topic, self._place, self._gaps = address.path[0], str(address), gaps
        self._partition = _kafka_partition(address)
        self._next: str | None = ""
        settings = {"group.id": name, "enable.auto.commit": False, "auto.offset.reset": "error"}
        self._consumer = Consumer({**_kafka_settings(address), **settings})
        try:
            known = self._consumer.list_topics(self._topic, timeout=_PATIENCE).topics[self._topic]
        except (KafkaException, KeyError):
            raise SourceError(None, "cannot be reached", self._place) from None
        if known.error is not None or not known.partitions:
            raise SourceError(None, "there is no such topic", self._place)
        if len(known.partitions) > 1 and len(address.path) == 1:
            raise SettingError(
                "source",
                f"topic {self._topic} has {len(known.partitions)} partitions, whose rows have no "
                "order. Name one of them (kafka://host/topic/0), or use tidegate.spark",
            )

    def read(self, after: str | None, wait: float) -> Sequence[Message]:
        """The next messages after an offset."""
        if self._next != after:
            start = self._start(after)
            self._consumer.assign([TopicPartition(self._topic, self._partition, start)])
            self._next = after
        try:
            found = self._consumer.consume(MOST, timeout=wait)
        except KafkaException:
            return []
        messages = [
            Message(str(one.offset()), one.value() or b"") for one in found if one.error() is None
        ]
        if messages:
            self._next = messages[-1].offset
        elif any(one.error() is not None and one.error().code() in _OUT_OF_RANGE for one in found):
            self._next = ""  # deleted while we were reading: the next call looks where to go on
        return messages

    def _start(self, after: str | None) -> int:
        """Where to continue; the partition may have deleted messages, or be another one."""
        low, high = self._ends()
        start = low if after is None else int(after) + 1
        if start > high:
            raise gap_of_stream_begun_anew(self._place)
        if start < low:
            self._gaps.found(f"messages {start} to {low - 1} were", self._place)
        return max(start, low)

    def _ends(self) -> tuple[int, int]:
        try:
            partition = TopicPartition(self._topic, self._partition)
            low, high = self._consumer.get_watermark_offsets(partition, timeout=_PATIENCE)
            return low, high
        except (KafkaException, TypeError):
            raise SourceError(None, "cannot be reached", self._place) from None

    def ended(self, after: str | None) -> bool:
        """Whether there is nothing after this offset at present."""
        low, high = self._ends()  # all that there was may be deleted: it does not begin at 0 then
        return high <= (low if after is None else int(after) + 1)

    def taken(self, messages: Sequence[Message]) -> None:
        """Do nothing: offsets are in our own state."""

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()


class KafkaSink(BrokerSink):
    """Rows in one partition, by an idempotent producer: in order, without gaps."""

    def __init__(self, address: Address, epoch: str) -> None:
        super().__init__(epoch)
        self._address, self._topic = address, address.path[0]
        self._partition = _kafka_partition(address)
        self._producer = Producer(
            {**_kafka_settings(address), "enable.idempotence": True, "delivery.timeout.ms": 10_000}
        )

    def written(self) -> int:
        """The number of rows that the broker has."""
        reader = Consumer({**_kafka_settings(self._address), "group.id": "tidegate"})
        try:
            partition = TopicPartition(self._topic, self._partition)
            low, high = reader.get_watermark_offsets(partition, timeout=_PATIENCE)
            if high == 0:
                return 0
            if low == high:  # to begin again would publish rows that were read already
                raise self._error("has deleted all rows that it held: use another topic")
            reader.assign([TopicPartition(self._topic, self._partition, high - 1)])
            last = reader.consume(1, timeout=_PATIENCE)
        except (KafkaException, TypeError):
            raise self._error("cannot be reached, or has no such topic") from None
        finally:
            reader.close()
        try:
            epoch, position = last[0].key().decode(), int(json.loads(last[0].value())["position"])
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise self._error("holds messages that are not released rows") from None
        if epoch != self.epoch:
            raise self._error("holds rows of another epoch: use another topic")
        return position + 1

    def publish(self, first: int, rows: Sequence[bytes]) -> None:
        """Publish rows from position `first` on, and wait until they are stored."""
        failed: list[object] = []

        def told(error: object, message: object) -> None:
            if error is not None:
                failed.append(error)

        try:
            for row in rows:
                self._producer.produce(
                    self._topic, row, key=self.epoch, partition=self._partition, on_delivery=told
                )
            left = self._producer.flush(_PATIENCE)
        except (KafkaException, BufferError):
            left = 1
        if left or failed:
            raise self._error("did not store all rows. Run the same command again")

    def _error(self, problem: str) -> SinkError:
        return SinkError(None, problem, str(self._address))

    def close(self) -> None:
        """Close the connection."""
        self._producer.flush(_PATIENCE)


def open_reader(address: Address, client: str, gaps: Gaps) -> KafkaReader:
    """Open a topic for reading."""
    return KafkaReader(address, f"tidegate-{client}", gaps)


def open_sink(address: Address, epoch: str, client: str) -> KafkaSink:
    """Open a topic for writing rows."""
    return KafkaSink(address, epoch)
