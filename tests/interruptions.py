"""Interrupt a call at every place where an exception can arrive: the k-th line or bytecode of it.

A signal handler that raises, a full memory or stack can end a call between any two instructions.
`interrupted` raises at event `at` of a call, and `all_interruptions` runs over every event there
is: exhaustively, so a state that is left half-changed anywhere is found.

    for at, release in all_interruptions(make, lambda release: release.push(values)):
        ...  # `release` was interrupted there: as before, or does it refuse?

Events are the lines of Tidegate's code, its returns, and in the modules named by `bytecodes` every
single instruction. The last instruction of the call itself is left out: an exception that arrives
there has already left the callee (CPython handles no signal between the two).
"""

from __future__ import annotations

import opcode
import os
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, TypeVar

import tidegate

Subject = TypeVar("Subject")
_HOME = os.path.dirname(tidegate.__file__) + os.sep


class Interrupted(BaseException):
    """Raised by the tracer, like a KeyboardInterrupt: not an Exception."""


def interrupted(action: Callable[[], Any], at: int, *, bytecodes: tuple[str, ...] = ()) -> bool:
    """Run `action` and raise `Interrupted` at its event number `at` (from 0).

    Args:
        action: what is interrupted; other exceptions of it are passed on.
        at: the number of the event.
        bytecodes: modules by their path in the package ("release.py", "durable/"), in which every
            instruction is an event.

    Returns:
        Whether it was interrupted; False: it has fewer events, and ended as it would have.
    """
    tracer = _Tracer(at, bytecodes)
    before = sys.gettrace()
    try:
        sys.settrace(tracer.entered)
        try:
            action()
        finally:
            sys.settrace(before)
    except Interrupted:
        return True
    return False


def all_interruptions(
    make: Callable[[], Subject],
    action: Callable[[Subject], Any],
    *,
    bytecodes: tuple[str, ...] = (),
) -> Iterator[tuple[int, Subject]]:
    """A fresh subject for every event of `action(subject)`, interrupted there."""
    at = 0
    while True:
        subject = make()
        if not interrupted(lambda subject=subject: action(subject), at, bytecodes=bytecodes):  # type: ignore[misc]
            return
        yield at, subject
        at += 1


class _Tracer:
    """Counts events, and raises at one of them; Python then stops tracing by itself."""

    def __init__(self, at: int, bytecodes: tuple[str, ...]) -> None:
        self._left = at
        self._bytecodes = tuple(_HOME + name.replace("/", os.sep) for name in bytecodes)
        self._ours: dict[CodeType, tuple[bool, bool]] = {}
        self._outermost: FrameType | None = None

    def entered(self, frame: FrameType, event: str, _: Any) -> Any:
        """For every call: whether its frame is ours, and how closely it is followed."""
        code = frame.f_code
        if code not in self._ours:
            name = code.co_filename
            self._ours[code] = name.startswith(_HOME), name.startswith(self._bytecodes or "\0")
        ours, closely = self._ours[code]
        if not ours:
            return None
        if self._outermost is None:
            self._outermost = frame
        frame.f_trace_opcodes = closely
        return self.closely if closely else self.by_lines

    def by_lines(self, frame: FrameType, event: str, _: Any) -> Any:
        """Lines and returns."""
        if event == "line" or (event == "return" and frame is not self._outermost):
            self._count()
        return self.by_lines

    def closely(self, frame: FrameType, event: str, _: Any) -> Any:
        """Instructions and returns; a line begins with an instruction."""
        if frame is self._outermost:
            if event == "opcode" and not _leaves(frame):
                self._count()
        elif event in ("opcode", "return"):
            self._count()
        return self.closely

    def _count(self) -> None:
        if not self._left:
            self._left = -1
            raise Interrupted
        self._left -= 1


_RETURN = opcode.opmap["RETURN_VALUE"]


def _leaves(frame: FrameType) -> bool:
    return frame.f_code.co_code[frame.f_lasti] == _RETURN

