"""Limits that are checked before anything is locked: how often, how large, how slow."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

_MOST_KNOWN = 4096  # tokens that are counted one by one


@dataclass
class Limits:
    """What one client may ask of the service.

    Attributes:
        rate: requests in a second, for each token; None: as many as come. Without a token: all
            clients together, a tenth of it at least.
        burst: seconds of this rate that may come at once.
        body: bytes of a request.
        patience: seconds until the next piece of a body must come.
    """

    rate: float | None = None
    burst: float = 2.0
    body: int = 64 << 20
    patience: float = 30.0
    _left: dict[str, tuple[float, float]] = field(default_factory=dict, repr=False)

    def wait(self, who: str) -> float:
        """0: go on; else the seconds after which this client may ask again.

        A token bucket: it fills at the rate, and holds what a burst may use.
        """
        if self.rate is None:
            return 0.0
        now, room = time.monotonic(), max(1.0, self.rate * self.burst)
        left, before = self._left.get(who, (room, now))
        left = min(room, left + (now - before) * self.rate)
        if left < 1.0:
            self._left[who] = (left, now)
            return (1.0 - left) / self.rate
        if who not in self._left and len(self._left) >= _MOST_KNOWN:
            self._left.clear()  # who waits begins with a full bucket: no more than one burst each
        self._left[who] = (left - 1.0, now)
        return 0.0
