"""Messages that a broker deletes before they are read: noticed, told, and left out if asked to."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

for _module in ("nats", "redis", "confluent_kafka"):
    pytest.importorskip(_module, reason="needs brokers: pip install '.[brokers]'")

from typer.testing import CliRunner

from tests.brokers.conftest import Server
from tidegate.cli.app import app
from tidegate.durable import DurableRelease
from tidegate.errors import SettingError
from tidegate.io.brokers import Gaps, open_reader
from tidegate.io.brokers.redis_streams import RedisStreamExtent
from tidegate.io.errors import SourceError

SETTINGS = ["--epsilon", "1", "--bound", "50", "--preset", "tops", "--horizon", "500"]
SETTINGS += ["--holdout", "20", "--quiet"]
FIRST, BIG = 30, 450_000  # messages; bytes of one, where a broker deletes by size


class NatsStream:
    """A stream of its own for each test, with the subjects that are asked for."""

    def __init__(self, server: Server, name: str, *others: str) -> None:
        self.server, self.name, self.address = server, name, server.address(f"{name}/{name}.a")
        self.run(lambda js: js.add_stream(name=name, subjects=[f"{name}.a", *others]))

    def run(self, work: Callable[[Any], Any]) -> Any:
        import nats

        async def done() -> Any:
            client = await nats.connect(f"nats://127.0.0.1:{self.server.port}")
            result = await work(client.jetstream())
            await client.close()
            return result

        return asyncio.run(done())

    def send(self, values: Any, subject: str = "a") -> None:
        async def sent(js: Any) -> None:
            for one in values:
                await js.publish(f"{self.name}.{subject}", b"%r" % float(one))

        self.run(sent)

    def trim(self, count: int) -> None:
        """Keep the newest `count`."""
        self.run(lambda js: js.purge_stream(self.name, keep=count))

    def delete(self, number: int) -> None:
        self.run(lambda js: js.delete_msg(self.name, number))

    def begin_anew(self) -> None:
        async def made(js: Any) -> None:
            await js.delete_stream(self.name)
            await js.add_stream(name=self.name, subjects=[f"{self.name}.a"])

        self.run(made)


class RedisStream:
    def __init__(self, server: Server, name: str) -> None:
        import redis

        self.client, self.name = redis.Redis(port=server.port, db=2), name
        self.address, self.ids = server.address(f"2/{name}"), []

    def send(self, values: Any) -> None:
        self.ids += [self.client.xadd(self.name, {"value": b"%r" % float(one)}) for one in values]

    def trim(self, count: int) -> None:
        self.client.xtrim(self.name, maxlen=count, approximate=False)

    def delete(self, number: int) -> None:
        self.client.xdel(self.name, self.ids[number - 1])

    def begin_anew(self) -> None:
        self.client.delete(self.name)
        self.client.xadd(self.name, {"value": b"1"}, id="1-0")


STREAMS = {"nats": NatsStream, "redis": RedisStream}


def release(stream: Any, state: Path, *more: str) -> Any:
    output = str(state.with_suffix(".csv"))
    arguments = ["release", stream.address, "-o", output, "--state", str(state), *SETTINGS]
    return CliRunner().invoke(app, [*arguments, *more])


def taken(state: Path) -> int:
    with DurableRelease.existing(state) as run:
        return run.seen


def refused_until_closed(stream: Any, state: Path, *, left: tuple[int, ...]) -> tuple[str, str]:
    """A run that meets a gap has released one of these numbers; what it says, and then says."""
    refused = release(stream, state)
    assert refused.exit_code != 0
    assert taken(state) in left
    closed = release(stream, state, "--gaps", "close")
    assert closed.exit_code == 0, closed.output
    return refused.output, closed.output


def first_released(kind: str, servers: Any, name: str, folder: Path) -> tuple[Any, Path]:
    """A stream whose first values are released, and the state."""
    stream, state = STREAMS[kind](servers(kind), name), folder / "state"
    stream.send(range(FIRST))
    assert release(stream, state).exit_code == 0
    return stream, state


@pytest.mark.parametrize("kind", STREAMS)
def test_what_was_trimmed_unread_ends_the_run(kind: str, servers: Any, tmp_path: Path) -> None:
    """Then it goes on, if asked to, and the next value has the next position."""
    stream, state = first_released(kind, servers, "trimmed", tmp_path)
    stream.send(range(12))
    stream.trim(5)  # seven of twelve are gone
    refused, closed = refused_until_closed(stream, state, left=(FIRST,))
    assert ("7 entries" if kind == "redis" else f"messages {FIRST + 1} to {FIRST + 7}") in refused
    assert "--gaps close" in refused
    assert closed.count("left out") == 1
    assert taken(state) == FIRST + 5
    rows = np.genfromtxt(state.with_suffix(".csv"), delimiter=",", names=True)
    assert rows["position"].tolist() == list(range(FIRST + 5 - 20))
    stream.send([1.0])
    assert release(stream, state).output == ""  # the gap is behind us


@pytest.mark.parametrize("kind", STREAMS)
def test_what_was_read_may_be_trimmed(kind: str, servers: Any, tmp_path: Path) -> None:
    """All that was read, exactly: nobody is told anything."""
    stream, state = first_released(kind, servers, "read", tmp_path)
    stream.send(range(12))
    stream.trim(12)
    result = release(stream, state)
    assert (result.exit_code, result.output) == (0, "")
    stream.trim(0)
    result = release(stream, state)
    assert (result.exit_code, result.output) == (0, "")
    assert taken(state) == FIRST + 12


@pytest.mark.parametrize("kind", STREAMS)
def test_all_that_was_unread_is_gone(kind: str, servers: Any, tmp_path: Path) -> None:
    """Told at once, and not when the next message comes."""
    stream, state = first_released(kind, servers, "gone", tmp_path)
    stream.send(range(3))
    stream.trim(0)
    refused, _ = refused_until_closed(stream, state, left=(FIRST,))
    assert "deleted before they were read" in refused


@pytest.mark.parametrize("kind", STREAMS)
def test_a_single_message_is_deleted_unread(kind: str, servers: Any, tmp_path: Path) -> None:
    stream, state = first_released(kind, servers, "single", tmp_path)
    stream.send(range(9))
    stream.delete(FIRST + 5)
    before = FIRST, FIRST + 4  # those before it may be released
    refused, _ = refused_until_closed(stream, state, left=before)
    assert "deleted before they were read" in refused
    assert taken(state) == FIRST + 8


@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_that_begins_anew_is_another_one(kind: str, servers: Any, tmp_path: Path) -> None:
    """Caught: numbers begin again at 1, so its messages counted as read, in silence."""
    stream, state = first_released(kind, servers, "anew", tmp_path)
    stream.begin_anew()
    for more in ([], ["--gaps", "close"]):
        refused = release(stream, state, *more)
        assert refused.exit_code != 0
        assert "Use another state folder" in " ".join(refused.output.split())


def test_other_subjects_of_a_stream_are_a_warning(servers: Any, tmp_path: Path) -> None:
    """Sequence numbers are those of the stream: whose the deleted messages were is unknown."""
    stream, state = NatsStream(servers("nats"), "shared", "shared.b"), tmp_path / "state"
    stream.send(range(FIRST))
    assert release(stream, state).exit_code == 0
    stream.send(range(8), "b")
    assert release(stream, state).output == ""
    stream.trim(2)
    result = release(stream, state)
    assert result.exit_code == 0
    assert "cannot be told" in " ".join(result.output.split())
    assert taken(state) == FIRST


def test_kafka_tells_what_retention_deleted(servers: Any, tmp_path: Path) -> None:
    """The mock cluster keeps 5 MB of a partition, so large messages push small ones out."""
    from confluent_kafka import Producer

    server = servers("kafka")
    settings = {"bootstrap.servers": f"127.0.0.1:{server.port}", "log_level": 0}
    producer = Producer({**settings, "message.max.bytes": 2 * BIG, "linger.ms": 0})
    producer.list_topics("retention", timeout=30)

    def send(count: int, size: int = 0) -> None:
        for at in range(count):
            producer.produce("retention", (b"%d" % (at % 9)).ljust(size), partition=0)
            assert producer.flush(30) == 0  # each in a batch of its own

    class Stream:
        address = server.address("retention/0")

    state = tmp_path / "state"
    send(FIRST)
    assert release(Stream, state).exit_code == 0
    send(20, BIG)
    refused, closed = refused_until_closed(Stream, state, left=(FIRST,))
    assert f"messages {FIRST} to " in refused
    assert "left out" in closed
    assert FIRST < taken(state) < FIRST + 20
    before = taken(state)
    send(1)
    assert release(Stream, state).exit_code == 0
    assert taken(state) == before + 1
    with pytest.raises(SourceError, match="another state folder"):
        open_reader(Stream.address, client="c").read("1000000", 0.1)


def test_kafka_looks_again_where_messages_vanish_while_it_reads() -> None:
    """Caught: librdkafka tells of it by a message with an error, which was dropped: it hung."""
    from confluent_kafka import KafkaError

    from tidegate.io.brokers.kafka import KafkaReader

    class Failed:
        def error(self) -> Any:
            return KafkaError(KafkaError._AUTO_OFFSET_RESET)

    class Consumer:
        def assign(self, places: Any) -> None:
            self.assigned = places[0].offset

        def consume(self, most: int, timeout: float) -> list[Any]:
            return [Failed()]

    reader: Any = KafkaReader.__new__(KafkaReader)
    told: list[str] = []
    reader._topic, reader._partition, reader._place = "t", 0, "kafka://h/t"
    reader._gaps, reader._consumer, reader._next = Gaps("close", told.append), Consumer(), "8"
    reader._ends = lambda: (40, 60)
    assert reader.read("8", 0.1) == []
    assert told == []
    assert reader.read("8", 0.1) == []
    assert reader._consumer.assigned == 40
    assert "messages 9 to 39" in told[0]


@pytest.mark.parametrize(
    ("extent", "after", "missing"),
    [
        (RedisStreamExtent("5-0", "9-0", "0-0", 5), "4-0/4", None),
        (RedisStreamExtent("5-0", "9-0", "0-0", 5), "3-0/3", "1 entries were"),
        (RedisStreamExtent("5-0", "9-0", "0-0", 5), "3-0", "entries after 3-0 were, it seems,"),
        (
            RedisStreamExtent("5-0", "9-0", "0-0", None),
            "3-0/3",
            "entries after 3-0 were, it seems,",
        ),
        (RedisStreamExtent("3-0", "9-0", "7-0", None), "3-0/3", "entries were"),
        (RedisStreamExtent("3-0", "9-0", "2-0", 3), "3-0/3", None),
        (RedisStreamExtent(None, "9-0", "0-0", 10), "9-0/9", None),
        (RedisStreamExtent(None, "9-0", "0-0", 10), "3-0/3", "6 entries were"),
        (
            RedisStreamExtent("50-0", "50-0", "0-0", 1),
            "9-0/9",
            "entries were",
        ),  # deleted and begun again
    ],
)
def test_what_redis_counts_tells_of_gaps(
    extent: RedisStreamExtent, after: str, missing: str | None
) -> None:
    """States of older versions, and servers before 7.0, have no counts."""
    assert extent.missing(after) == missing


def test_what_is_no_stream_is_said(servers: Any, tmp_path: Path) -> None:
    """Caught: a run waited for ever."""
    stream = RedisStream(servers("redis"), "text")
    stream.client.set("text", "31.4")
    refused = release(stream, tmp_path / "state")
    assert refused.exit_code != 0
    assert "is not a stream" in refused.output
    assert "31.4" not in refused.output


def test_policies_are_checked(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="gaps: must be one of refuse, close"):
        Gaps("fill")
    (tmp_path / "in.csv").write_text(json.dumps(1))
    for source, said in (("mqtt://h/t", "number messages"), (str(tmp_path / "in.csv"), "brokers")):
        more = ["--state", str(tmp_path / "s"), "--order", "n", "--column", "v"]
        arguments = ["release", source, *SETTINGS, "--gaps", "close"]
        arguments += more if source.startswith("mqtt") else []
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code != 0
        assert said in " ".join(result.output.split())
