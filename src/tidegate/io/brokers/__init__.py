"""Brokers as sources and sinks: NATS JetStream, MQTT, Redis Streams, Kafka.

    broker → Reader: messages after an offset → values with their places → durable release
    released rows → BrokerSink: each row once, by its position → broker

The offset is part of the durable state, in the commit of the values that it belongs to
(`tidegate.durable.broker_subscription`); what a broker remembers of its consumers decides nothing.
Messages that were deleted before they were read end the run, or are left out (`Gaps`).

| address | offset | a row is written once because |
| --- | --- | --- |
| `nats://host:4222/STREAM/subject` | sequence in the stream | the server checks the one before |
| `redis://host:6379/0/stream` | id of the entry | ids must grow, and an id is a position |
| `kafka://host:9092/topic/0` | offset in the partition | the producer is idempotent |
| `mqtt://host:1883/topic` | number in the message | it may come twice; same position, same bytes |
"""

from __future__ import annotations

from tidegate.io.brokers.address import Address, is_broker, open_broker_sink, open_reader
from tidegate.io.brokers.broker_protocols import BrokerSink, Message, Reader
from tidegate.io.brokers.gaps import Gaps

__all__ = [
    "Address",
    "BrokerSink",
    "Gaps",
    "Message",
    "Reader",
    "is_broker",
    "open_broker_sink",
    "open_reader",
]
