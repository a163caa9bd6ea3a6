"""Anything that can happen to a device, in any order: one report a round, and a lifetime."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.depth import examples
from tests.interruptions import interrupted
from tests.local.devices import asked, coin, device
from tests.local.system import Child, System
from tests.local.test_interruptions import PURE
from tidegate.errors import RefusedError, TidegateError
from tidegate.local.announcements_and_reports import Report
from tidegate.local.device_memory import DeviceMemoryError, Memory

LIFETIME = Fraction(4)
HALF = Fraction(1, 2)
# What a server may ask: (round, epsilon). A round with two epsilons is a server that cheats.
ASKED = {
    (name, epsilon): asked(name, coin(epsilon=epsilon), epsilon=epsilon).json()
    for name in ("r0", "r1", "r2", "r3", "r4", "r5")
    for epsilon in (HALF, Fraction(1))
}
questions = st.sampled_from(sorted(ASKED))
events = st.sampled_from("abcde")
values = st.integers(0, 100)
RAM = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Devices(RuleBasedStateMachine):
    """A memory on the disk, and the model: what has left the device, by round."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=RAM))
        self.path = self.folder / "device.json"
        (self.folder / "link.json").symlink_to(self.path)
        (self.folder / "here").symlink_to(self.folder)
        self.names = [
            self.path,
            self.folder / "link.json",
            self.folder / "here" / "device.json",
            self.folder / "here" / ".." / self.folder.name / "device.json",
        ]
        self.memory = Memory.open(self.path)
        self.left_device: dict[str, Report] = {}

    def teardown(self) -> None:
        self.memory.close()
        shutil.rmtree(self.folder)

    def _answer(self, question: tuple[str, Fraction], value: int, event: str) -> Report:
        client = device(self.memory, lifetime=LIFETIME)
        return client.answer(ASKED[question], value, event=event)

    def _answered(self, *given: Any) -> Report | None:
        try:
            return self._answer(*given)
        except RefusedError:
            return None

    def _leaves(self, report: Report) -> None:
        known = self.left_device.setdefault(report.round, report)
        assert report == known, "a second, different report for a round"

    @rule(question=questions, value=values, event=events)
    def answer(self, question: tuple[str, Fraction], value: int, event: str) -> None:
        if report := self._answered(question, value, event):
            self._leaves(report)

    @rule(question=questions, value=values, event=events)
    def crash_before_sending(self, question: tuple[str, Fraction], value: int, event: str) -> None:
        report = self._answered(question, value, event)
        if report is None:
            return
        self.reopen(0)
        pin = self.memory.pin(report.round)  # nobody has seen it, and nobody will see another
        assert pin is not None
        assert pin.report == report.report

    @rule(question=questions, value=values, event=events, at=st.integers(0, 150))
    def interrupt(self, question: tuple[str, Fraction], value: int, event: str, at: int) -> None:
        reports: list[Report] = []

        def action() -> None:
            reports.append(self._answer(question, value, event))

        try:
            interrupted(action, at, pure=PURE)
        except RefusedError:
            return
        for report in reports:
            self._leaves(report)

    @rule(
        question=questions,
        event=events,
        at=st.integers(0, 14),
        code=st.sampled_from((errno.ENOSPC, errno.EIO)),
    )
    def fail(self, question: tuple[str, Fraction], event: str, at: int, code: int) -> None:
        def fault(*_: Any) -> None:
            raise OSError(code, os.strerror(code))

        self._with_fault(at, fault, question, event)

    def _with_fault(
        self, at: int, fault: Callable[..., Any], question: tuple[str, Fraction], event: str
    ) -> None:
        with pytest.MonkeyPatch.context() as patched:
            System(patched, at, fault)
            try:
                report = self._answer(question, 7, event)
            except RefusedError:
                return
        self._leaves(report)

    @rule(question=questions, event=events)
    def swap_while_open(self, question: tuple[str, Fraction], event: str) -> None:
        """The file is away while the device answers: nothing new may leave."""
        away = self.folder / "away.json"
        known = self.memory.pin(question[0])
        self.path.rename(away)
        try:
            report = self._answer(question, 7, event)
        except RefusedError:
            report = None
        away.rename(self.path)
        assert report is None or known is not None
        if report is not None:
            self._leaves(report)

    @rule(question=questions, event=events)
    def fork(self, question: tuple[str, Fraction], event: str) -> None:
        child = Child()
        if child.here:
            try:
                child.end(self._answer(question, 7, event).json().encode())
            except TidegateError:
                child.end()
            finally:
                os._exit(1)
        assert child.told() == b""

    @rule(name=st.integers(0, 3))
    def reopen(self, name: int) -> None:
        self.memory.close()
        self.memory = Memory.open(self.names[name])
        for report in self.left_device.values():
            pin = self.memory.pin(report.round)
            assert pin is not None, "something left before it was remembered"
            assert (pin.report, pin.client, pin.slot) == (
                *(report.report, report.client),
                report.slot,
            )

    @rule(name=st.integers(0, 3))
    def open_twice(self, name: int) -> None:
        with pytest.raises(DeviceMemoryError, match="in use"):
            Memory.open(self.names[name])

    @rule()
    def copy(self) -> None:
        shutil.copy2(self.path, self.folder / "copy.json")
        with pytest.raises(DeviceMemoryError, match="copy"):
            Memory.open(self.folder / "copy.json")

    @precondition(lambda self: self.left_device)
    @invariant()
    def nothing_is_overspent(self) -> None:
        spent = sum(report.epsilon for report in self.left_device.values())
        assert spent <= self.memory.spent <= LIFETIME

    @invariant()
    def a_value_is_in_one_round(self) -> None:
        pins = self.memory.pins
        assert len({pin.event for pin in pins}) == len(pins)


Devices.TestCase.settings = settings(max_examples=examples(25), stateful_step_count=25)
TestDevices = Devices.TestCase
