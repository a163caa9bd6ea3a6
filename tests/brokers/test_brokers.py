"""Releases from brokers and to brokers: real servers, the real command."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

for _module in ("nats", "paho.mqtt.client", "redis", "confluent_kafka"):
    pytest.importorskip(_module, reason="needs brokers: pip install '.[brokers]'")

from typer.testing import CliRunner

from tests.brokers.conftest import Server, program
from tests.brokers.talk import TALKS, VALUES, Mqtt, Nats
from tests.depth import depth
from tidegate.cli.app import app
from tidegate.durable import DurableRelease
from tidegate.durable.broker_subscription import BrokerMarks
from tidegate.errors import InputError, SettingError
from tidegate.io.brokers import Message
from tidegate.io.brokers.address import Address, is_broker
from tidegate.io.brokers.payloads import Payloads
from tidegate.lattice import Lattice

HOLDOUT = 100
HEAVY = int(os.environ.get("TIDEGATE_CLUSTER", "0"))  # kills of each broker
SETTINGS = ["--epsilon", "1", "--bound", "50", "--preset", "tops", "--horizon", "500"]
SETTINGS += ["--holdout", str(HOLDOUT), "--quiet"]


def command(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tidegate", "release", *arguments, *SETTINGS],
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def expected(state: Path) -> np.ndarray:
    """What the journal says, which a kill never changes."""
    with DurableRelease.existing(state) as run:
        return np.concatenate([values for _, values in run.replay()])


def test_messages_become_rows_each_once(servers: Any, tmp_path: Path) -> None:
    """In two runs and a third one without news; the offset is in the state."""
    for kind in ("nats", "redis", "kafka"):
        server = servers(kind)
        talk = TALKS[kind](server)
        state = tmp_path / kind
        arguments = [
            "release", server.address(talk.source), "-o", server.address(talk.output),
            "--state", str(state), *SETTINGS,
        ]  # fmt: skip
        for start, end in ((0, 250), (250, 600), (600, 600)):
            talk.send([b"%r" % float(one) for one in VALUES[start:end]])
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, result.output
            rows = talk.rows()
            assert [row["position"] for row in rows] == list(range(max(0, end - HOLDOUT)))
        np.testing.assert_array_equal([row["value"] for row in rows], expected(state))


def test_a_file_becomes_messages(servers: Any, tmp_path: Path) -> None:
    """Broker sinks complete themselves: what is there is not sent again."""
    server = servers("redis")
    (tmp_path / "in.csv").write_text("value\n" + "".join(f"{one}\n" for one in VALUES[:300]))
    output = server.address("1/rows")
    arguments = ["release", str(tmp_path / "in.csv"), "-o", output, "--state"]
    for _ in range(2):
        assert CliRunner().invoke(app, [*arguments, str(tmp_path / "a"), *SETTINGS]).exit_code == 0
    other = CliRunner().invoke(app, [*arguments, str(tmp_path / "b"), *SETTINGS])
    assert other.exit_code != 0
    assert "another epoch" in other.output
    import redis

    client = redis.Redis(port=server.port, db=1)
    assert client.xlen("rows") == 200


def test_mqtt_counts_no_message_twice(servers: Any, tmp_path: Path) -> None:
    server: Server = servers("mqtt")
    talk = Mqtt(server)
    state = tmp_path / "state"
    arguments = [
        server.address(talk.source), "-o", server.address(talk.output), "--state", str(state),
        "--column", "value", "--order", "n", "--follow",
    ]  # fmt: skip
    process = command(*arguments)
    time.sleep(1)
    messages = [json.dumps({"n": at, "value": one}).encode() for at, one in enumerate(VALUES[:300])]
    while process.poll() is None and len(talk.rows()) < 200:  # until the session is there
        talk.send(messages)  # every message many times
        time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    np.testing.assert_array_equal([row["value"] for row in talk.rows()], expected(state))
    assert len(talk.rows()) == 200


KINDS = ("nats", "redis", "kafka", "mqtt")
KILLS = HEAVY or depth(2, 4)
Drivers = dict[str, tuple[subprocess.Popen[bytes], Path]]


@pytest.fixture(scope="module", autouse=True)
def kill_drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drivers]:
    """A driver for each broker, all at once, before any test: they wait more than they work."""
    driver = Path(__file__).with_name("kill_driver.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    started: Drivers = {}
    for kind in KINDS:
        with suppress(pytest.skip.Exception):  # its test says that the broker is missing
            program(kind)
            folder = tmp_path_factory.mktemp(f"killed-{kind}")
            of_server = 0 if kind == "kafka" else max(1, KILLS // 5)  # it forgets all
            words = [str(folder), kind, "7", str(KILLS), str(of_server)]
            with (folder / "result").open("wb") as result, (folder / "errors").open("wb") as errors:
                process = subprocess.Popen(
                    [sys.executable, str(driver), *words],
                    stdout=result, stderr=errors, env=environment, start_new_session=True,
                )  # fmt: skip
            started[kind] = process, folder
    yield started
    for process, _ in started.values():
        with suppress(ProcessLookupError):  # with the servers that it started
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("kind", KINDS)
def test_kills_lose_and_double_nothing(kind: str, kill_drivers: Drivers) -> None:
    """`make test-cluster` kills more often."""
    program(kind)
    process, folder = kill_drivers[kind]
    process.wait(timeout=1800)
    assert process.returncode == 0, (folder / "errors").read_text()[-3000:]
    result = json.loads((folder / "result").read_text())
    assert sum(result["kinds"].values()) == KILLS
    assert result["rows"] == len(VALUES) - HOLDOUT


def test_marks_find_the_place_inside_a_message() -> None:
    marks = BrokerMarks(10, None, ["5-0", "6-0"], [3, 2])
    assert BrokerMarks(*json.loads(marks.text())).resume(11) == (None, 1)
    assert marks.resume(15) == ("6-0", 0)


def test_arrays_and_objects_are_read() -> None:
    taken = Payloads().read([Message("1", b"2.5"), Message("2", b"[1, null, 3]")], None)
    np.testing.assert_array_equal(taken.batch.values, [2.5, 1, np.nan, 3])
    assert taken.counts == [1, 3]
    numbered = Payloads(column="a.b", order="n")
    messages = [
        Message(str(at), json.dumps({"n": number, "a": {"b": number}}).encode())
        for at, number in enumerate((4, 2, 3, 3, 9))
    ]
    taken = numbered.read(messages, "2")
    assert taken.batch.values.tolist() == [3, 4, 9]
    assert taken.offsets == ["3", "4", "9"]


@pytest.mark.parametrize("digits", [3, 400, 5000])
def test_no_number_is_too_large_for_a_message(digits: int) -> None:
    """It counts as the bound. As an error it would tell that a value was large, and stop all."""
    number = b"9" * digits
    payloads = [number, b"[1, -" + number + b"]"]
    taken = Payloads().read([Message(str(at), one) for at, one in enumerate(payloads)], None)
    lattice = Lattice(Fraction(50), Fraction(1))
    assert lattice.units(lattice.numbers(taken.batch.values)).tolist() == [50, 1, 0]


@pytest.mark.parametrize("payload", [b"secret 77", b'{"value": 77}', b'["77"]', b"[[77]]"])
def test_what_is_wrong_with_a_message_is_said_without_its_content(payload: bytes) -> None:
    for reader in (Payloads(), Payloads(column="other.value.deep", order="n")):
        with pytest.raises(InputError) as refused:
            reader.read([Message("12-0", payload)], None)
        assert "message 12-0" in str(refused.value)
        assert "77" not in str(refused.value)


def test_addresses(servers: Any, tmp_path: Path) -> None:
    assert str(Address.read("nats://u:secret@h/S/a.b", "source")) == "nats://h:4222/S/a.b"
    assert Address.read("mqtt://h/a/b/c", "source").path == ("a/b/c",)
    assert not is_broker("file.csv")
    assert not is_broker("C://x")
    for wrong in ("nats://h/only", "redis://h/0", "kafka://h/", "mqtt://h:port/x", "nats:///S/a"):
        with pytest.raises(SettingError, match="must look like"):
            Address.read(wrong, "source")
    run = ["release", "nats://127.0.0.1:1/S/a", *SETTINGS]
    assert "--state is needed for a broker" in CliRunner().invoke(app, run).output
    gone = CliRunner().invoke(app, [*run, "--state", str(tmp_path / "s")])
    assert gone.exit_code != 0
    assert "cannot be reached" in gone.output
    mqtt = ["release", "mqtt://127.0.0.1:1/a", "--state", str(tmp_path / "s"), *SETTINGS]
    assert "number of a message" in CliRunner().invoke(app, mqtt).output
    server = servers("nats")
    Nats(server)
    missing = ["release", server.address("NONE/a"), "--state", str(tmp_path / "s"), *SETTINGS]
    assert "no such stream" in CliRunner().invoke(app, missing).output


@pytest.mark.parametrize(
    ("ends", "after", "ended"),
    [((0, 0), None, True), ((7, 7), None, True), ((7, 9), None, False), ((0, 9), "8", True)],
)
def test_a_kafka_topic_whose_messages_were_deleted_has_an_end(
    ends: tuple[int, int], after: str | None, ended: bool
) -> None:
    # Caught: without --follow a run over such a topic waited for ever.
    from tidegate.io.brokers.kafka import KafkaReader

    reader: Any = KafkaReader.__new__(KafkaReader)
    reader._ends = lambda: ends
    assert reader.ended(after) is ended
