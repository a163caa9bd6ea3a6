"""The queue of devices' requests: a group at a time, each group in one transaction.

While a group is being committed, others wait and form the next one. Answers leave after the commit.
If it fails, nothing was handed out or taken, and memory is read from the database again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from tidegate.errors import TidegateError
from tidegate.service.devices import device_tables, stored_tasks
from tidegate.service.devices.device_request_group import DeviceRequestGroup
from tidegate.service.devices.device_requests import Request
from tidegate.service.devices.stored_tasks import StoredTask, TaskFacts
from tidegate.service.gate import GateThread
from tidegate.service.loop_wakeups import wakeups_together
from tidegate.service.pending_requests import Busy, fulfil_request

Result = TypeVar("Result")
_log = logging.getLogger(__name__)
_GROUP = 2048  # requests in a transaction
_MOST_WAITING = 8192


class DeviceQueue:
    """Owns the tasks in memory; only the gate's thread touches them.

    Args:
        gate: whose thread and transactions are used.
        clock: the time, in seconds since 1970.
    """

    def __init__(self, gate: GateThread, clock: Callable[[], float] = time.time) -> None:
        self.gate = gate
        self.clock = clock
        self._tasks: dict[str, StoredTask] = {}
        self._facts: dict[str, TaskFacts] = {}  # of tasks that are committed
        self._lock = threading.Lock()
        self._waiting: list[Request] = []
        self._group: list[Request] = []  # that is being committed
        self._busy = False
        self.listener: Callable[[DeviceRequestGroup], None] | None = (
            None  # called with what was committed
        )
        gate.call(lambda: device_tables.create(gate.database.connection)).result()

    # -- from any thread -------------------------------------------------------------------------

    def submit(self, request: Request) -> None:
        """Queue a request; its `answer` is called with the result.

        Raises:
            Busy: too much waits.
        """
        with self._lock:
            if len(self._waiting) >= _MOST_WAITING:
                raise Busy("too many devices are waiting: send it again in a moment")
            self._waiting.append(request)
            begin, self._busy = not self._busy, True
        if begin:
            self._begin()

    def known(self, task_id: str) -> TaskFacts | None:
        """The public facts of a task, if they are in memory."""
        return self._facts.get(task_id)

    def facts(self, task_id: str) -> TaskFacts:
        """The public facts of a task."""
        known = self._facts.get(task_id)
        if known is None:
            with self.gate.database.reading() as connection:
                known = stored_tasks.found_task(connection, task_id)
            self._facts[task_id] = known
        return known

    def listed(self) -> list[TaskFacts]:
        """All tasks, by name."""
        with self.gate.database.reading() as connection:
            return stored_tasks.listed_tasks(connection)

    def create(self, facts: TaskFacts) -> Future[TaskFacts]:
        """Begin a task."""

        def work() -> TaskFacts:
            stored_tasks.create_task(self._connection, facts, self.clock())
            return stored_tasks.found_task(self._connection, facts.task_id)

        return self.gate.call(work)

    def retire(self, task_id: str) -> Future[TaskFacts]:
        """Ask no more devices."""

        def work() -> TaskFacts:
            return stored_tasks.retire_task(self._connection, task_id, self.clock())

        done = self.gate.call(work)
        done.add_done_callback(lambda _: self._forget(task_id))
        return done

    # -- in the gate's thread --------------------------------------------------------------------

    @property
    def _connection(self) -> Any:
        return self.gate.database.connection

    def _forget(self, task_id: str) -> None:
        self._tasks.pop(task_id, None)
        self._facts.pop(task_id, None)

    def _begin(self) -> None:
        try:
            self.gate.call(self._work).add_done_callback(self._committed)
        except TidegateError as error:  # the gate is closing
            self._refuse(error)

    def _work(self) -> DeviceRequestGroup:
        with self._lock:
            self._group, self._waiting = self._waiting[:_GROUP], self._waiting[_GROUP:]
        working = DeviceRequestGroup(self._connection, self._tasks, self.clock())
        working.do(self._group)
        return working

    def _committed(self, done: Future[DeviceRequestGroup]) -> None:
        error = done.exception()
        if error is None:
            self._group = []
            working = done.result()
            working.answer()
            if self.listener is not None:
                try:
                    self.listener(working)
                except Exception as error:  # noqa: BLE001  # or nobody is served any more
                    _log.warning("a listener of the queue failed: %s", type(error).__name__)
            with self._lock:
                self._busy = bool(self._waiting)
            if self._busy:
                self._begin()
        else:
            self._tasks = {}  # memory may be ahead of the database
            self._refuse(error)

    def _refuse(self, error: BaseException) -> None:
        """Refuse all requests of a group: devices send them again."""
        with self._lock:
            refused = self._group + self._waiting
            self._group, self._waiting, self._busy = [], [], False
        with wakeups_together():
            for one in refused:
                fulfil_request(one.answer, error)
