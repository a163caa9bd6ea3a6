"""Pass answers from the gate's thread to requests in the event loop, many in one call.

Every call into a loop from another thread writes to a pipe and takes the loop's lock. A group of
requests has one commit, so all of them are woken by one such call.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

Result = TypeVar("Result")
_Waiting = tuple["asyncio.Future[Any]", "Future[Any] | LoopAnswer"]


class _WokenTogether(threading.local):
    waiting: dict[asyncio.AbstractEventLoop, list[_Waiting]] | None = None


_together = _WokenTogether()


class LoopAnswer:
    """One request's pending answer: what the gate's thread needs of a `Future`, unlocked.

    Made in the loop. The other thread gives the outcome once; only the loop touches `woken` then.
    """

    __slots__ = ("_error", "_loop", "_value", "woken")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.woken: asyncio.Future[Any] = self._loop.create_future()
        self._value: Any = None
        self._error: BaseException | None = None

    def set_running_or_notify_cancel(self) -> bool:
        """Whether the request still waits."""
        return not self.woken.cancelled()

    def set_result(self, value: Any) -> None:
        """The answer."""
        self._value = value
        _wake_loop(self._loop, self.woken, self)

    def set_exception(self, error: BaseException) -> None:
        """Set the error in place of an answer."""
        self._error = error
        _wake_loop(self._loop, self.woken, self)

    def cancelled(self) -> bool:
        """False: a request that stops waiting cancels `woken`."""
        return False

    def exception(self) -> BaseException | None:
        """The error, if there is no answer."""
        return self._error

    def result(self) -> Any:
        """The answer."""
        return self._value


async def result_in_loop(answer: Future[Result]) -> Result:
    """Await another thread's answer. If the caller is cancelled, so is the work, if possible."""
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[Result] = loop.create_future()
    answer.add_done_callback(lambda done: _wake_loop(loop, woken, done))
    try:
        return await woken
    except asyncio.CancelledError:
        answer.cancel()
        raise


@contextmanager
def wakeups_together() -> Iterator[None]:
    """Collect the answers of this thread inside the context, and wake their requests at the end."""
    if _together.waiting is not None:
        yield
        return
    _together.waiting = {}
    try:
        yield
    finally:
        waiting, _together.waiting = _together.waiting, None
        for loop, some in waiting.items():
            _call_in_loop(loop, some)


def _wake_loop(
    loop: asyncio.AbstractEventLoop, woken: asyncio.Future[Any], done: Future[Any] | LoopAnswer
) -> None:
    if _together.waiting is None:
        _call_in_loop(loop, [(woken, done)])
    else:
        _together.waiting.setdefault(loop, []).append((woken, done))


def _call_in_loop(loop: asyncio.AbstractEventLoop, waiting: list[_Waiting]) -> None:
    with suppress(RuntimeError):  # the loop was closed: nobody waits any more
        loop.call_soon_threadsafe(_settle_wakeups, waiting)


def _settle_wakeups(waiting: list[_Waiting]) -> None:
    for woken, done in waiting:
        if woken.done():
            continue  # the request has left
        if done.cancelled():
            woken.cancel()
        elif (error := done.exception()) is not None:
            woken.set_exception(error)
        else:
            woken.set_result(done.result())
