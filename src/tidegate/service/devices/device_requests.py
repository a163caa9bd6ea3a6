"""What devices and shufflers ask for, as the queue holds it, and what they are answered."""

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
    """What a device is asked.

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
    """Nobody else is asked at the moment: ask again after this many seconds."""

    seconds: int


@dataclass(eq=False)
class DeviceQuestion:
    """A device of this name wants to know what it is asked in a round."""

    task_id: str
    round: str
    client: str
    answer: Future[DeviceAsked | DeviceNotNow] | LoopAnswer = field(default_factory=Future)


@dataclass(eq=False)
class DeviceReports:
    """Reports, each as it was read, or why it could not be; answered with an outcome each."""

    task_id: str
    reports: list[Report | str]
    answer: Future[list[str]] | LoopAnswer = field(default_factory=Future)


@dataclass(frozen=True)
class ShuffledBatchTaken:
    """What became of a shuffler's batch.

    Attributes:
        accepted: how many reports were taken.
        rejected: how many were not, by reason.
        shuffled: what each costs in the central model, in words, for information.
    """

    accepted: int
    rejected: Counter[str]
    shuffled: str | None

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "accepted": self.accepted,
            "rejected": dict(self.rejected),
            "shuffled": self.shuffled,
        }


@dataclass(eq=False)
class ShuffledBatch:
    """Reports of a shuffler, without names; its second one with the same `request_id` is it."""

    task_id: str
    key: str
    shuffled: Shuffled
    answer: Future[dict[str, Any]] = field(default_factory=Future)


Request = DeviceQuestion | DeviceReports | ShuffledBatch


def device_digest(client: str) -> bytes:
    """What is kept of the name of a device in a round."""
    return hashlib.blake2b(client.encode(), digest_size=16).digest()
