"""MQTT: it has no offsets, so messages must carry a number, and rows may arrive twice.

A session that stays (a fixed client id) makes the broker keep what was not acknowledged, and
deliver it again. It is acknowledged after the commit. After a kill the broker delivers again what
was committed but not acknowledged, at QoS 2 too: what it promises holds for a session whose both
ends survive. The number in the message tells what was taken.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

from tidegate.io.brokers.address import Address
from tidegate.io.brokers.broker_protocols import MOST, BrokerSink, Message
from tidegate.io.brokers.gaps import Gaps
from tidegate.io.errors import SinkError, SourceError

_PATIENCE = 5.0
_QOS = 1
_POSITION = "/position"  # the topic beside that of the rows: how many there are, retained


def _mqtt_client(address: Address, name: str, *, stays: bool) -> Any:
    made = paho.Client(
        CallbackAPIVersion.VERSION2, client_id=name, clean_session=not stays, manual_ack=stays
    )
    made.reconnect_delay_set(min_delay=1, max_delay=2)
    if address.user is not None:
        made.username_pw_set(address.user, address.password)
    return made


class MqttReader:
    """Messages of one topic, in a session that survives this process."""

    numbered = False

    def __init__(self, address: Address, name: str) -> None:
        self._waiting: queue.Queue[Any] = queue.Queue()
        self._held: dict[str, Any] = {}
        self._topic = address.path[0]
        self._client = _mqtt_client(address, name, stays=True)
        self._client.on_connect = self._subscribed
        self._client.on_message = lambda client, data, message: self._waiting.put(message)
        try:
            self._client.connect(address.host, address.port)
        except OSError:
            raise SourceError(None, "cannot be reached", str(address)) from None
        self._client.loop_start()

    def _subscribed(self, client: Any, data: Any, flags: Any, reason: Any, more: Any) -> None:
        client.subscribe(self._topic, qos=2)

    def read(self, after: str | None, wait: float) -> Sequence[Message]:
        """The next messages after an offset."""
        found: list[Message] = []
        end = time.monotonic() + wait
        while len(found) < MOST:
            try:
                left = max(0.0, end - time.monotonic()) if not found else 0.0
                message = self._waiting.get(timeout=left) if left else self._waiting.get_nowait()
            except queue.Empty:
                break
            handle = f"{len(self._held)}"
            self._held[handle] = message
            found.append(Message(handle, message.payload))
        return found

    def ended(self, after: str | None) -> bool:
        """False: a topic has no end."""
        return False

    def taken(self, messages: Sequence[Message]) -> None:
        """Acknowledge the messages."""
        for message in messages:
            held = self._held.pop(message.offset)
            self._client.ack(held.mid, held.qos)

    def close(self) -> None:
        """Close the connection."""
        self._client.loop_stop()
        self._client.disconnect()


class MqttSink(BrokerSink):
    """Rows on a topic at QoS 1, and their number on `topic/position`, retained."""

    def __init__(self, address: Address, epoch: str, name: str) -> None:
        super().__init__(epoch)
        self._address = address
        self._client = _mqtt_client(address, name, stays=False)
        try:
            self._client.connect(address.host, address.port)
        except OSError:
            raise self._error("cannot be reached") from None
        self._client.loop_start()

    def written(self) -> int:
        """The number in the retained message; later rows may have been published, too."""
        told: list[bytes] = []
        there, subscribed = threading.Event(), threading.Event()

        def took(client: Any, data: Any, message: Any) -> None:
            told.append(message.payload)
            there.set()

        self._client.on_message = took
        self._client.on_subscribe = lambda *_: subscribed.set()
        topic = self._address.path[0] + _POSITION
        self._client.subscribe(topic, qos=1)
        if not subscribed.wait(_PATIENCE):
            raise self._error("did not answer")
        there.wait(0.5)  # a retained message follows at once
        self._client.unsubscribe(topic)
        if not told:
            return 0
        epoch, _, count = told[-1].decode("ascii", "replace").partition("/")
        if epoch != self.epoch or not count.isdigit():
            raise self._error("holds rows of another epoch: use another topic")
        return int(count)

    def publish(self, first: int, rows: Sequence[bytes]) -> None:
        """Publish rows from position `first` on, and wait until they are stored."""
        topic = self._address.path[0]
        self._send([(topic, row, False) for row in rows])
        count = f"{self.epoch}/{first + len(rows)}".encode()
        self._send([(topic + _POSITION, count, True)])

    def _send(self, messages: Sequence[tuple[str, bytes, bool]]) -> None:
        try:
            sent = [
                self._client.publish(topic, payload, qos=_QOS, retain=retain)
                for topic, payload, retain in messages
            ]
            for one in sent:
                one.wait_for_publish(_PATIENCE)
                if not one.is_published():
                    raise self._error("did not store all rows. Run the same command again")
        except (RuntimeError, ValueError):
            raise self._error("did not store all rows. Run the same command again") from None

    def _error(self, problem: str) -> SinkError:
        return SinkError(None, problem, str(self._address))

    def close(self) -> None:
        """Close the connection."""
        self._client.loop_stop()
        self._client.disconnect()


def open_reader(address: Address, client: str, gaps: Gaps) -> MqttReader:
    """Open a topic for reading. What a broker drops leaves no trace, so no gap is ever found."""
    return MqttReader(address, f"tidegate-{client}")


def open_sink(address: Address, epoch: str, client: str) -> MqttSink:
    """Open a topic for writing rows."""
    return MqttSink(address, epoch, f"tidegate-{client}-out")
