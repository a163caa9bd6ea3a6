"""Forward batches: once there is enough to hide among, and the rest when the round ends."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable

from tidegate.local.report_delivery import http_call
from tidegate.local.task_messages import SHUFFLED
from tidegate.service.shuffler.shuffler_store import ShufflerStore

_log = logging.getLogger(__name__)

_TAKEN = 200  # as HTTP counts
_LONGEST = 1 << 16  # bytes of what the service says to a batch
_LAST_SHARE = 0.5  # of the grace period, after which batches of any size leave


class Forwarder:
    """Sends batches to the service until it has accepted them.

    Args:
        store: of the shuffler.
        service: its address, `https://host`.
        token: of the role shuffler.
        size: how many reports of a round make a batch.
        every: seconds between looks.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        store: ShufflerStore,
        service: str,
        token: str,
        *,
        size: int = 1000,
        every: float = 60.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._service, self._token = store, service.rstrip("/"), token
        self.size, self.every, self._clock = size, every, clock
        self.failure: str | None = None  # why the last batch was not taken
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="tidegate shuffler", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; waiting reports are on the disk."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _work(self) -> None:
        while not self._stop.is_set():
            self.look()
            self._stop.wait(self.every)

    def last_moment(self, closes: float, until: float) -> float:
        """The time from which a round's reports leave in batches of any size."""
        return closes + _LAST_SHARE * (until - closes)

    def look(self) -> None:
        """Shuffle rounds with enough reports, send batches, forget what is over."""
        now = self._clock()
        for one in self._store.waiting():
            if one.reports >= self.size or now >= self.last_moment(one.closes, one.until):
                self._store.mix(one.round)
        failure: str | None = None
        for key, mixed in self._store.batches():
            body = {
                "round": mixed.round,
                "slots": mixed.slots.tolist(),
                "reports": mixed.reports.tolist(),
            }
            task = mixed.round.rpartition(".")[0]
            try:
                status = self._sent(f"/v1/tasks/{task}/batches", json.dumps(body).encode(), key)
            except OSError as error:
                self._fail(f"the service cannot be reached ({type(error).__name__})")
                break  # the next look tries again
            if status == _TAKEN:
                self._store.taken(key)
            else:  # continue with the others: a refused one must not delay them
                failure = f"the service answered {status} to a batch"
        else:
            self._fail(failure)
        self._store.forget(now)

    def _sent(self, path: str, body: bytes, key: str) -> int:
        """Send a batch; return the status of the response."""
        where = self._service + path
        return http_call("POST", where, body, SHUFFLED, self._token, _LONGEST, key=key).status

    def _fail(self, failure: str | None) -> None:
        """Note why a batch was rejected; log it once, not every time."""
        if failure is not None and failure != self.failure:
            _log.warning("a batch was not taken: %s", failure)
        elif failure is None and self.failure is not None:
            _log.info("batches are taken again")
        self.failure = failure
