"""`PendingPush`, a request that waits for the gate; its answers `Receipt`, `Busy`, `Conflict`."""

from __future__ import annotations

import hashlib
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate.errors import RefusedError, TidegateError
from tidegate.lattice import FloatArray
from tidegate.service.loop_wakeups import LoopAnswer
from tidegate.timestamps import Times

NO_VALUES: FloatArray = np.zeros(0)  # a request that only moves the clock


class Busy(TidegateError):  # noqa: N818  # a state, and no fault
    """The gate's queue is full. Nothing was taken: send it again later."""


class Fault(TidegateError):  # noqa: N818  # as problem details call it
    """An unexpected error. Nothing was released."""

    def __init__(self) -> None:
        super().__init__("nothing was released. Please report it (SECURITY.md)")


class Conflict(RefusedError):  # noqa: N818  # as HTTP calls it
    """The request contradicts earlier ones.

    Attributes:
        seen: how many values the stream has taken: the next must continue there. None: that is not
            public, as of events.
    """

    def __init__(self, problem: str, seen: int | None) -> None:
        super().__init__(problem)
        self.seen = seen


def fulfil_request(answer: Future[Any] | LoopAnswer, outcome: Any) -> None:
    """Give an answer, unless the client has left.

    A request whose connection was cancelled must not stop the thread that serves all others:
    `set_result` raises then. What it brought is released all the same; it is known by its key.
    """
    if not answer.set_running_or_notify_cancel():
        return
    if isinstance(outcome, BaseException):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


@dataclass(frozen=True)
class Receipt:
    """The durable result of a request.

    Attributes:
        start: the place of its first value in the stream, counted from 0; None for events, whose
            number is not public.
        count: how many values were taken.
        repeated: it was taken before, and nothing was released now.
    """

    start: int | None
    count: int
    repeated: bool = False


def request_id(*parts: str) -> str:
    """A digest of the sender and of the request's identification."""
    found = [part.encode() for part in parts]
    return hashlib.sha256(b"".join(b"%d " % len(part) + part for part in found)).hexdigest()


class RequestsOfSameRows:
    """The common part of the requests for all columns of the same rows."""


@dataclass(eq=False, repr=False)  # raw values; keys may be names
class PendingPush:
    """Values for a stream.

    Attributes:
        stream: its name.
        values: raw.
        times: of the values, if they have them.
        keys: of the values, in a stream with keys.
        until: the clock of the producer: ticks of an event stream that are over by then are
            released, after these events were taken.
        key: the idempotency key; a second request of the sender with it is the same request.
        start: where the client thinks that the stream is.
        answer: fulfilled once everything is committed.
        trace: the span of the request, if somebody collects them.
        rows: shared by the requests for all columns of the same rows, which are taken together or
            not at all; None: it stands alone.
        sender: whoever sent it, by `AccessHolder.sender`.
    """

    stream: str
    values: FloatArray
    times: Times | None = None
    key: str | None = None
    start: int | None = None
    keys: list[str | None] | None = None
    until: str | None = None
    answer: Future[Receipt] = field(default_factory=Future)
    trace: Any = None
    rows: RequestsOfSameRows | None = None
    sender: str = ""

    @property
    def request_id(self) -> str | None:
        """The id that recognises a repeated request. None: it has none.

        Its key, or else the place of its values, and its sender: nobody is told whether somebody
        else has used a key, or which values were taken at a place. A digest: keys may be names.
        """
        if self.key is None and self.start is None:
            return None
        kind, name = ("start", str(self.start)) if self.key is None else ("key", self.key)
        return request_id(self.sender, kind, name)

    def content(self) -> bytes:
        """All that makes two requests equal, as bytes. As secret as the values."""
        times = b"" if self.times is None else self.times.ticks.tobytes()
        return b"%d %d " % (self.values.size, -1 if self.start is None else self.start) + (
            self.values.tobytes() + times + repr((self.keys, self.until)).encode()
        )
