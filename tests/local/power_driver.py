"""A device and a server at work, to be recorded: python -m tests.local.power_driver FOLDER NAME

Whatever leaves the process is written to /dev/null, after `MARK`, at the moment when it leaves.
"""

import json
import os
import sys
from pathlib import Path

from tests.durable.power import MARK
from tests.local.devices import asked, device
from tests.local.test_server_faults import TOPL, reports
from tidegate.local.device_memory import Memory
from tidegate.local.server import Server

ROUNDS = (("r1",), ("r2", "r3"))  # of each run
BATCHES = (("a", "b"), ("c",), ("d",))  # a new round, and a new run, before the last


def device_answers(folder: Path, null: int) -> None:
    for names in ROUNDS:
        with Memory.open(folder / "device.json") as memory:
            for name in names:
                report = device(memory).answer(asked(name), 7, event=name)
                os.write(null, MARK + report.json().encode())


def server_collects(folder: Path, null: int) -> None:
    def say(server: Server) -> None:
        os.write(null, MARK + json.dumps([server.round, server.accepted]).encode())

    with TOPL.server(folder / "state.db") as server:
        say(server)
        for batch in BATCHES[:-1]:
            server.collect_many(reports(server, *batch))
            say(server)
        server.next_round()
        say(server)
    with TOPL.server(folder / "state.db") as server:
        server.collect_many(reports(server, *BATCHES[-1]))
        say(server)


if __name__ == "__main__":
    action = {"device": device_answers, "server": server_collects}[sys.argv[2]]
    action(Path(sys.argv[1]), os.open(os.devnull, os.O_WRONLY))
