"""What a device remembers of its reports, on the disk before a report leaves it.

    drawn → written to a new file → fsync → renamed over the old → fsync of the folder ║ sent

So a device that is killed anywhere either knows a report or never sent it, and never draws a second
one for the same round: two reports on one value could be averaged. The file holds no values; it
holds a random key, from which the device's names are made, and is as private as that (0600).
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

from tidegate import _files
from tidegate.contexts import Closed
from tidegate.errors import RefusedError
from tidegate.randomness import random_bytes

VERSION = 1
MOST_ROUNDS = 4096  # a server cannot fill a device's disk with cheap rounds
KEY_BYTES = 32
_FINEST = 10**36


class DeviceMemoryError(RefusedError):
    """A device's memory cannot be used, so nothing is reported."""


@dataclass(frozen=True, kw_only=True)
class Pin:
    """A line of the local ledger: what was reported in a round, and what it cost.

    Attributes:
        round, phase, slot, epsilon: of the announcement that was answered.
        digest: of all of that announcement.
        event: a keyed digest of what the value was called.
        client, report: what was sent.
        time: when, by the device's clock (UTC).
    """

    round: str
    phase: str
    slot: int
    epsilon: Fraction
    digest: str
    event: str
    client: str
    report: int
    time: str

    def plain(self) -> dict[str, Any]:
        """For the file."""
        return {**asdict(self), "epsilon": str(self.epsilon)}


class Memory(Closed):
    """The reports of one device. `Memory.open(path)`; `Memory.volatile()` to try things out.

    Use it as a context manager, or `close()` it: it is locked against other processes.

    Attributes:
        key: a random secret of the device.
        turn: held by whoever looks up a round and answers it; threads and clients take turns.
        path: its file; None: it forgets everything when the process ends, and so is no protection.

    >>> memory = Memory.volatile()
    >>> memory.pins, memory.spent
    ((), Fraction(0, 1))
    """

    def __init__(self, path: Path | None, key: bytes, pins: list[Pin], lock: int | None) -> None:
        self.path = path
        self.key = key
        self.turn = threading.Lock()
        self._lock = lock
        self._process = os.getpid()
        self._usable = True
        self._rounds: dict[str, Pin] = {}
        self._events: set[str] = set()
        self.spent = Fraction(0)
        for pin in pins:
            self._take(pin)

    def __repr__(self) -> str:
        return f"Memory(path={self.path}, rounds={len(self._rounds)})"

    @classmethod
    def volatile(cls) -> Memory:
        """For tests and demonstrations: without a file."""
        return cls(None, random_bytes(KEY_BYTES), [], None)

    @classmethod
    def open(cls, path: str | Path) -> Memory:
        """The memory in this file; a new one if there is none.

        Raises:
            RefusedError: if it is damaged, in use, or cannot be written.
        """
        file = Path(path)
        lock = _locked(file)
        try:
            if file.exists():
                return cls(file, *_stored(file), lock)
            memory = cls(file, random_bytes(KEY_BYTES), [], lock)
            memory._write([])
        except BaseException:
            os.close(lock)
            raise
        return memory

    @property
    def pins(self) -> tuple[Pin, ...]:
        """The local ledger, in the order of reporting."""
        return tuple(self._rounds.values())

    def pin(self, name: str) -> Pin | None:
        """What was reported in a round."""
        return self._rounds.get(name)

    def knows(self, event: str) -> bool:
        """Whether a value of this (digested) name was reported on."""
        return event in self._events

    def check(self) -> None:
        """Refuse if nothing more can be remembered: then nothing more may be reported."""
        if os.getpid() != self._process:
            raise DeviceMemoryError("this process was forked: only its parent may report")
        if not self._usable:
            raise DeviceMemoryError("the memory of this device is closed, or could not be written")
        if len(self._rounds) >= MOST_ROUNDS:
            raise DeviceMemoryError(
                f"this device has answered {MOST_ROUNDS} rounds, and answers no more"
            )

    def add(self, pin: Pin) -> None:
        """Remember a report. When this returns, it may be sent; if it raises, it may not."""
        self.check()
        if pin.round in self._rounds or pin.event in self._events:
            raise DeviceMemoryError("this round was answered, or this value reported on, before")
        if self.path is not None:
            self._usable = False  # whatever interrupts this: what the disk holds is not known then
            self._write([*self.pins, pin])
            self._usable = True
        self._take(pin)

    def close(self) -> None:
        """Let others open it."""
        self._usable = False
        if self._lock is not None:
            _files.unlock(self._lock)
            self._lock = None

    def _take(self, pin: Pin) -> None:
        self._rounds[pin.round] = pin
        self._events.add(pin.event)
        self.spent = _short(self.spent + pin.epsilon)

    def _write(self, pins: list[Pin]) -> None:
        path = Path(os.path.realpath(str(self.path)))
        plain = {"tidegate": VERSION, "kind": "memory", "key": self.key.hex()}
        text = json.dumps({**plain, "pins": [pin.plain() for pin in pins]}, indent=0)
        try:
            _files.replace_file(path, text.encode("ascii"))
        except OSError as error:
            raise DeviceMemoryError(
                f"nothing was reported: {self.path} could not be written: {error.strerror}"
            ) from None


def _locked(file: Path) -> int:
    try:
        lock = _files.open_lock(file.with_name(f".{file.name}.lock"))
    except OSError as error:
        raise DeviceMemoryError(f"cannot use {file}: {error.strerror}") from None
    if lock is None:
        raise DeviceMemoryError(f"{file} is in use: two clients could report twice on a value")
    return lock


def _stored(file: Path) -> tuple[bytes, list[Pin]]:
    names = {item.name for item in fields(Pin)}
    try:
        plain = json.loads(file.read_bytes())
        if (plain["tidegate"], plain["kind"]) != (VERSION, "memory"):
            raise ValueError("another version")
        key = bytes.fromhex(plain["key"])
        if len(key) != KEY_BYTES or any(set(pin) != names for pin in plain["pins"]):
            raise ValueError("another key or other fields")
        pins = [Pin(**{**pin, "epsilon": Fraction(pin["epsilon"])}) for pin in plain["pins"]]
    except OSError as error:
        raise DeviceMemoryError(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, ZeroDivisionError):
        raise DeviceMemoryError(
            f"{file} is damaged or of another version: what was reported before is not known, so "
            "nothing more is. Put the newest copy back"
        ) from None
    return key, pins


def _short(spent: Fraction) -> Fraction:
    """Rounded up where denominators chosen by a server would make the sum ever longer."""
    if spent.denominator <= _FINEST:
        return spent
    return Fraction(-(-spent.numerator * _FINEST // spent.denominator), _FINEST)
