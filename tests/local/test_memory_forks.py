"""A forked process has its parent's memory, and must not report from it."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.local.devices import asked, device
from tests.local.system import Child, System, living_child
from tidegate.local.announcements_and_reports import Report
from tidegate.local.device_memory import DeviceMemoryError, Memory


@pytest.fixture
def path(quick_folder: Path) -> Path:
    return quick_folder / "device.json"


def answered(memory: Memory, name: str) -> bytes:
    """The text of a report, or why there is none."""
    try:
        return device(memory).answer(asked(name), 7, event=name).json().encode()
    except DeviceMemoryError as error:
        return f"refused: {error}".encode()


@pytest.mark.parametrize("stored", [True, False], ids=["file", "volatile"])
def test_a_forked_process_refuses_even_while_another_thread_holds_the_turn(
    stored: bool, path: Path
) -> None:
    memory = Memory.open(path) if stored else Memory.volatile()
    with memory:
        device(memory).answer(asked("r1"), 7, event="r1")
        held, finished = threading.Event(), threading.Event()

        def hold() -> None:
            with memory.turn:
                held.set()
                finished.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        try:
            for name in ("r1", "r2"):  # without a check it waits for a thread that it does not have
                child = Child()
                if child.here:
                    child.end(answered(memory, name))
                assert child.told().startswith(b"refused: this process was forked")
        finally:
            finished.set()
            thread.join()
        device(memory).answer(asked("r2"), 7, event="r2")  # the parent goes on


def test_a_process_that_forks_while_it_writes_sends_one_report(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each call to the system: both go on from there, and one report comes of it at most."""
    children: list[Child] = []
    said: list[bytes] = []

    def fork(
        _: str, real: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        child = Child()
        if child.here:
            children.append(child)
        else:
            said.append(child.told())
        return real(*arguments, **named)

    step, met = 0, True
    while met:
        said.clear()
        memory = Memory.open(path)
        with monkeypatch.context() as patched:
            system = System(patched, step, fork)
            text = answered(memory, "r1")
        if children:  # this is the child
            children[0].end(text)
        met = system.met
        memory.close()
        own = Report.from_json(text)
        for other in said:
            assert other.startswith(b"refused") or Report.from_json(other) == own, step
        with Memory.open(path) as again:
            assert device(again).answer(asked("r1"), 93, event="r1") == own, step
        path.unlink()
        step += 1
    assert step > 10


def test_a_child_does_not_keep_the_file_locked(path: Path) -> None:
    memory = Memory.open(path)
    with living_child():
        memory.close()
        Memory.open(path).close()
