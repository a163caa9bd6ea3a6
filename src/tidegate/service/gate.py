"""`GateThread`: one thread that releases what requests bring, group by group.

    requests of a moment → push, push, … → one transaction ║ answers, live readers

The transaction holds states, journals, released rows, idempotency keys and the ledger. Answers
leave after it. If it fails, nothing was released; what is in memory is ahead of the database then,
so it is forgotten and read again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Generic, TypeVar

from tidegate.durable import StorageError
from tidegate.errors import InputError, TidegateError
from tidegate.ledger import Ledger
from tidegate.ownership import Ownership
from tidegate.service.database import Database
from tidegate.service.logs_and_traces import TelemetryTraces
from tidegate.service.open_streams import OpenStreams, Run
from tidegate.service.pending_requests import Busy, Fault, PendingPush, fulfil_request
from tidegate.service.push_group import PushGroup
from tidegate.service.whole_rows import UnevenError

Result = TypeVar("Result")
_log = logging.getLogger(__name__)
_MOST_WAITING = 4096  # requests
MOST_VALUES = 1 << 22  # of all that wait
_GROUP = 1024  # requests in a transaction
_ASKERS = 4  # threads that work out answers


class GateThread:
    """The owner of everything that changes. `submit` and `call` may be used from any thread.

    Args:
        database: is opened by `open`.
        key: 32 bytes that seal the states; None: they are not sealed.
        cap: the most ε that any one source may spend.
    """

    def __init__(self, database: Database, *, key: bytes | None = None, cap: Any = None) -> None:
        self._ownership = Ownership("service")  # a forked process has none of its threads
        self.database = database
        self.streams = OpenStreams(database, key, cap)
        # Held while memory is ahead of the database: who reads from memory waits.
        self.lock = threading.RLock()
        self._waiting: deque[PendingPush | _GateCall[Any]] = deque()
        self._values = 0
        self._news = threading.Condition()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._askers = ThreadPoolExecutor(_ASKERS, "tidegate question")
        self.listener: Callable[[PushGroup], None] | None = None  # called with what was released
        self.telemetry = TelemetryTraces()
        self.failure: str | None = None  # why the last transaction failed; None: it did not

    def open(self) -> None:
        """Open the database and start the thread."""
        self.database.open()
        try:
            with self.database.transaction():
                self.streams.open_ledger()
                if self.database.restored:
                    self.streams.begin_epochs()
                    self.database.restored = False
        except BaseException:
            self.database.close()
            raise
        self._thread = threading.Thread(target=self._work, name="tidegate gate", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Finish waiting requests, then close the database."""
        with self._news:
            self._stopping = True
            self._news.notify()
        if self._thread is not None:
            self._thread.join()
        self._askers.shutdown(wait=False, cancel_futures=True)
        self.database.close()

    # -- from any thread -------------------------------------------------------------------------

    def submit(self, *pending: PendingPush) -> None:
        """Queue pushes together; the `answer` of each is called with the result.

        Raises:
            Busy: too much waits; nothing of these does.
            InputError: these are more than may ever wait.
        """
        self._ownership.check()
        size = sum(one.values.size for one in pending)
        if size > MOST_VALUES:  # it would be told to wait for ever
            raise InputError(f"at most {MOST_VALUES:,} values in a request: send them in parts")
        with self._news:
            if self._stopping:
                raise Busy("the service is stopping: send it to the next one")
            if (
                len(self._waiting) + len(pending) > _MOST_WAITING
                or self._values + size > MOST_VALUES
            ):
                raise Busy("too much is waiting to be released: send it again in a moment")
            self._values += size
            self._waiting.extend(pending)
            self._news.notify()

    def call(self, function: Callable[[], Result]) -> Future[Result]:
        """Run a function that changes something, in its own transaction."""
        self._ownership.check()
        waiting = _GateCall(function)
        with self._news:
            if self._stopping:
                raise Busy("the service is stopping: send it to the next one")
            self._waiting.append(waiting)
            self._news.notify()
        return waiting.answer

    def ask(self, name: str, question: Callable[[Run], Result]) -> Result:
        """Query committed data of a stream, for short questions: pushes wait meanwhile.

        Others take a view of the stream (`answers_json.view_to_answer`), and `work_out` answers
        from it.
        """
        self._ownership.check()
        with self.lock:
            if not self.streams.loaded(name):
                with self._transaction(refusable=True):
                    self.streams.run(name)
            return question(self.streams.run(name))

    async def work_out(self, answer: Callable[[], Result]) -> Result:
        """Compute an answer that may take long, in a thread that nothing else waits for."""
        return await asyncio.get_running_loop().run_in_executor(self._askers, answer)

    def spent(self, question: Callable[[Ledger], Result]) -> Result:
        """Query committed data of the ledger."""
        self._ownership.check()
        with self.lock:
            if not self.streams.ledger_open:
                with self._transaction():
                    pass  # which opens it
            return question(self.streams.ledger)

    # -- the thread ------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._news:
                while not self._waiting and not self._stopping:
                    self._news.wait()
                if not self._waiting:
                    return
                work = self._next()
            try:
                if isinstance(work, _GateCall):
                    self._called(work)
                else:
                    self._released(work)
            except Exception:  # noqa: BLE001  # out of memory between two lines, say: go on
                self._abandoned([work] if isinstance(work, _GateCall) else work)

    def _next(self) -> _GateCall[Any] | list[PendingPush]:
        """The next call, or all pushes before it."""
        first = self._waiting[0]
        if isinstance(first, _GateCall):
            self._waiting.popleft()
            return first
        group: list[PendingPush] = []
        while self._waiting:
            one = self._waiting[0]
            if isinstance(one, _GateCall):
                break
            if len(group) >= _GROUP and (one.rows is None or one.rows is not group[-1].rows):
                break  # all columns of a row go into one transaction
            self._values -= one.values.size
            group.append(one)
            self._waiting.popleft()
        return group

    def _abandoned(self, requests: Sequence[PendingPush | _GateCall[Any]]) -> None:
        """Drop memory, which may be ahead of the database, and fail waiting requests."""
        with self.lock:
            self.streams.forget()
        for one in requests:
            if not one.answer.done():
                with suppress(InvalidStateError):  # it was being answered
                    fulfil_request(one.answer, Fault())

    def _called(self, work: _GateCall[Any]) -> None:
        try:
            with self.lock, self._transaction(refusable=True):
                result = work.function()
        except TidegateError as error:
            fulfil_request(work.answer, error)
        except Exception:  # noqa: BLE001  # its words may quote what is secret
            fulfil_request(work.answer, Fault())
        else:
            fulfil_request(work.answer, result)

    def _released(self, requests: list[PendingPush]) -> None:
        while (again := self._committed(requests)) is not None:
            requests = again

    def _committed(self, requests: list[PendingPush]) -> list[PendingPush] | None:
        """Release and answer all of these; retry without those that must be tried alone."""
        group = PushGroup(self.streams, self.database)
        try:
            with self.telemetry.commit(requests, self.database.kind) as span:
                with self.lock, self._transaction():
                    group.push(requests)
                span.set_attribute("tidegate.released_rows", group.size)
        except UnevenError as error:
            for one in requests:
                if one.rows is not None and one.rows in error.refused:
                    fulfil_request(one.answer, error.refused[one.rows])
            return [one for one in requests if one.rows is None or one.rows not in error.refused]
        except Exception as error:  # noqa: BLE001  # its words may quote what is secret
            known = isinstance(error, StorageError)
            for one in requests:
                fulfil_request(one.answer, error if known else Fault())
            return None
        group.answer()
        if self.listener is not None:
            try:
                self.listener(group)
            except Exception as error:  # noqa: BLE001  # it is committed: this thread goes on
                _log.warning("a listener of the gate failed: %s", type(error).__name__)
        return None

    def _transaction(self, *, refusable: bool = False) -> _GuardedByGate:
        return _GuardedByGate(self, refusable=refusable)


