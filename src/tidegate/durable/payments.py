"""The ledger is charged for what is about to be read, before it is."""

from __future__ import annotations

from itertools import islice

from tidegate.durable.charges import costs
from tidegate.ledger import CapExceeded, Ledger
from tidegate.release import Release


class Payments:
    """What one epoch still has to pay for: its costs, in order, less those that were charged."""

    def __init__(self, ledger: Ledger, release: Release, source: str) -> None:
        self._ledger = ledger
        self._source = source
        self._epoch = release.epoch
        charged = sum(charge.epoch == self._epoch for charge in ledger.charges())
        self._costs = islice(costs(release.pipeline), charged, None)
        self._next = next(self._costs, None)

    def pay(self, seen: int, count: int) -> int:
        """Charge for `count` values after the `seen` ones; give how many of them are paid for.

        Raises:
            CapExceeded: if none are.
        """
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
