"""A device's memory of its reports, written to disk before a report leaves.

    drawn → written to the device's file (`device_memory_file`) ║ sent

So a device that is killed anywhere either knows a report or never sent it, and never draws a second
one for the same round: two reports on one value could be averaged. The file holds no values; it
holds a random key, from which the device's names are made, and is as private as that (0600).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

from tidegate._context_managers import Closed
from tidegate.local.device_memory_file import DeviceMemoryError, MemoryFile
from tidegate.local.pinned_report import DIGEST, Pin
from tidegate.ownership import NotCopied, Ownership, refused_as
from tidegate.randomness import random_bytes

__all__ = ["DeviceMemoryError", "Memory", "Pin"]

VERSION = 2
MOST_ROUNDS = 4096  # a server cannot fill a device's disk with cheap rounds
KEY_BYTES = 32
_LONGEST_PIN = 1024  # two names of 128 characters, two digests, and what is around them
_FINEST = 10**36


class Memory(Closed, NotCopied):
    """The reports of one device. `Memory.open(path)`; `Memory.volatile()` to try things out.

    Use it as a context manager, or `close()` it: it is locked against other processes.

    Attributes:
        key: a random secret of the device.
        path: its file; None: it forgets everything when the process ends, and so is no protection.

    >>> memory = Memory.volatile()
    >>> memory.pins, memory.spent
    ((), Fraction(0, 1))
    """

    def __init__(
        self,
        file: MemoryFile | None,
        key: bytes,
        pins: list[Pin],
        acknowledged: Iterable[str] = (),
    ) -> None:
        # Before the key: a process that is forked in between must not own a copy.
        self._ownership = Ownership("memory", "close it and open it again")
        self._file = file
        self._closed = False
        self.path = None if file is None else file.path
        self.key = key
        self._rounds: dict[str, Pin] = {}
        self._events: set[str] = set()
        self.spent = Fraction(0)
        for pin in pins:
            self._take(pin)
        self._acknowledged = dict.fromkeys(acknowledged)  # in their order, as the file has them

    def __repr__(self) -> str:
        return f"Memory(path={self.path}, rounds={len(self._rounds)})"

    @classmethod
    def volatile(cls) -> Memory:
        """A memory without a file, for tests and demonstrations."""
        return cls(None, random_bytes(KEY_BYTES), [])

    @classmethod
    def open(cls, path: str | Path, *, moved: bool = False) -> Memory:
        """The memory in this file; a new one if the file does not exist.

        Args:
            path: of the file. The folder must exist.
            moved: accept a file that was moved from another disk or restored from a backup, which
                looks like a copy. Only if the original will never be used again, and no report was
                made since: two copies would answer a round differently.

        Raises:
            RefusedError: if it is damaged, a copy, in use, or cannot be written.
        """
        file = MemoryFile(path, _LONGEST_PIN * (MOST_ROUNDS + 1))
        try:
            if file.exists():
                return cls._stored(file, moved=moved)
            memory = cls(file, random_bytes(KEY_BYTES), [])
            file.create(memory._plain((), ()))
            return memory
        except BaseException:
            file.close()
            raise

    @classmethod
    def _stored(cls, file: MemoryFile, *, moved: bool) -> Memory:
        try:
            identity, key, pins, acknowledged = _parsed_device_memory(file.read())
        except (ValueError, KeyError, TypeError, RecursionError):
            raise DeviceMemoryError(
                f"{file.path} is damaged or of another version, so earlier reports are unknown "
                "and no more are sent. Put the newest copy back, and open it with moved=True"
            ) from None
        memory = cls(file, key, pins, acknowledged)
        # A file of an earlier Tidegate knows its number only.
        if identity != {name: file.identity.get(name) for name in identity}:
            if not moved:
                raise DeviceMemoryError(
                    f"{file.path} is a copy: the original could answer the same rounds with other "
                    "reports. If the original will never be used again, open this one with "
                    "Memory.open(path, moved=True)"
                )
            file.rewrite(memory._plain(memory.pins, memory._acknowledged))
        return memory

    @property
    def pins(self) -> tuple[Pin, ...]:
        """The local ledger, in the order of reporting."""
        return tuple(self._rounds.values())

    @property
    def unacknowledged(self) -> tuple[Pin, ...]:
        """The reports that are not acknowledged, in the order of reporting."""
        return tuple(pin for pin in self.pins if pin.round not in self._acknowledged)

    @property
    @contextmanager
    def turn(self) -> Iterator[None]:
        """A lock to hold while looking up a round and answering it.

        Raises:
            DeviceMemoryError: in a forked process, where waiting could last for ever.
        """
        with refused_as(DeviceMemoryError):
            lock = self._ownership.lock
        with lock:
            yield

    def pin(self, name: str) -> Pin | None:
        """Look up the report of a round; None if there is none."""
        return self._rounds.get(name)

    def knows(self, event: str) -> bool:
        """Whether a value with this (digested) name was reported."""
        return event in self._events

    def check(self) -> None:
        """Refuse if nothing more can be stored: then nothing more may be reported."""
        self._check_usable()
        if len(self._rounds) >= MOST_ROUNDS:
            raise DeviceMemoryError(
                f"this device has answered {MOST_ROUNDS} rounds, and answers no more"
            )

    def _check_usable(self) -> None:
        if self._closed:
            raise DeviceMemoryError("the memory of this device is closed")
        with refused_as(DeviceMemoryError):
            self._ownership.check()

    def add(self, pin: Pin, lifetime: Fraction | None = None) -> None:
        """Store a report. When this returns, it may be sent; if it raises, it may not.

        Args:
            pin: what is to be sent.
            lifetime: refuse to spend more than this in all; None: no limit. Checked here, since a
                signal handler may have answered after an earlier check.

        Whatever interrupts it, nothing more is reported from this memory: what the disk holds is
        not known then, and is read when the memory is opened again.
        """
        with self.turn:
            self.check()
            with refused_as(DeviceMemoryError):
                self._ownership.begin()  # from here on a signal handler cannot answer in between
            problem = self._problem(pin, lifetime)
            if problem is not None:
                self._ownership.done()
                raise DeviceMemoryError(problem)
            if self._file is not None:
                self._file.rewrite(self._plain((*self.pins, pin), self._acknowledged))
            self._take(pin)
            with refused_as(DeviceMemoryError):
                self._ownership.done()

    def acknowledge(self, name: str) -> None:
        """Note, durably, that the report of a round arrived."""
        with self.turn:
            self._check_usable()
            if name in self._acknowledged:
                return
            if name not in self._rounds:
                raise DeviceMemoryError("nothing was reported in this round")
            with refused_as(DeviceMemoryError):
                self._ownership.begin()
            if self._file is not None:
                self._file.rewrite(self._plain(self.pins, (*self._acknowledged, name)))
            self._acknowledged[name] = None
            with refused_as(DeviceMemoryError):
                self._ownership.done()

    def _problem(self, pin: Pin, lifetime: Fraction | None) -> str | None:
        if pin.round in self._rounds or pin.event in self._events:
            return "this round was answered, or this value reported on, before"
        if lifetime is not None and self.spent + pin.epsilon > lifetime:
            return "the lifetime of this device is spent"
        return None

    def close(self) -> None:
        """Close the memory, so that others can open it."""
        self._closed = True
        try:
            with self.turn:
                self._let_go()
        except DeviceMemoryError:  # in a forked process, which has nothing to let go of
            self._let_go()

    def _let_go(self) -> None:
        if self._file is not None:
            self._file.close()

    def _take(self, pin: Pin) -> None:
        self._rounds[pin.round] = pin
        self._events.add(pin.event)
        self.spent = _short_memory_sum(self.spent + pin.epsilon)

    def _plain(self, pins: tuple[Pin, ...], acknowledged: Iterable[str]) -> dict[str, Any]:
        head = {"tidegate": VERSION, "kind": "memory", "key": self.key.hex()}
        named = list(acknowledged)
        tail = {"acknowledged": named} if named else {}
        return {**head, "pins": [pin.plain() for pin in pins], **tail}


def _parsed_device_memory(plain: Any) -> tuple[dict[str, int], bytes, list[Pin], list[str]]:
    """Identity, key, pins and acknowledged rounds from a file's content; may raise any error."""
    identity = {name: plain[name] for name in ("inode", "generation") if name in plain}
    if "inode" not in identity or set(plain) - {"acknowledged", *identity} != {
        "tidegate",
        "kind",
        "key",
        "pins",
    }:
        raise ValueError("other fields")
    if (plain["tidegate"], plain["kind"]) != (VERSION, "memory"):
        raise ValueError("another version")
    if not DIGEST.fullmatch(plain["key"]):  # as many bytes as a digest
        raise ValueError("no key")
    if not isinstance(plain["pins"], list) or len(plain["pins"]) > MOST_ROUNDS:
        raise ValueError("no pins, or too many")
    pins = [Pin.from_plain(pin) for pin in plain["pins"]]
    if len({pin.round for pin in pins}) < len(pins) or len({pin.event for pin in pins}) < len(pins):
        raise ValueError("a round or an event occurs twice")
    named, rounds = plain.get("acknowledged", []), {pin.round for pin in pins}
    if not isinstance(named, list) or len(set(named)) < len(named) or not set(named) <= rounds:
        raise ValueError("rounds that were acknowledged and not answered")
    return identity, bytes.fromhex(plain["key"]), pins, named


def _short_memory_sum(spent: Fraction) -> Fraction:
    """A sum, rounded up where denominators chosen by a server would make it ever longer."""
    if spent.denominator <= _FINEST:
        return spent
    return Fraction(-(-spent.numerator * _FINEST // spent.denominator), _FINEST)
