"""A disk that is full, fails or is cut off at any call, a process that is killed at any call.

A report is sent only after it is remembered, so whatever happens a round has one report.
"""

import errno
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.local.devices import asked, device
from tests.local.system import Child, System
from tidegate.local.announcements_and_reports import Report
from tidegate.local.device_memory import DeviceMemoryError, Memory


def failing(code: int) -> Callable[..., Any]:
    """A call that does nothing and fails."""

    def fault(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    return fault


def failing_afterwards(name: str, real: Any, arguments: Any, named: Any) -> None:
    """A call that does its work, and fails."""
    real(*arguments, **named)
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def short(name: str, real: Any, arguments: Any, named: Any) -> Any:
    """A write that takes a part and says so; then the disk is full at the next."""
    if name != "pwrite":
        return real(*arguments, **named)
    descriptor, data, offset = arguments
    return real(descriptor, data[: len(data) // 2], offset)


FAULTS = {
    "full": failing(errno.ENOSPC),
    "failing": failing(errno.EIO),
    "read-only": failing(errno.EROFS),
    "failing afterwards": failing_afterwards,
    "short": short,
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_no_fault_of_a_disk_makes_two_reports(
    fault: Callable[..., Any], quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the k-th call of opening a memory and answering two rounds, for every k."""
    refused = step = 0
    while True:
        path = quick_folder / f"device-{step}.json"
        sent: dict[str, Report] = {}
        with monkeypatch.context() as patched:
            system = System(patched, step, fault)
            try:
                with Memory.open(path) as memory:
                    for name in ("r1", "r2"):
                        try:
                            sent[name] = device(memory).answer(asked(name), 7, event=name)
                        except DeviceMemoryError:
                            refused += 1
            except DeviceMemoryError:
                refused += 1
            if not system.met:
                break
        with Memory.open(path) as memory:  # the disk is well again
            client = device(memory)
            for name, report in sent.items():
                assert client.sent(name) == report
            for name in ("r1", "r2"):
                remembered = client.sent(name)
                report = client.answer(asked(name), 93, event=name)
                assert report == (remembered or report)
            assert client.left == 48
        step += 1
    assert len(sent) == 2
    assert step > 30
    assert refused > 15 or fault is short


def test_what_may_not_have_reached_the_disk_is_flushed_before_it_is_sent_again(
    quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut after the second sending must not lead to a third, other report."""
    path, folder = quick_folder / "device.json", quick_folder.stat()
    flushed: list[int] = []

    def fsync(descriptor: int, real: Callable[[int], None] = os.fsync) -> None:
        flushed.append(os.fstat(descriptor).st_ino)
        if flushed[-1] == folder.st_ino and fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    fails = False
    with Memory.open(path) as memory:
        fails = True
        with pytest.raises(DeviceMemoryError, match="Input/output error"):
            device(memory).answer(asked(), 7)
    assert b'"r1"' in path.read_bytes()  # in the cache at least
    with pytest.raises(DeviceMemoryError, match="Input/output error"):
        Memory.open(path)
    fails = False
    flushed.clear()
    with Memory.open(path) as memory:
        assert memory.pin("r1") is not None
    assert folder.st_ino in flushed


def test_a_kill_at_any_call_never_leads_to_two_reports(quick_folder: Path) -> None:
    outcomes, step = Counter[str](), 0
    while True:
        path = quick_folder / f"device-{step}.json"
        said = _until_killed(path, step)
        with Memory.open(path) as memory:
            client = device(memory)
            known = {name: client.sent(name) for name in ("r1", "r2")}
            assert known["r1"] is not None or known["r2"] is None
            for name, remembered in known.items():
                again = client.answer(asked(name), 93, event=name)
                assert again == (remembered or again)
                if name in said:
                    assert remembered == again == said[name]
        outcomes[f"{len(said)} sent, {sum(map(bool, known.values()))} remembered"] += 1
        if len(said) == 2:
            break
        step += 1
    assert set(outcomes) >= {
        "0 sent, 0 remembered",
        "0 sent, 1 remembered",  # between the rename and the sending
        "1 sent, 1 remembered",
        "1 sent, 2 remembered",
    }


def _until_killed(path: Path, at: int) -> dict[str, Report]:
    """What a process sends that opens a memory and answers twice, and ends at call number `at`."""
    child = Child()
    if child.here:
        with pytest.MonkeyPatch.context() as patched:
            System(patched, at, lambda *_: os._exit(9))
            memory = Memory.open(path)
            for name in ("r1", "r2"):
                report = device(memory).answer(asked(name), 7, event=name)
                child.tell(report.json().encode() + b"\n")
        child.end()
    return {report.round: report for report in map(Report.from_json, child.told().splitlines())}
