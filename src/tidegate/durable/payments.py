"""The ledger is charged for what is about to be read, before it is."""

from __future__ import annotations

from itertools import islice, takewhile

from tidegate.durable.charges import costs
from tidegate.durable.folder import FolderLock
from tidegate.ledger import CapExceeded, Ledger
from tidegate.run.release import Release


class Payments:
    """What one epoch still has to pay for: its costs, in order, less those that were charged."""

    def __init__(self, ledger: Ledger, release: Release, source: str, lock: FolderLock) -> None:
        self._ledger = ledger
        self._lock = lock
        self._source = source
        self._pipeline = release.pipeline
        self._epoch = release.epoch
        charged = sum(charge.epoch == self._epoch for charge in ledger.charges())
        self._costs = islice(costs(release.pipeline), charged, None)
        self._next = next(self._costs, None)

    def check(self, count: int) -> None:
        """Refuse with `CapExceeded` if the first `count` values cannot all be paid for."""
        due = list(takewhile(lambda cost: cost.start < count, costs(self._pipeline)))
        self._ledger.check(self._source, [(cost.start, cost.end, cost.guarantee) for cost in due])

    def pay(self, seen: int, count: int) -> int:
        """Charge for `count` values after the `seen` ones; give how many of them are paid for.

        Raises:
            CapExceeded: if none are.
        """
        try:
            paid = self._pay(seen, count)
        finally:
            # Before anything leaves: what was charged is remembered outside the ledger too.
            self._lock.keep((self._ledger.count, self._ledger.head))
        return paid

    def _pay(self, seen: int, count: int) -> int:
        while (cost := self._next) is not None and cost.start < seen + count:
            try:
                self._ledger.charge(
                    source=self._source,
                    epoch=self._epoch,
                    stage=cost.stage,
                    start=cost.start,
                    end=cost.end,
                    guarantee=cost.guarantee,
                )
            except CapExceeded:
                if cost.start <= seen:
                    raise
                return cost.start - seen
            self._next = next(self._costs, None)
        return count
