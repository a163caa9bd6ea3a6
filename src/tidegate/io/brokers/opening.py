"""Open a reader or a sink by its address. Libraries are imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tidegate.io.brokers.address import Address
from tidegate.io.brokers.contract import BrokerSink, Reader
from tidegate.tables import libraries

# The module of ours and the library that it needs.
_MODULES = {
    "nats": ("jetstream", "nats"),
    "mqtt": ("mqtt", "paho.mqtt.client"),
    "redis": ("redis_streams", "redis"),
    "kafka": ("kafka", "confluent_kafka"),
}


def open_reader(address: str, *, client: str) -> Reader:
    """A connection that reads; `client` is a name for it that stays the same after a restart."""
    place = Address.read(address, "source")
    reader: Reader = _module(place).open_reader(place, client)
    return reader


def open_broker_sink(address: str, *, epoch: str, client: str) -> BrokerSink:
    """A connection that writes the rows of an epoch."""
    place = Address.read(address, "output")
    sink: BrokerSink = _module(place).open_sink(place, epoch, client)
    return sink


def _module(place: Address) -> Any:
    name, library = _MODULES[place.scheme]
    libraries.require(library, f"{place.scheme}://", "brokers")
    return import_module(f"tidegate.io.brokers.{name}")
