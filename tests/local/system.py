"""Calls to the operating system that meet a fault, and processes that are forked by a test."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

# Every call that opening, writing and closing a device's memory makes.
CALLS = ("open", "stat", "fstat", "pread", "ftruncate", "pwrite", "fsync", "rename", "unlink")

# (name, the call itself, its arguments) → what the call gives instead.
Fault = Callable[[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


class System:
    """The calls above, of which number `at` meets a fault."""

    def __init__(self, patched: pytest.MonkeyPatch, at: int, fault: Fault) -> None:
        self.left = at
        for name in CALLS:
            patched.setattr(os, name, self._watched(name, getattr(os, name), fault))

    def _watched(self, name: str, real: Callable[..., Any], fault: Fault) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == -1:
                return fault(name, real, arguments, named)
            return real(*arguments, **named)

        return call

    @property
    def met(self) -> bool:
        """Whether the fault has happened."""
        return self.left < 0


class Child:
    """A forked process that tells its parent something and ends."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        self._process = os.fork()
        self.here = self._process == 0  # whether this is the child

    def tell(self, text: bytes) -> None:
        """In the child: say this, without ending."""
        os.write(self._writing, text)

    def end(self, text: bytes = b"") -> None:
        """In the child: say this and end, without any cleaning up."""
        self.tell(text)
        os._exit(0)

    def told(self) -> bytes:
        """In the parent: all that the child said, when it has ended."""
        os.close(self._writing)
        with os.fdopen(self._reading, "rb") as pipe:
            text = pipe.read()
        os.waitpid(self._process, 0)
        return text


@contextmanager
def living_child() -> Iterator[None]:
    """A forked process that is alive and does nothing."""
    (waiting, ending), (begun, beginning) = os.pipe(), os.pipe()
    process = os.fork()
    if process == 0:
        os.write(beginning, b".")
        os.read(waiting, 1)
        os._exit(0)
    try:
        os.read(begun, 1)
        yield
    finally:
        os.write(ending, b".")
        os.waitpid(process, 0)
        for descriptor in (waiting, ending, begun, beginning):
            os.close(descriptor)
