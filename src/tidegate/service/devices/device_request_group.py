"""`DeviceRequestGroup`: the requests of one transaction: look up, hand out, accept, store."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection

from tidegate.errors import RefusedError, TidegateError
from tidegate.local.announcements_and_reports import Report
from tidegate.local.shuffle import least_hidden
from tidegate.local.task.task import LEASE, Task
from tidegate.service.devices import stored_tasks
from tidegate.service.devices.device_requests import (
    ACCEPTED,
    DUPLICATE,
    DeviceAsked,
    DeviceNotNow,
    DeviceQuestion,
    DeviceReports,
    Request,
    ShuffledBatch,
    ShuffledBatchTaken,
    device_digest,
)
from tidegate.service.devices.device_statements import ADD, found_devices, mark_devices_reported
from tidegate.service.devices.stored_tasks import StoredTask
from tidegate.service.loop_wakeups import wakeups_together
from tidegate.service.pending_requests import fulfil_request

_DELTA = "1/1000000000"  # of what is said about shuffled reports, for information
Place = tuple[str, int, bytes]  # task, round, device


class DeviceRequestGroup:
    """Handles a group in the open transaction; `answer` is called once it is durable."""

    def __init__(self, connection: Connection, tasks: dict[str, StoredTask], now: float) -> None:
        self._connection = connection
        self._tasks = tasks
        self._now = now
        self._answers: list[tuple[Request, Any]] = []
        # Slot and whether it has reported, of every device of this group that was asked.
        self._devices: dict[Place, tuple[int, bool]] = {}
        self._new: set[Place] = set()
        self._reported: set[Place] = set()
        self._touched: dict[str, bool] = {}  # tasks, and whether other questions opened
        # Reports that were accepted, by task and round; added up together.
        self._taken: dict[tuple[str, int], list[tuple[int, int]]] = {}
        # Looked up once for all requests of the group: numbers of rounds with why they take no
        # reports now, by task and name; digests of devices, by name.
        self._rounds: dict[tuple[str, str], tuple[int | None, str | None]] = {}
        self._digests: dict[str, bytes] = {}

    def do(self, group: Sequence[Request]) -> None:
        """Handle all of these requests, in order."""
        self._look_up(group)
        for request in group:
            try:
                self._answers.append((request, self._done(request)))
            except TidegateError as error:  # an error of this request alone, which changed nothing
                self._answers.append((request, error))
        self._keep()

    def counts(self) -> Counter[tuple[str, str]]:
        """The numbers of devices asked (`asked`) and of reports by outcome, by task."""
        found: Counter[tuple[str, str]] = Counter()
        for request, outcome in self._answers:
            if isinstance(outcome, DeviceAsked):
                found[request.task_id, "asked"] += 1
            elif isinstance(request, DeviceReports) and isinstance(outcome, list):
                found.update((request.task_id, one) for one in outcome)
            elif isinstance(outcome, dict):
                found[request.task_id, ACCEPTED] += outcome["accepted"]
                for reason, count in outcome["rejected"].items():
                    found[request.task_id, reason] += count
        return found

    def answer(self) -> None:
        """Send the answers."""
        with wakeups_together():
            for request, outcome in self._answers:
                fulfil_request(request.answer, outcome)

    def _done(self, request: Request) -> Any:
        if isinstance(request, DeviceQuestion):
            return self._ask(request)
        if isinstance(request, DeviceReports):
            return self._receive(request)
        return self._receive_batch(request)

    def _stored(self, task_id: str) -> StoredTask:
        if task_id not in self._tasks:
            self._tasks[task_id] = stored_tasks.loaded_task(self._connection, task_id, self._now)
        return self._tasks[task_id]

    # -- who was asked ---------------------------------------------------------------------------

    def _look_up(self, group: Sequence[Request]) -> None:
        wanted: dict[tuple[str, int], set[bytes]] = {}
        for request in group:
            try:
                task = self._stored(request.task_id).task
            except TidegateError:
                continue  # it is answered when its turn comes
            for name, client in _device_names_of_request(request):
                number = self._round(request.task_id, task, name)[0]
                if number in task.rounds:
                    place = request.task_id, number
                    wanted.setdefault(place, set()).add(self._digest(client))
        for (task_id, number), names in wanted.items():
            task_key = self._stored(task_id).facts.task
            for device, slot, reported in found_devices(self._connection, task_key, number, names):
                self._devices[task_id, number, device] = slot, reported

    def _round(self, task_id: str, task: Task, name: str) -> tuple[int | None, str | None]:
        """The number of a round by its name, and the reason if it takes no reports now."""
        found = self._rounds.get((task_id, name))
        if found is None:
            number = task.number_of(name)
            found = self._rounds[task_id, name] = number, task.round_problem(number, self._now)
        return found

    def _digest(self, client: str) -> bytes:
        found = self._digests.get(client)
        if found is None:
            found = self._digests[client] = device_digest(client)
        return found

    # -- asking ----------------------------------------------------------------------------------

    def _ask(self, request: DeviceQuestion) -> DeviceAsked | DeviceNotNow:
        stored = self._stored(request.task_id)
        task, calendar = stored.task, stored.task.calendar
        number, _ = self._round(request.task_id, task, request.round)
        device = self._digest(request.client)
        known = None if number is None else self._devices.get((request.task_id, number, device))
        if known is None or number is None:
            if number != calendar.number(self._now):
                raise RefusedError("this round is not open: ask which one is")
            if stored.facts.retired is not None:
                raise RefusedError("this task was retired: nobody is asked any more")
            self._add_up(request.task_id)  # what was answered decides who is asked
            if number not in task.rounds:
                stored_tasks.resume_task_round(self._connection, stored, number)
            handed = task.hand_out(self._now)
            if handed is None:
                return DeviceNotNow(max(1, int(task.asked_last + LEASE - self._now) + 1))
            number, slot = handed
            place = request.task_id, number, device
            self._devices[place] = slot, False
            self._new.add(place)
            stored.changed.add(number)
            self._touched.setdefault(request.task_id, False)
        else:
            slot = known[0]
        text, digest = stored.announced(number, slot)
        return DeviceAsked(text, digest, calendar.closes(number), calendar.accepted_until(number))

    # -- receiving -------------------------------------------------------------------------------

    def _receive(self, request: DeviceReports) -> list[str]:
        stored = self._stored(request.task_id)
        if stored.facts.shuffled:
            raise RefusedError("the reports of this task go through a shuffler: send them to it")
        return [
            one if isinstance(one, str) else self._outcome(request.task_id, stored, one)
            for one in request.reports
        ]

    def _outcome(self, task_id: str, stored: StoredTask, report: Report) -> str:
        number, problem = self._round(task_id, stored.task, report.round)
        problem = problem or stored.task.report_problem(number, report)
        if number is None or problem is not None:
            return problem or "round"
        place = task_id, number, self._digest(report.client)
        slot, reported = self._devices.get(place, (None, False))
        if slot != report.slot:
            return "assignment"
        if reported:
            return DUPLICATE
        self._devices[place] = slot, True
        self._reported.add(place)
        self._taken.setdefault((task_id, number), []).append((slot, report.report))
        return ACCEPTED

    def _add_up(self, task_id: str) -> None:
        for place in [place for place in self._taken if place[0] == task_id]:
            self._take(task_id, place[1], self._taken.pop(place))

    def _take(self, task_id: str, number: int, taken: list[tuple[int, int]]) -> None:
        stored = self._stored(task_id)
        other = stored.task.take(number, taken)
        self._touched[task_id] = self._touched.get(task_id, False) or other
        stored.changed.add(number)

    def _receive_batch(self, request: ShuffledBatch) -> dict[str, Any]:
        """Accept at most as many reports to each question as devices were asked it."""
        stored = self._stored(request.task_id)
        if not stored.facts.shuffled:
            raise RefusedError("this task takes its reports from devices, not from a shuffler")
        body = json.dumps([request.shuffled.round, request.shuffled.slots.tolist()])
        digest = hashlib.sha256(body.encode() + request.shuffled.reports.tobytes()).hexdigest()
        key = stored.facts.task
        before = stored_tasks.stored_batch_answer(self._connection, key, request.key, digest)
        if before is not None:
            again: dict[str, Any] = json.loads(before)
            return again
        taken = self._batch(request, stored).plain()
        answer = json.dumps(taken)
        stored_tasks.keep_task_batch(self._connection, key, request.key, digest, answer)
        return taken

    def _batch(self, request: ShuffledBatch, stored: StoredTask) -> ShuffledBatchTaken:
        task, rejected = stored.task, Counter[str]()
        number = task.number_of(request.shuffled.round)
        opened = None if number is None else task.rounds.get(number)
        pairs = zip(request.shuffled.slots.tolist(), request.shuffled.reports.tolist(), strict=True)
        if opened is None or number is None or number in task.passed(self._now):
            late = number is not None and number <= task.calendar.number(self._now)
            return ShuffledBatchTaken(
                0, Counter({"late" if late else "round": len(list(pairs))}), None
            )
        room: dict[int, int] = {}
        taken: list[tuple[int, int]] = []
        for slot, report in pairs:
            asked = opened.slot(slot)
            if asked is None or not 0 <= report < asked.question.reports:
                rejected["slot" if asked is None else "domain"] += 1
                continue
            left = room.setdefault(slot, opened.unanswered(slot))
            room[slot] -= 1
            if left > 0:
                taken.append((slot, report))
            else:
                rejected["assignment"] += 1
        self._take(request.task_id, number, taken)
        used = sorted({slot for slot, _ in taken})
        counts = np.array([sum(slot == one for slot, _ in taken) for one in used], dtype=np.int64)
        epsilons = [one.epsilon for one in map(opened.slot, used) if one is not None]
        hidden = least_hidden(epsilons, counts, _DELTA)
        return ShuffledBatchTaken(len(taken), rejected, None if hidden is None else str(hidden))

    # -- keeping ---------------------------------------------------------------------------------

    def _keep(self) -> None:
        for task_id in {place[0] for place in self._taken}:
            self._add_up(task_id)
        rows = [
            {
                "task": self._stored(place[0]).facts.task,
                "number": place[1],
                "device": place[2],
                "slot": self._devices[place][0],
                "reported": int(self._devices[place][1]),
            }
            for place in self._new
        ]
        if rows:
            self._connection.execute(ADD, rows)
        by_round: dict[tuple[str, int], list[bytes]] = {}
        for task_id, number, device in self._reported - self._new:
            by_round.setdefault((task_id, number), []).append(device)
        for (task_id, number), names in by_round.items():
            mark_devices_reported(self._connection, self._stored(task_id).facts.task, number, names)
        for task_id, other_questions in self._touched.items():
            stored = self._stored(task_id)
            stored_tasks.save_task(
                self._connection, stored, self._now, other_questions=other_questions
            )


def _device_names_of_request(request: Request) -> list[tuple[str, str]]:
    """The round and the name of every device in a request."""
    if isinstance(request, DeviceReports):
        return [(one.round, one.client) for one in request.reports if isinstance(one, Report)]
    return [(request.round, request.client)] if isinstance(request, DeviceQuestion) else []
