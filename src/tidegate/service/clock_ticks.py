"""Close ticks of event streams by the service's own clock, whether events come or not.

When a tick is closed depends on the clock and on public settings alone: its end, and the grace in
which late events still count. So nothing is learnt from it. An event that comes later goes nowhere.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from tidegate.clock import SECOND
from tidegate.errors import TidegateError
from tidegate.service.gate import GateThread
from tidegate.service.pending_requests import NO_VALUES, PendingPush
from tidegate.service.stored_stream import StoredStream
from tidegate.service.stream_kinds import MOST_TICKS

_log = logging.getLogger(__name__)
_PAUSE = 0.5  # seconds between two looks at the clock


class ClockTicks:
    """Closes ticks when they are over.

    Args:
        gate: that releases them.
        clock: seconds since 1970.
    """

    def __init__(self, gate: GateThread, clock: Callable[[], float] = time.time) -> None:
        self._gate, self._clock = gate, clock
        self._closed: dict[str, int] = {}  # ticks of each stream, as far as this process knows

    async def run(self) -> None:
        """Release ticks until cancelled. Whatever fails is tried again next time."""
        while True:
            for stream in self._gate.streams.closed_by_clock():
                try:
                    await self.close_due(stream)
                except TidegateError as error:
                    _log.warning("ticks of a stream wait: %s", type(error).__name__)
            await asyncio.sleep(_PAUSE)

    async def close_due(self, stream: StoredStream) -> None:
        """Close the ticks of a stream that are over, including their grace period."""
        ticks = stream.pipeline.ticks
        if ticks is None or stream.grace is None:
            return
        keys = 1 if stream.keys is None else len(stream.keys["names"] or ())
        most = max(1, MOST_TICKS // max(1, keys) // 2)
        due = ticks.complete(_clock_time(self._clock() - stream.grace))
        closed = self._closed.get(stream.name, 0)
        while closed < due:
            closed = min(due, closed + most)
            end = (ticks.origin + closed * ticks.length) / SECOND
            pending = PendingPush(stream.name, NO_VALUES, until=_clock_time(end))
            self._gate.submit(pending)
            await asyncio.wrap_future(pending.answer)
            self._closed[stream.name] = closed


def _clock_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
