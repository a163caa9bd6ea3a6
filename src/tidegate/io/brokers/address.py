"""The address of a stream, subject or topic: `nats://host:4222/STREAM/subject`.

A reader or a sink is opened by it. Libraries are imported when they are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any
from urllib.parse import unquote, urlsplit

from tidegate.errors import SettingError
from tidegate.io.brokers.broker_protocols import BrokerSink, Reader
from tidegate.io.brokers.gaps import Gaps
from tidegate.tables import optional_libraries as libraries

PORTS = {"nats": 4222, "mqtt": 1883, "redis": 6379, "kafka": 9092}
PATHS = {"nats": "STREAM/subject", "mqtt": "topic", "redis": "0/stream", "kafka": "topic/partition"}


def is_broker(place: object) -> bool:
    """Whether this names a broker, not a file."""
    return isinstance(place, str) and place.partition("://")[0] in PORTS and "://" in place


@dataclass(frozen=True)
class Address:
    """A broker, and the stream, subject or topic to read or write.

    Attributes:
        scheme: nats, mqtt, redis or kafka.
        host, port: of the server.
        path: what follows, as the broker understands it.
        user, password: if the address has them; never shown.
    """

    scheme: str
    host: str
    port: int
    path: tuple[str, ...]
    user: str | None = None
    password: str | None = None

    @classmethod
    def read(cls, text: str, setting: str) -> Address:
        """Parse an address into its parts."""
        scheme = text.partition("://")[0]
        known = scheme if scheme in PORTS else "nats"
        form = f"{known}://host:{PORTS[known]}/{PATHS[known]}"
        wrong = SettingError(setting, f"must look like {form}")
        try:
            split = urlsplit(text)
            port = split.port or PORTS[scheme]
        except (KeyError, ValueError):
            raise wrong from None
        path = split.path.strip("/")
        parts = (path,) if scheme == "mqtt" else tuple(path.split("/"))
        count = {"nats": {2}, "redis": {2}, "mqtt": {1}, "kafka": {1, 2}}[scheme]
        if not split.hostname or not all(parts) or len(parts) not in count:
            raise wrong
        if scheme == "kafka" and not parts[-1].isdigit() and len(parts) == 2:
            raise wrong
        password = None if split.password is None else unquote(split.password)
        user = None if split.username is None else unquote(split.username)
        return cls(scheme, split.hostname, port, parts, user, password)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}/{'/'.join(self.path)}"

    def __repr__(self) -> str:
        return f"<Address {self}>"


# The module of ours and the library that it needs.
_MODULES = {
    "nats": ("jetstream", "nats"),
    "mqtt": ("mqtt", "paho.mqtt.client"),
    "redis": ("redis_streams", "redis"),
    "kafka": ("kafka", "confluent_kafka"),
}


def open_reader(address: str, *, client: str, gaps: Gaps | None = None) -> Reader:
    """Open a connection for reading.

    Args:
        address: as a user writes it.
        client: a name for it that stays the same after a restart.
        gaps: what happens where messages were deleted before they were read; None: the run ends.
    """
    place = Address.read(address, "source")
    reader: Reader = _broker_module(place).open_reader(place, client, gaps or Gaps())
    return reader


def open_broker_sink(address: str, *, epoch: str, client: str) -> BrokerSink:
    """Open a connection that writes the rows of an epoch."""
    place = Address.read(address, "output")
    sink: BrokerSink = _broker_module(place).open_sink(place, epoch, client)
    return sink


def _broker_module(place: Address) -> Any:
    name, library = _MODULES[place.scheme]
    libraries.require_library(library, f"{place.scheme}://", "brokers")
    return import_module(f"tidegate.io.brokers.{name}")
