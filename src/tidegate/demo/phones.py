"""Phones of the made-up city: each perturbs its own number, and the service sees only that.

Every minute of the clock is a round, in which each phone reports once how long its owner was on the
way.
"""

from __future__ import annotations

import time
from contextlib import suppress

from tidegate.demo.city import minutes_on_the_way
from tidegate.errors import TidegateError
from tidegate.local.client import Client
from tidegate.local.topl import Topl
from tidegate.service.client import Gate

PHONES = 240
_ROUND = 60.0  # seconds
_BOUND, _MOST = 180, 90  # minutes that count, and those that few exceed


class Phones:
    """A fleet, and the task that it answers.

    Args:
        gate: with an administrator's token.
        address: of the service.
    """

    def __init__(self, gate: Gate, address: str, count: int = PHONES) -> None:
        topl = Topl(epsilon=2, bound=_BOUND, threshold=_MOST)
        new = {"name": "minutes-on-the-way", "epsilon": "2", "bound": _BOUND, "every": "1min"}
        new |= {"population": count, "settings": {"threshold": _MOST}}
        task = gate.call("POST", "/v1/tasks", "manage", content=new)
        made = {"role": "device", "label": "phones of the demo"}
        self._token = gate.call("POST", "/v1/tokens", "manage", content=made)["token"]
        self.url = f"{address}/v1/tasks/{task['task_id']}"
        self._clients: list[Client] = [topl.client() for _ in range(count)]
        self._days = minutes_on_the_way(count)

    def report(self, pause: float = 0.0) -> int:
        """Let every phone report once; how many were taken."""
        taken = 0
        for client, minutes in zip(self._clients, next(self._days), strict=True):
            with suppress(TidegateError):  # a round that is full, or just over: the next one comes
                taken += client.report(self.url, minutes, token=self._token).taken
            time.sleep(pause)
        return taken

    def run(self) -> None:
        """For ever, one round after the other."""
        while True:
            self.report(_ROUND / len(self._clients))
