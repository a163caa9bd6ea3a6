"""Requests of devices and shufflers as the queue holds them, and their answers."""

from __future__ import annotations

import hashlib
from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from tidegate.local.announcements_and_reports import Report
from tidegate.local.shuffle import Shuffled
from tidegate.service.loop_wakeups import LoopAnswer

ACCEPTED, DUPLICATE = "accepted", "duplicate"


@dataclass(frozen=True)
class DeviceAsked:
    """The question for a device.

    Attributes:
        text: the announcement, as it goes over the wire.
        digest: of it.
        closes, accepted_until: of the round, in seconds since 1970.
    """

    text: str
    digest: str
    closes: int
    accepted_until: int


@dataclass(frozen=True)
class DeviceNotNow:
    """Nobody else is asked at present: retry after this many seconds."""

    seconds: int


@dataclass(eq=False)
class DeviceQuestion:
    """A request of a device of this name for its question in a round."""

    task_id: str
    round: str
    client: str
    answer: Future[DeviceAsked | DeviceNotNow] | LoopAnswer = field(default_factory=Future)


@dataclass(eq=False)
class DeviceReports:
    """Parsed reports, or why they could not be parsed; answered with an outcome for each."""

    task_id: str
    reports: list[Report | str]
    answer: Future[list[str]] | LoopAnswer = field(default_factory=Future)


@dataclass(frozen=True)
class ShuffledBatchTaken:
    """The outcome of a shuffler's batch.

    Attributes:
        accepted: how many reports were taken.
        rejected: how many were not, by reason.
        shuffled: what each costs in the central model, in words, for information.
    """

    accepted: int
    rejected: Counter[str]
    shuffled: str | None

    def plain(self) -> dict[str, Any]:
        """The outcome as plain data."""
        return {
            "accepted": self.accepted,
            "rejected": dict(self.rejected),
            "shuffled": self.shuffled,
        }


@dataclass(eq=False)
class ShuffledBatch:
    """A shuffler's reports, without names; a batch with the same `request_id` is a repetition."""

    task_id: str
    key: str
    shuffled: Shuffled
    answer: Future[dict[str, Any]] = field(default_factory=Future)


Request = DeviceQuestion | DeviceReports | ShuffledBatch


def device_digest(client: str) -> bytes:
    """The stored digest of a device's name in a round."""
    return hashlib.blake2b(client.encode(), digest_size=16).digest()
