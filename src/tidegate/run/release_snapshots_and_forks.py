"""Snapshots, forks and journal entries of a release: how its state is saved and restored."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NoReturn, Self

from tidegate.errors import TidegateError
from tidegate.guarantee import Guarantee, cost
from tidegate.lattice import IntArray
from tidegate.ownership import Ownership
from tidegate.randomness import Epoch, Randomness, secure
from tidegate.record.segments.journal_entry import JournalEntry
from tidegate.run.readable_release import ReadableRelease
from tidegate.run.snapshot import opened_snapshot, sealed_snapshot

if TYPE_CHECKING:
    from tidegate.run.pipeline import Pipeline


class SnapshotsAndForks(ReadableRelease):
    """The side of a `Release` that saves, resumes and forks. No two releases share noise."""

    _keeps_journal: bool

    if TYPE_CHECKING:  # as `Release` does

        def __init__(
            self, pipeline: Pipeline, epoch: Epoch, *, ownership: Ownership, **begin: Any
        ) -> None: ...

    @abstractmethod
    def _hold(self, units: IntArray) -> None:
        """Hold values for the choice of θ; choose once there are enough."""

    def snapshot(
        self, key: bytes | None = None, *, brief: bool = False, users: bool = True
    ) -> bytes:
        """The whole state. As secret as the raw data: give a 32-byte key to seal it.

        Single-use: what continues from it continues *this* epoch's noise. Two continuations that
        see different values publish the same noise on both, and their difference is raw data. To
        branch, use `fork`. A `brief` snapshot leaves out the record of the past: its release
        continues alike, but answers queries about later values only. Without `users` it leaves out
        how often each user was counted, for a caller that stores `user_cap` itself.
        """
        with self._ownership.lock:
            self._ownership.check()
            state = {
                "seen": self._seen,
                "origin": self._origin,
                "held": self._holdout.units,
                "charges": [charge.plain() for charge in self._charges],
                "cap": self._cap and users and self._cap.state(),
                "run": self._run and self._run.state(brief),
                "times": self._timeline and self._timeline.state(brief),
            }
            return sealed_snapshot(self.pipeline, self._epoch, self.position, state, key)

    @classmethod
    def _resumed(cls, pipeline: Pipeline, data: bytes, key: bytes | None) -> Self:
        ownership = Ownership()  # before the secret is read: see there
        pipeline, epoch, state = opened_snapshot(pipeline, data, key)
        charges = [Guarantee.from_plain(charge) for charge in state["charges"]]
        origin, run = state["origin"], state["run"]
        release = cls(
            pipeline, epoch, ownership=ownership, origin=origin, charges=charges, state=run
        )
        release._seen = state["seen"]
        if state["times"]:
            from tidegate.run.timeline import Timeline  # on demand: few streams have times

            release._timeline = Timeline.restored(state["times"])
        if release._cap is not None and state["cap"]:
            release._cap.restore(state["cap"])
        if state["held"].size:
            release._hold(state["held"])
        return release

    def fork(self, randomness: Randomness | None = None) -> Self:
        """Fork safely: a second release from here on, with a new epoch and new noise.

        Both branches may see the same values, so the fork's cost is added to the guarantee of both:
        the stream's ε, or everything while θ is not chosen yet. (If one of them is a simulation,
        none of them has a guarantee. Branches know of each other within one process only; beyond, a
        ledger must add them up.) Both continue the counts of users (`tidegate.run.user_cap`). The
        fork starts a new forest at the present position; the original answers about the past. If a
        warm-up is open, the fork begins its own there, and reads nothing of the past. If `fork` is
        interrupted its charge may stay: then too much is counted, never too little.
        """
        with self._ownership.lock:
            self._ownership.check()
            ownership = Ownership()
            epoch = (randomness or secure()).new_epoch()
            run = self._run
            spent = self.pipeline.stream_guarantee if run else self.pipeline.guarantee
            self._charges.append(cost(spent, simulation=epoch.simulation))
            branch = type(self)(
                self.pipeline,
                epoch,
                ownership=ownership,
                ends=run.ends if run else None,
                evidence=run.evidence if run else 0,
                origin=self.position,
                charges=self._charges,
            )
            branch._seen = self._seen
            branch._cap = self._cap and self._cap.branch()
            branch._timeline = self._timeline and self._timeline.branch()
            if self._holdout.units.size:
                branch._hold(self._holdout.units)
            return branch

    def journal_entries(self) -> list[JournalEntry]:
        """What was released since the last call, for a journal; the first call starts the log."""
        ownership, began = self._ownership, False
        try:
            with ownership.lock:
                ownership.begin()  # entries that are taken but not returned are lost
                began = True
                self._keeps_journal, run = True, self._run
                entries: list[JournalEntry] = []
                if run is not None:
                    entries, run.log = run.log or [], []
                ownership.done()
                return entries
        except BaseException:
            if began:
                ownership.refuse()
            raise

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TidegateError(
            "a release cannot be copied or pickled (two copies would share noise): "
            "use snapshot() to continue it elsewhere, fork() to branch"
        )
