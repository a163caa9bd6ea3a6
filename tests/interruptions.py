"""Interrupt a call at every place where an exception can arrive: the k-th line or bytecode of it.

A signal handler that raises, a full memory or stack can end a call between any two instructions.
`interrupted` raises at event `at` of a call, and `all_interruptions` runs over every event there
is: exhaustively at the gate, so a state that is left half-changed anywhere is found. By hand it
takes every third event, each case of a family others (`tests/depth.py`).

    for at, release in all_interruptions(make, lambda release: release.push(values)):
        ...  # `release` was interrupted there: as before, or does it refuse?

Events are the lines of Tidegate's code, its returns, and in the modules named by `bytecodes` every
single instruction. Modules named by `pure` are passed over: an exception inside a function that
changes nothing leaves the state that one at its call leaves. The last instruction of the call
itself is left out: an exception that arrives there has already left the callee (CPython handles no
signal between the two).
"""

from __future__ import annotations

import opcode
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeVar

import tidegate
from tests.depth import moments

Subject = TypeVar("Subject")
_HOME = str(Path(tidegate.__file__).parent) + os.sep


class Interrupted(BaseException):
    """Raised by the tracer, like a KeyboardInterrupt: not an Exception."""


def _raise() -> None:
    raise Interrupted


def interrupted(
    action: Callable[[], Any],
    at: int,
    *,
    bytecodes: tuple[str, ...] = (),
    pure: tuple[str, ...] = (),
    do: Callable[[], None] = _raise,
) -> bool:
    """Run `action` and raise `Interrupted` at its event number `at` (from 0).

    Args:
        action: what is interrupted; other exceptions of it are passed on.
        at: the number of the event.
        bytecodes: modules by their path in the package ("run/release.py", "durable/"), in which
            every instruction is an event.
        pure: modules whose functions change nothing, which are not followed.
        do: what to do there instead of raising: a signal handler that forks, or that waits.

    Returns:
        Whether it was interrupted; False: it has fewer events, and ended as it would have.
    """
    tracer = _Tracer(at, bytecodes, pure, do)
    before = sys.gettrace()
    try:
        sys.settrace(tracer.entered)
        try:
            next(_apart(action))
        finally:
            sys.settrace(before)
    except Interrupted:
        return True
    return tracer.fired


def _apart(action: Callable[[], Any]) -> Iterator[Any]:
    """A generator has the exceptions that are being handled to itself.

    An interruption between two instructions of a handler can leave CPython believing that it is
    still being handled: later exceptions of the thread would get it as their context.
    """
    yield action()


def all_interruptions(
    make: Callable[[], Subject],
    action: Callable[[Subject], Any],
    *,
    bytecodes: tuple[str, ...] = (),
    pure: tuple[str, ...] = (),
) -> Iterator[tuple[int, Subject]]:
    """A fresh subject for every event of `action(subject)` that is met, interrupted there."""
    for at in moments():
        subject = make()
        call = partial(action, subject)
        if not interrupted(call, at, bytecodes=bytecodes, pure=pure):
            return
        yield at, subject


@cache
def _places(names: tuple[str, ...]) -> tuple[str, ...]:
    """Where these modules are; a name that nothing has would be followed by nobody."""
    for name in names:
        assert Path(_HOME + name).exists(), name
    return tuple(_HOME + name.replace("/", os.sep) for name in names)


@cache
def _known_code(
    bytecodes: tuple[str, ...], pure: tuple[str, ...]
) -> dict[CodeType, tuple[bool, bool]]:
    """Of each function met so far: is it followed, and closely? Kept for thousands of tracers."""
    return {}


class _Tracer:
    """Counts events, and raises at one of them; Python then stops tracing by itself."""

    def __init__(
        self,
        at: int,
        bytecodes: tuple[str, ...],
        pure: tuple[str, ...],
        do: Callable[[], None],
    ) -> None:
        self.fired = False
        self._left = at
        self._do = do
        self._bytecodes, self._pure = _places(bytecodes), _places(pure)
        self._ours = _known_code(bytecodes, pure)
        self._outermost: FrameType | None = None

    def entered(self, frame: FrameType, event: str, _: Any) -> Any:
        """For every call: whether its frame is ours, and how closely it is followed."""
        code = frame.f_code
        if code not in self._ours:
            name = code.co_filename
            ours = name.startswith(_HOME) and not name.startswith(self._pure)
            self._ours[code] = ours, name.startswith(self._bytecodes)
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
        self._left -= 1
        if self._left == -1:
            self.fired = True
            self._do()


_RETURN = opcode.opmap["RETURN_VALUE"]


def _leaves(frame: FrameType) -> bool:
    return frame.f_code.co_code[frame.f_lasti] == _RETURN
