"""Deliver a device's report to a service over HTTP.

Requests are made with the standard library: bounded, and without redirects.

    GET round → GET announcement → pin, then report ║ POST reports → acknowledge

Before the report is drawn a failure costs nothing. From then on the pinned report waits on the
device's disk, and is sent again by the next call: the same bytes, so it costs nothing more
(`tidegate.local.task` has the argument).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urlsplit

from tidegate.errors import RefusedError, SettingError, TidegateError
from tidegate.local.announcements_and_reports import Report
from tidegate.local.canonical_json import LONGEST, MessageError
from tidegate.local.task_messages import MISDIRECTED, REPORTS, RoundMessage, outcomes_from_json
from tidegate.randomness import random_bytes

if TYPE_CHECKING:
    from tidegate.local.client import Client

_TIMEOUT = 20.0  # seconds
_BUSY = (408, 425, 429, 500, 502, 503, 504)
_UNAUTHORIZED = (401, 403)


@dataclass(frozen=True)
class HttpAnswer:
    """The status, headers and body of a response."""

    status: int
    body: bytes
    retry_after: int | None

    @property
    def busy(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in _BUSY

    def expected(self, status: int) -> HttpAnswer:
        """This response, if it has the status; else an error."""
        if self.status == status:
            return self
        if self.status in _UNAUTHORIZED:
            raise RefusedError("token: the service does not let this device in")
        if self.status == MISDIRECTED:
            raise RefusedError(
                "url: reports of this task go to another address: its shuffler's if it has one, "
                "else the service's"
            )
        raise RefusedError(f"the service answered {self.status}, which was not expected")


def http_call(
    verb: str,
    url: str,
    body: bytes,
    kind: str,
    token: str | None,
    longest: int,
    *,
    key: str | None = None,
    more: Mapping[str, str] | None = None,
) -> HttpAnswer:
    """Make one request; raises `OSError` if there is no response.

    `key`: a second request with it is the same request. `more`: further headers.

    Redirects are not followed: a report goes where it was meant to go, and so does the token.
    """
    import http.client  # on demand: importing them is slow
    import ssl

    place = urlsplit(url)
    host, port = place.hostname or "", place.port
    if place.scheme == "https":
        context = ssl.create_default_context()
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, port, timeout=_TIMEOUT, context=context
        )
    else:
        connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
    headers = {"User-Agent": "tidegate", **(more or {})}
    if kind:
        headers["Content-Type"] = kind
    if key is not None:
        headers["Idempotency-Key"] = key
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    try:
        path = f"{place.path}?{place.query}" if place.query else place.path
        connection.request(verb, path, body or None, headers)
        found = connection.getresponse()
        again = found.headers.get("Retry-After", "")
        seconds = int(again) if again.isascii() and again.isdigit() and len(again) < 9 else None
        return HttpAnswer(found.status, found.read(longest + 1), seconds)
    except http.client.HTTPException as error:
        raise OSError(type(error).__name__) from None
    finally:
        connection.close()


Result = TypeVar("Result")
_AT_ONCE = 100  # reports in one request
_FIRST_WAIT, _LONGEST_WAIT = 0.25, 30.0  # seconds between attempts, doubled each time
_OK, _NOTHING, _CONFLICT = 200, 204, 409


class UnreachableError(TidegateError):
    """The service could not be reached. If nothing is queued, nothing was drawn or spent."""


class NotAskedError(TidegateError):
    """The service asks nobody else at present: nothing was drawn or spent.

    Attributes:
        seconds: how long to wait before asking again.
    """

    def __init__(self, seconds: int) -> None:
        super().__init__(f"the service asks nobody else now: try again in {seconds} s")
        self.seconds = seconds


@dataclass(frozen=True)
class DeliveredReport:
    """The outcome of a report.

    Attributes:
        round: of the report.
        outcome: "accepted", "duplicate" (it was taken before), "late", the reason why it was
            rejected, or "queued": it is kept on the device, and sent again by the next call.
    """

    round: str
    outcome: str

    @property
    def taken(self) -> bool:
        """Whether the service accepted it."""
        return self.outcome in ("accepted", "duplicate")


class DeliveryTask:
    """A task of a service, as its devices see it.

    Args:
        url: of the task: `https://host/v1/tasks/ID`.
        token: of a device; None: none.
        patience: for how many seconds a call tries again.
    """

    def __init__(self, url: str, token: str | None, patience: float) -> None:
        place = urlsplit(url)
        self.id = place.path.rstrip("/").rpartition("/")[2]
        if place.scheme not in ("http", "https") or not place.hostname or not self.id:
            raise SettingError("url", "must be that of a task: https://host/v1/tasks/ID")
        self._url = url.rstrip("/")
        self._token = token
        self._patience = patience

    def open_round(self) -> str:
        """The name of the round that is open."""
        answer = self._called("GET", "/round", longest=LONGEST["round"])
        message = RoundMessage.from_json(answer.expected(_OK).body)
        if message.task != self.id or not message.round.startswith(f"{self.id}."):
            raise MessageError("round: it is of another task")
        return message.round

    def announcement(self, name: str, client: str) -> bytes | None:
        """The question for a device of this name. None: the round has just closed."""
        path = f"/announcement?round={quote(name, safe='')}&client={quote(client, safe='')}"
        answer = self._called("GET", path, longest=LONGEST["announcement"])
        if answer.status == _NOTHING:
            raise NotAskedError(answer.retry_after or 1)
        return None if answer.status == _CONFLICT else answer.expected(_OK).body

    def send(self, reports: list[Report]) -> list[str]:
        """Send reports; return the outcome of each."""
        body = "\n".join(report.json() for report in reports).encode()
        answer = self._called("POST", "/reports", body, longest=LONGEST["outcomes"])
        outcomes = outcomes_from_json(answer.expected(_OK).body)
        if len(outcomes) != len(reports):
            raise MessageError("outcomes: must be one for every report")
        return outcomes

    def _called(self, verb: str, path: str, body: bytes = b"", *, longest: int) -> HttpAnswer:
        def attempt() -> HttpAnswer:
            return http_call(
                verb, self._url + path, body, REPORTS if body else "", self._token, longest
            )

        return deliver_patiently(attempt, self._patience)


def deliver_patiently(
    attempt: Callable[[], HttpAnswer],
    patience: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> HttpAnswer:
    """Retry, at growing intervals, while the service is unreachable or busy."""
    deadline, wait = clock() + patience, _FIRST_WAIT
    while True:
        try:
            answer = attempt()
            if not answer.busy:
                return answer
            problem, asked = f"the service answered {answer.status}", answer.retry_after or 0
        except OSError as error:
            problem, asked = f"{type(error).__name__}", 0
        # Between half and all of it, so that devices do not come back all at once.
        chance = 0.5 + int.from_bytes(random_bytes(2), "big") / (1 << 17)
        pause = max(min(wait, _LONGEST_WAIT) * chance, asked)
        if clock() + pause > deadline:
            raise UnreachableError(f"the service cannot be reached ({problem})") from None
        sleep(pause)
        wait *= 2


def report_to(client: Client, task: DeliveryTask, value: object, event: str) -> DeliveredReport:
    """Answer the open round of a task, and send all waiting reports."""
    name = task.open_round()
    if client.sent(name) is None:
        announcement = task.announcement(name, client.name_in(name))
        if announcement is None:
            name = task.open_round()
            announcement = task.announcement(name, client.name_in(name))
        if announcement is None:
            raise RefusedError("the service does not ask in the round that it says is open")
        client.answer(announcement, value, event=event, round=name)
    try:
        delivered = {one.round: one for one in deliver_to(client, task)}
    except UnreachableError:
        return DeliveredReport(name, "queued")
    if name in delivered:
        return delivered[name]
    known = client.sent(name)  # acknowledged by an earlier call: taken then, or refused
    if known is None:
        raise AssertionError("the round was answered")
    return DeliveredReport(name, *task.send([known]))


def deliver_to(client: Client, task: DeliveryTask) -> list[DeliveredReport]:
    """Send the reports of a task that are not acknowledged."""
    waiting = [one for one in client.unacknowledged if one.round.startswith(f"{task.id}.")]
    delivered: list[DeliveredReport] = []
    for start in range(0, len(waiting), _AT_ONCE):
        some = waiting[start : start + _AT_ONCE]
        for report, outcome in zip(some, task.send(some), strict=True):
            client.acknowledge(report.round)  # taken, or never will be
            delivered.append(DeliveredReport(report.round, outcome))
    return delivered
