"""Power cuts for a device's memory and a server's file, played by `tests/durable/power_disks`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.durable.power import Step, recorded, traceable
from tests.durable.power_disks import different
from tests.local.devices import asked, device
from tests.local.power_driver import BATCHES, ROUNDS
from tests.local.test_server_faults import TOPL, reports
from tidegate.local.announcements_and_reports import Report
from tidegate.local.device_memory import Memory

WHY_NOT = traceable()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


def steps_of(folder: Path, name: str) -> list[Step]:
    """What a scenario writes into an empty folder, which is empty again afterwards."""
    (folder / "run").mkdir()
    steps = recorded(["-m", "tests.local.power_driver", str(folder / "run"), name], folder / "run")
    for path in (folder / "run").iterdir():
        path.unlink()
    return steps


def disks(folder: Path, steps: list[Step]) -> Iterator[list[bytes]]:
    """What had left at each cut; the disk that it left is in `cut`."""
    for disk, left in different(folder / "run", steps):
        disk.write(folder / "run", folder / "cut")
        yield left


def keep_place(path: Path) -> None:
    """A cut leaves a file where it was; here it is written anew, and would count as a copy."""
    if path.exists():
        facts = json.loads(path.read_bytes())  # never torn: it has its name only when it is whole
        facts["inode"] = path.stat().st_ino
        facts.pop("generation", None)
        path.write_text(json.dumps(facts))


def test_no_cut_makes_a_device_report_twice(quick_folder: Path) -> None:
    steps = steps_of(quick_folder, "device")
    kinds = kinds_of_devices(quick_folder, steps)
    assert kinds == {(count, count) for count in range(4)}  # at the latest moment of each
    # The planted fault: a device that waits for no disk. What it sent may then be unknown.
    with pytest.raises((AssertionError, ValueError)):
        kinds_of_devices(quick_folder, [step for step in steps if step.kind != "sync"])


def kinds_of_devices(quick_folder: Path, steps: list[Step]) -> set[tuple[int, int]]:
    """How many reports had left at each cut, and how many the device knows."""
    kinds = set()
    for left in disks(quick_folder, steps):
        path = quick_folder / "cut" / "device.json"
        keep_place(path)
        sent = [Report.from_json(text) for text in left]
        with Memory.open(path) as memory:
            client = device(memory)
            known = [name for names in ROUNDS for name in names if client.sent(name)]
            assert [client.sent(report.round) for report in sent] == sent
            for report in sent:  # asked again, with another value
                assert client.answer(asked(report.round), 93, event=report.round) == report
            for names in ROUNDS:
                for name in names:
                    client.answer(asked(name), 93, event=name)
            assert client.left == 47
        kinds.add((len(sent), len(known)))
    return kinds


def test_no_cut_makes_a_server_forget_or_count_twice(quick_folder: Path) -> None:
    steps = steps_of(quick_folder, "server")
    said = [json.loads(step.data) for step in steps if step.kind == "left"]
    rounds = list(dict.fromkeys(name for name, _ in said))
    kinds = set()
    for left in disks(quick_folder, steps):
        with TOPL.server(quick_folder / "cut" / "state.db") as server:
            found = [server.round, server.accepted]
            if left:
                assert found in said[len(left) - 1 :]
            else:
                assert found[1] == 0
            assert server.collection.collected.count == server.accepted
            again = BATCHES[-1] if found[0] == rounds[-1] else [*BATCHES[0], *BATCHES[1]]
            server.collect_many(reports(server, *again))
            assert server.accepted == (4 if found[0] == rounds[-1] else 3)
            assert server.collection.collected.count == server.accepted
        kinds.add((len(left), found[1]))
    assert kinds >= {(0, 0), (1, 0), (2, 2), (3, 3), (4, 3), (5, 4)}
