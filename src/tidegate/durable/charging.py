"""Charge the ledger for input positions before they are read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path

from tidegate.durable.folder_lock import FolderLock, StateError
from tidegate.durable.state_file import COLUMNS
from tidegate.durable.state_stores import StoredAnchors
from tidegate.errors import SettingError
from tidegate.guarantee import Guarantee, sequential
from tidegate.ledger import CapExceeded, Ledger
from tidegate.run import two_sided_caps
from tidegate.run.pipeline import Pipeline


@dataclass(frozen=True)
class ChargedCost:
    """The cost of a stage that reads the input positions [start, end); `end` None: no end."""

    stage: str
    start: int
    end: int | None
    guarantee: Guarantee


def charged_costs(pipeline: Pipeline) -> Iterator[ChargedCost]:
    """Every cost of a release, in the order in which it is due.

    Their maximum over positions of the sum is the pipeline's guarantee: hold-out and stream are
    disjoint; the values of a later selection are also released (shared), or are withheld from the
    stream (blocked). Where the perturber protects the unit itself, a unit may lie across hold-out
    and stream: one cost for both, from the first value on.
    """
    schedule, block = pipeline.schedule, pipeline.perturber.block
    if pipeline.native or schedule.releases_warm_up:  # a value may pay for a choice and for sums
        yield ChargedCost("stream", 0, None, pipeline.guarantee)
        return
    widen = pipeline.unit.widen
    holdout = pipeline.holdout
    if holdout:
        yield ChargedCost("threshold", 0, holdout, widen(pipeline.choice_guarantee))
    stream = widen(pipeline.perturber.guarantee)
    rule = schedule.later_rule(pipeline.threshold)
    selection = widen(two_sided_caps.guarantee(rule, pipeline.lattice))
    if not schedule.withholds:
        yield ChargedCost("stream", holdout, None, stream)
    number, begun = 0, 0
    while True:
        opening, switch = schedule.opening(number, block), schedule.switch(number, block)
        if schedule.withholds:
            end = None if opening is None else holdout + opening
            if end is None or end > holdout + begun:
                yield ChargedCost("stream", holdout + begun, end, stream)
        if opening is None or switch is None:
            return
        yield ChargedCost("threshold", holdout + opening, holdout + switch, selection)
        number, begun = number + 1, switch


def charged_costs_together(pipelines: Sequence[Pipeline]) -> Iterator[ChargedCost]:
    """The costs of several releases of the same rows: stage by stage, in sequential composition.

    One row has one value in each; whoever replaces the row replaces all of them. Each release is
    private by itself, with noise of its own, so the costs at a position add up.
    """
    for stages in zip(*(charged_costs(pipeline) for pipeline in pipelines), strict=True):
        first = stages[0]
        if any((one.start, one.end) != (first.start, first.end) for one in stages):
            raise SettingError("column", "all must have the same hold-out and schedule")
        together = sequential(*(one.guarantee for one in stages))
        yield ChargedCost(first.stage, first.start, first.end, together)


class Charging:
    """Charges the costs of one epoch in order, skipping those already charged."""

    def __init__(
        self,
        ledger: Ledger,
        of: Callable[[], Iterator[ChargedCost]],
        epoch: str,
        source: str,
        lock: StoredAnchors,
        *,
        part: str = "",
    ) -> None:
        self._ledger, self._lock, self._all = ledger, lock, of
        self._source, self._part, self._epoch = source, part, epoch
        self._charged = sum(charge.epoch == epoch for charge in ledger.charges(source))
        self._costs = islice(of(), self._charged, None)
        self._next = next(self._costs, None)

    @property
    def own(self) -> Charging:
        """The object that charges for this release alone."""
        return self

    def check(self, count: int) -> None:
        """Refuse with `CapExceeded` if the cap does not allow the first `count` values."""
        due = list(takewhile(lambda cost: cost.start < count, self._all()))
        charges = [(cost.start, cost.end, cost.guarantee) for cost in due]
        self._ledger.check(self._source, charges, part=self._part)

    def due(self, count: int) -> list[tuple[int, int | None, Guarantee]]:
        """The costs of the first `count` values that are not charged yet (`Ledger.check`)."""
        if self._next is None or self._next.start >= count:
            return []
        due = takewhile(lambda cost: cost.start < count, islice(self._all(), self._charged, None))
        return [(cost.start, cost.end, cost.guarantee) for cost in due]

    def charge(self, seen: int, count: int) -> int:
        """Charge for `count` values after the first `seen`; return how many the cap allows.

        Raises:
            CapExceeded: if it allows none.
        """
        try:
            allowed = self._charge(seen, count)
        finally:
            # Before anything leaves: what was charged is remembered outside the ledger too.
            self._lock.keep((self._ledger.count, self._ledger.head))
        return allowed

    def begin(self, *, counted: bool) -> None:
        """Charge a stream with a protected number of rows when its state is created or opened.

        Privacy: the ledger is readable, and each of its lines has a time. Readings are charged with
        the first of them, whose arrival is public; of events, and of rows that are dropped unless
        their key was declared, the first one would show. Where the cap does not allow it, every
        push and every tick is refused, with or without events. It is charged at the next opening
        then, once the cap does; so is a state that was killed between its first commit and this.
        """
        if not counted:
            with suppress(CapExceeded):
                self.charge(0, 1)

    def charge_rows(self, seen: int, count: int, *, counted: bool) -> int:
        """Charge for rows that were read; if the number is not `counted`, for any number."""
        if counted:
            return self.charge(seen, count)
        self.charge(0, 1)
        return count

    def _charge(self, seen: int, count: int) -> int:
        while (cost := self._next) is not None and cost.start < seen + count:
            try:
                self._ledger.charge(
                    source=self._source, part=self._part, epoch=self._epoch, **vars(cost)
                )
            except CapExceeded:
                if cost.start <= seen:
                    raise
                return cost.start - seen
            self._charged += 1
            self._next = next(self._costs, None)
        return count


def charging_in(folder: Path, own: Charging) -> Charging:
    """What charges for the release in a folder: nothing, if it is one column of several."""
    return ChargingOneColumn(own, folder) if _is_column(folder) else own


def refuse_column_alone(folder: Path) -> None:
    """Refuse to begin one column of several anew by itself: its state would be lost for nothing.

    Who opens all columns holds the lock of the folder above.
    """
    if not _is_column(folder):
        return
    lock = FolderLock(folder.resolve().parent)
    try:
        lock.acquire()
    except StateError:
        return
    lock.release()
    raise _column_is_charged_with_all(folder)


def _is_column(folder: Path) -> bool:
    """Whether a folder holds one column of several; also under another name (a link)."""
    return (folder.resolve().parent / COLUMNS).exists()


def _column_is_charged_with_all(folder: Path) -> StateError:
    return StateError(
        f"{folder} is one column of the state in {folder.resolve().parent}, whose ledger counts "
        "all of them: open that"
    )


class ChargingOneColumn(Charging):
    """Charging for a column of several that was opened alone: to show, rekey or erase it.

    It takes no value: what it cost would be missing in the ledger of all columns.
    """

    def __init__(self, own: Charging, folder: Path) -> None:
        self._own, self._folder = own, folder

    @property
    def own(self) -> Charging:
        """The object that charges the column when all columns are open."""
        return self._own

    def check(self, count: int) -> None:
        """Refuse: a column alone must not be charged."""
        raise _column_is_charged_with_all(self._folder)

    def charge(self, seen: int, count: int) -> int:
        """Refuse: a column alone must not be charged."""
        self.check(count)
        return 0


class ChargingAllColumns(Charging):
    """Charging for one column of several: a push is charged to the sum of all columns first.

    Without it a push to the run of a column went around the ledger of the columns, and its cap.
    """

    def __init__(self, alone: Charging, together: Charging, turn: threading.Lock) -> None:
        self._own, self._together, self._turn = alone.own, together, turn

    def check(self, count: int) -> None:
        """Check the caps of all columns and of this one."""
        self._together.check(count)
        self._own.check(count)

    def charge(self, seen: int, count: int) -> int:
        """Charge all columns and this one; what was charged before costs nothing again."""
        with self._turn:
            allowed = self._together.charge(seen, count)
        return self._own.charge(seen, allowed)