class _GuardedByGate:
    """A transaction after whose failure memory is loaded from the database again.

    `refusable`: what is done in it changes memory last, so an error of ours leaves memory right,
    mostly. Where it was raised after an entry of the ledger, or a stream, had changed, memory would
    continue with what is not in the database: the next entry would follow one that is lost.

    """

    def __init__(self, gate: GateThread, *, refusable: bool) -> None:
        self._gate = gate
        self._refusable = refusable
        self._before: tuple[int, int] | None = None
        self._inner = gate.database.transaction()

    def __enter__(self) -> None:
        try:
            self._inner.__enter__()
            self._gate.streams.open_ledger()
            self._before = self._gate.streams.mark
        except BaseException as error:
            self._failed(error)
            raise

    def __exit__(self, *reason: Any) -> None:
        try:
            self._inner.__exit__(*reason)
        except BaseException as error:
            self._failed(error)
            raise
        if reason[1] is None:
            if self._gate.failure is not None:
                _log.info("changes are taken again")
            self._gate.failure = None
        else:
            self._failed(reason[1])

    def _failed(self, error: BaseException) -> None:
        refused = isinstance(error, TidegateError) and not isinstance(error, StorageError)
        streams = self._gate.streams
        if refused and self._refusable and streams.ledger_open and streams.mark == self._before:
            return
        streams.forget()
        if isinstance(error, UnevenError) or (refused and self._refusable):
            return  # the database is well
        before = self._gate.failure
        self._gate.failure = str(error) if isinstance(error, StorageError) else "a fault"
        if before is None:  # said once, not for every request
            facts = {"reason": self._gate.failure, "kind": type(error).__name__}
            _log.error("changes are refused", extra={"facts": facts})


class _GateCall(Generic[Result]):
    def __init__(self, function: Callable[[], Result]) -> None:
        self.function = function
        self.answer: Future[Result] = Future()
