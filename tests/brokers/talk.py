"""What a producer and a reader of rows would do, with the libraries of the brokers alone."""

import asyncio
import json
import threading
import time
from typing import Any

import numpy as np

from tests.brokers.conftest import Server

VALUES = np.round(np.random.default_rng(3).gamma(2, 5, 600), 1)


class Nats:
    source, output = "IN/readings", "OUT/private"

    def __init__(self, server: Server) -> None:
        self.server = server
        self.run(self._made())

    def run(self, work: Any) -> Any:
        return asyncio.run(work)

    async def _connected(self) -> Any:
        import nats

        return await nats.connect(f"nats://127.0.0.1:{self.server.port}")

    async def _made(self) -> None:
        client = await self._connected()
        for stream, subject in (("IN", "readings"), ("OUT", "private")):
            await client.jetstream().add_stream(name=stream, subjects=[subject])
        await client.close()

    def send(self, payloads: list[bytes]) -> None:
        async def sent() -> None:
            client = await self._connected()
            js = client.jetstream()
            for payload in payloads:
                await js.publish("readings", payload)
            await client.close()

        self.run(sent())

    def rows(self) -> list[dict[str, Any]]:
        async def found() -> list[dict[str, Any]]:
            client = await self._connected()
            js = client.jetstream()
            count = (await js.stream_info("OUT")).state.messages
            got = [json.loads((await js.get_msg("OUT", at + 1)).data) for at in range(count)]
            await client.close()
            return got

        return list(self.run(found()))


class Redis:
    source, output = "0/readings", "0/private"

    def __init__(self, server: Server) -> None:
        import redis

        self.client = redis.Redis(host="127.0.0.1", port=server.port)

    def send(self, payloads: list[bytes]) -> None:
        for payload in payloads:
            self.client.xadd("readings", {"value": payload})

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(fields[b"row"]) for _, fields in self.client.xrange("private")]


class Kafka:
    """Closes what it opens: librdkafka has threads, and drivers of kills fork."""

    source, output = "readings/0", "private/0"

    def __init__(self, server: Server) -> None:
        from confluent_kafka import Producer

        self.settings = {"bootstrap.servers": f"127.0.0.1:{server.port}", "log_level": 0}
        for topic in ("readings", "private"):  # asking for them creates them
            Producer(self.settings).list_topics(topic, timeout=30)

    def send(self, payloads: list[bytes]) -> None:
        from confluent_kafka import Producer

        producer = Producer(self.settings)
        for payload in payloads:
            producer.produce("readings", payload, partition=0)
        assert producer.flush(30) == 0

    def rows(self) -> list[dict[str, Any]]:
        """What a reader finds who begins with the first message."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({**self.settings, "group.id": "dashboard"})
        low, high = consumer.get_watermark_offsets(TopicPartition("private", 0), timeout=30)
        consumer.assign([TopicPartition("private", 0, low)])
        found: list[dict[str, Any]] = []
        while len(found) < high - low:
            found += [json.loads(one.value()) for one in consumer.consume(high - low, timeout=1)]
        consumer.close()
        return found


class Mqtt:
    """Keeps every message that it ever got from the topic of the rows."""

    source, output = "readings", "private"

    def __init__(self, server: Server) -> None:
        from paho.mqtt import client as paho
        from paho.mqtt.enums import CallbackAPIVersion

        self.got: list[dict[str, Any]] = []
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id="dashboard", clean_session=False
        )
        self.client.on_message = lambda c, d, m: self.got.append(json.loads(m.payload))
        ready = threading.Event()
        self.client.on_subscribe = lambda *_: ready.set()
        self.client.on_connect = lambda c, *_: c.subscribe("private", qos=1)
        self.client.connect("127.0.0.1", server.port)
        self.client.loop_start()
        assert ready.wait(10)

    def send(self, payloads: list[bytes]) -> None:
        for _ in range(200):  # after a restart of the server
            if self.client.is_connected():
                break
            time.sleep(0.05)
        for one in [self.client.publish("readings", payload, qos=1) for payload in payloads]:
            one.wait_for_publish(10)

    def rows(self) -> list[dict[str, Any]]:
        """Each once: a repeated row must be the same."""
        found: dict[int, dict[str, Any]] = {}
        for row in list(self.got):
            assert found.setdefault(row["position"], row) == row
        return [found[at] for at in sorted(found)]

    def wait(self, count: int) -> None:
        for _ in range(600):
            if len({row["position"] for row in list(self.got)}) >= count:
                return
            time.sleep(0.05)
        raise AssertionError(f"{len(self.got)} rows came")


TALKS = {"nats": Nats, "redis": Redis, "kafka": Kafka, "mqtt": Mqtt}
