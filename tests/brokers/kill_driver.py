"""Kills consumers and servers at many moments, and compares rows (test_broker_kills)

    python kill_driver.py FOLDER KIND SEED KILLS SERVER_KILLS

Every trial is a forked child that runs the function behind `tidegate release BROKER -o BROKER`.
What the broker holds in the end must be what a release of the same values would have given that
began from a copy of the same state and was never killed. Prints one line of JSON.
"""

import json
import os
import random
import select
import shutil
import signal
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tests.brokers.conftest import Server
from tests.brokers.talk import TALKS, VALUES
from tests.ways_to_die import countdown, die, killed_within
from tidegate.cli import release_broker
from tidegate.cli.pipeline_from_options import build_pipeline
from tidegate.durable import DurableRelease, transfer
from tidegate.durable.state_stores import FolderStore
from tidegate.io.brokers import mqtt
from tidegate.io.brokers.broker_protocols import BrokerSink

OPTIONS = {
    "epsilon": "1", "bound": "50", "preset": "tops", "horizon": 500, "holdout": 100,
    "quiet": True, "column": "value",
}  # fmt: skip


FAULTS = {
    "before commit": lambda n: countdown(FolderStore, "commit", n, before=die),
    "after commit": lambda n: countdown(FolderStore, "commit", n, after=die),
    "before publishing": lambda n: countdown(BrokerSink, "write", n, before=die),
    "after publishing": lambda n: countdown(BrokerSink, "write", n, after=die),
}


def tells_of_session(pipe):
    """Have the reader say that the broker has its subscription."""
    original = mqtt._mqtt_client

    def telling(address, name, *, stays):
        made = original(address, name, stays=stays)
        if stays:
            made.on_subscribe = lambda *_: os.write(pipe, b".")
        return made

    mqtt._mqtt_client = telling


def tells_of_signals(pipe):
    """Have the command say that a signal now ends it in order."""
    original = release_broker.stopping_on_signal

    @contextmanager
    def telling(*arguments):
        with original(*arguments) as given:
            os.write(pipe, b".")
            yield given

    release_broker.stopping_on_signal = telling


def child(source, options, arm=None):
    process = os.fork()
    if process:
        return process
    code = 0
    try:
        if not os.environ.get("KILL_DRIVER_LOUD"):
            os.dup2(os.open(os.devnull, os.O_RDWR), 2)
        if arm is not None:
            arm()
        release_broker.run_broker(source, options)
    except SystemExit as result:
        code = int(result.code or 0)
    except BaseException as error:  # noqa: BLE001  # it must not return to the parent's code
        code = getattr(error, "exit_code", 99)
    os._exit(code)


def child_that_tells(source, options, telling):
    """A child, once it has told something: that the broker knows it, or that it hears signals."""
    ready, tell = os.pipe()
    process = child(source, options, lambda: telling(tell))
    assert select.select([ready], [], [], 120)[0], telling.__name__
    return process


def main():
    folder, kind = Path(sys.argv[1]), sys.argv[2]
    rng, kills, server_kills = random.Random(int(sys.argv[3])), int(sys.argv[4]), int(sys.argv[5])
    server = Server(kind, folder / "server")
    server.start()
    try:
        print(json.dumps(scenario(server, folder, rng, kills, server_kills)), flush=True)  # noqa: T201
    finally:
        server.kill()


def scenario(server, folder, rng, kills, server_kills):
    talk, state, copy = TALKS[server.kind](server), folder / "state", folder / "copy"
    options = {**OPTIONS, "state": state, "output": server.address(talk.output)}
    if server.kind == "mqtt":
        options |= {"follow": True, "order": "n"}
    source = server.address(talk.source)
    DurableRelease.open(state, build_pipeline(options)).close()
    shutil.copytree(state, copy)
    if server.kind == "mqtt":  # the session must exist before the first message is sent
        process = child_that_tells(source, options, tells_of_session)
        os.kill(process, signal.SIGTERM)
        os.waitpid(process, 0)
    kinds = Counter()
    sent = 0
    faults = [*FAULTS] * (1 + kills // 8)
    shots = set(rng.sample(range(kills), server_kills))
    for number in range(kills):
        count = len(VALUES) * (number + 1) // kills - sent
        rows = [json.dumps({"n": at, "value": VALUES[at]}) for at in range(sent, sent + count)]
        talk.send([row.encode() for row in rows])
        sent += count
        if number in shots:
            process = child(source, options)
            time.sleep(rng.uniform(0.05, 0.5))
            server.kill()
            time.sleep(0.2)
            server.start()
            time.sleep(0.5)
            os.kill(process, signal.SIGKILL)
            name = "server"
        elif rng.random() < 0.5:
            process = child(source, options)
            name = killed_within(process, rng, 0.01, 0.4)
        else:
            name = rng.choice(faults)
            process = child(source, options, lambda n=name: FAULTS[n](rng.randint(1, 3)))
            end = time.monotonic() + 1.5
            while time.monotonic() < end and os.waitpid(process, os.WNOHANG)[0] == 0:
                time.sleep(0.02)
            if time.monotonic() < end:
                kinds[name] += 1
                continue
            os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        kinds[name] += 1
    with DurableRelease.open(copy, build_pipeline(options)) as run:
        wanted = []
        transfer(VALUES, run, lambda first, values: wanted.extend(values.tolist()))
    if server.kind == "mqtt":  # all may be there already, before it hears a signal
        process = child_that_tells(source, options, tells_of_signals)
        talk.wait(len(wanted))
        os.kill(process, signal.SIGTERM)
    else:
        process = child(source, options)
    _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 0, os.waitstatus_to_exitcode(status)
    rows = talk.rows()
    assert [row["position"] for row in rows] == list(range(len(wanted))), "lost or doubled"
    assert np.array([row["value"] for row in rows]).tobytes() == np.array(wanted).tobytes()
    repeated = len(talk.got) - len(rows) if server.kind == "mqtt" else 0
    return {"kind": server.kind, "kinds": kinds, "rows": len(rows), "repeated": repeated}


if __name__ == "__main__":
    main()
