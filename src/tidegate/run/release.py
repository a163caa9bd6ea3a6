"""The run: raw values in, private values out, online and for ever.

push → lattice → hold-out → Threshold.choose → θ
               → PerturberRun.push → Noisy ║ Publisher → output
                                           ║ Record → query
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidegate.errors import TidegateError
from tidegate.guarantee import Guarantee, cost
from tidegate.lattice import FloatArray, IntArray
from tidegate.ownership import Ownership
from tidegate.randomness import Epoch, Randomness, secure
from tidegate.record.entry import JournalEntry
from tidegate.run.phases import Phases
from tidegate.run.reading import ReadableRelease
from tidegate.run.refined import Refined
from tidegate.run.snapshot import opened_snapshot, sealed_snapshot
from tidegate.run.user_cap import cap_of, checked_users
from tidegate.run.warm_up import HoldOut
from tidegate.settings import digest

if TYPE_CHECKING:
    from tidegate.run.pipeline import Pipeline

# Values handled at once: small enough to stay in the cache, large enough to hide fixed costs.
_PIECE = 1 << 16
_SCALARS = (np.generic, Decimal, Fraction, str, bytes, type(None), bool)


class Release(ReadableRelease):
    """A pipeline at work on one stream. Made by `Pipeline.start`, `Pipeline.resume` or `fork`.

    Holds raw values (the hold-out, the open block's sum) and the noise key: as secret as the data.
    Its `repr` shows public facts only; it can be neither pickled nor copied.

    Interruptions. A push is taken whole and its values are returned, or the release refuses to go
    on (`tidegate.ownership`): after any exception but a refused input, whatever raised it, `push`,
    `fork`, `snapshot` and queries raise `TidegateError`. Resume the last snapshot and push the same
    values again. Privacy: a retry can never count an event twice, nor noise meet two data.
    A signal handler should set a flag and not raise: an exception that arrives after `push` has
    returned, before its values are assigned, is beyond the release; `seen` tells what was taken.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        epoch: Epoch,
        *,
        ownership: Ownership,
        threshold: int | None = None,
        known: int = 0,
        origin: int = 0,
        charges: list[Guarantee] | None = None,
        state: dict[str, Any] | None = None,
    ) -> None:
        self.pipeline = pipeline
        self._epoch = epoch
        self._lattice = pipeline.lattice
        # Shared by all branches of one source; the first entry is the original release.
        if charges is None:
            charges = [cost(pipeline.guarantee, simulation=epoch.simulation)]
        self._charges = charges
        self._stated = 0, ""  # the guarantee as text, and after how many charges
        self._origin = origin
        self._seen = origin  # inputs taken, the hold-out included
        self._holdout = HoldOut(pipeline.holdout)
        self._ownership = ownership
        self._keeps_journal = False  # someone keeps a journal
        self._cap = cap_of(pipeline.unit)
        self._run: Phases | Refined | None = None
        if pipeline.warm_up:
            start: dict[str, Any] = {"threshold": threshold, "known": known, "state": state}
            self._run = Refined(pipeline, epoch, origin, **start)
        elif threshold is not None:
            self._run = Phases(pipeline, epoch, origin, threshold=threshold)
        elif state is not None:
            self._run = Phases(pipeline, epoch, origin, state=state)
        if self._run is None and pipeline.holdout == 0:
            self._choose_threshold()

    # -- data ------------------------------------------------------------------------------------

    @overload
    def push(
        self, values: float | Decimal | Fraction | None, users: Any = None
    ) -> float | None: ...

    @overload
    def push(self, values: ArrayLike, users: Any = None) -> FloatArray: ...

    def push(self, values: Any, users: Any = None) -> FloatArray | float | None:
        """Take one value or an array of values; give one private value for each.

        Nothing comes out during the hold-out: None for a single value, an array that is shorter by
        what was held. Splitting a stream into pushes in another way changes nothing (law 1). If an
        input is refused, none of this push was taken. `users` names who sent each value; needed if,
        and only if, the pipeline protects users.
        """
        ownership, kind = self._ownership, type(values)
        began = False
        try:
            with ownership.lock:
                single = kind is int or kind is float or isinstance(values, _SCALARS)
                if kind is np.ndarray and values.ndim == 0:
                    values, single = values.item(), True
                if single and users is None and self._cap is None:
                    unit = self._lattice.unit(values, self._seen)
                    ownership.begin()
                    began = True
                    one = self._take_one(unit)
                    ownership.done()
                    return one
                if single:
                    values, users = [values], None if users is None else [users]
                numbers = self._lattice.numbers(values, self._seen)
                names = checked_users(
                    users, numbers.size, needed=self._cap is not None, position=self._seen
                )
                ownership.begin()
                began = True
                out = self._take(numbers, names)
                result = (out.item() if out.size else None) if single else out
                ownership.done()
                return result
        except BaseException:
            if began:  # cut short, or complete but not handed over: the same to the caller
                ownership.refuse()
            raise

    def _take(self, numbers: NDArray[Any], users: Sequence[str | None] | None) -> FloatArray:
        start = min(self.holding, numbers.size)
        out = np.zeros(numbers.size - start)  # never memory that may hold something else
        self._seen += numbers.size
        if start:
            self._hold(self._units(numbers, users, 0, start, window=0))
        at = start
        while self._run is not None and at < numbers.size:
            window, room = divmod(self.position, self.pipeline.perturber.horizon)
            most = self.pipeline.perturber.horizon - room if self._cap else _PIECE
            end = at + self._run.reach(min(_PIECE, most, numbers.size - at))
            units = self._units(numbers, users, at, end, window=1 + window)
            self._run.push(units, out[at - start : end - start])
            at = end
        return out

    def _units(
        self, numbers: NDArray[Any], users: Any, start: int, end: int, window: int
    ) -> IntArray:
        units = self._lattice.units(numbers[start:end])
        return units if self._cap is None else self._cap.apply(units, users[start:end], window)

    def _take_one(self, unit: int) -> float | None:
        self._seen += 1
        if self._run is not None:
            return self._run.push_one(unit)
        self._hold(np.array([unit]))
        return None

    def _hold(self, units: IntArray) -> None:
        """Keep values for the choice of θ; choose when there are enough."""
        self._holdout.add(units)
        if not self._holdout.missing:
            self._choose_threshold()

    def _choose_threshold(self) -> None:
        keystream = self._epoch.keystream("threshold", digest(self.pipeline.resolved()))
        threshold = self.pipeline.threshold.choose(self._holdout.units, self._lattice, keystream)
        self._run = Phases(self.pipeline, self._epoch, self._origin, threshold=threshold)
        self._run.log = [] if self._keeps_journal else None
        self._holdout.wipe()

    def finish(self) -> None:
        """End an open warm-up now, from the values that came: for a stream that is over.

        θ is chosen and the sum of these values is measured, both within the ε that they have. Their
        rows are out, so the sum is in the record (`query`), and in the next rows if any follow. The
        end of a stream is public; do not let values decide about it. Does nothing elsewhere.
        """
        ownership, began = self._ownership, False
        try:
            with ownership.lock:
                ownership.begin()
                began = True
                if self._run is not None:
                    self._run.finish()
                ownership.done()
        except BaseException:
            if began:
                ownership.refuse()
            raise

    # -- state -----------------------------------------------------------------------------------

    def snapshot(
        self, key: bytes | None = None, *, brief: bool = False, users: bool = True
    ) -> bytes:
        """The whole state. As secret as the raw data: give a 32-byte key to seal it.

        Single-use: what continues from it continues *this* epoch's noise. Two continuations that
        see different values publish the same noise on both, and their difference is raw data. To
        branch, use `fork`. A `brief` snapshot leaves out the record of the past: it goes on alike,
        but can be asked only about what comes. Without `users` it leaves out how often each user
        was counted, for a caller that keeps `user_cap` itself.
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
            }
            return sealed_snapshot(self.pipeline, self._epoch, self.position, state, key)

    @classmethod
    def _resumed(cls, pipeline: Pipeline, data: bytes, key: bytes | None) -> Release:
        ownership = Ownership()  # before the secret is read: see there
        epoch, state = opened_snapshot(pipeline, data, key)
        charges = [Guarantee.from_plain(charge) for charge in state["charges"]]
        origin, run = state["origin"], state["run"]
        release = cls(
            pipeline, epoch, ownership=ownership, origin=origin, charges=charges, state=run
        )
        release._seen = state["seen"]
        if release._cap is not None and state["cap"]:
            release._cap.restore(state["cap"])
        if state["held"].size:
            release._hold(state["held"])
        return release

    def fork(self, randomness: Randomness | None = None) -> Release:
        """Branch safely: a second release from here on, with a new epoch and new noise.

        Both branches may see the same values, so the fork's cost is added to the guarantee of both:
        the stream's ε, or everything while θ is not chosen yet. (If one of them is a simulation,
        none of them has a guarantee. Branches know of each other within one process only; beyond, a
        ledger must add them up.) Counts of users go on in both: see `tidegate.run.user_cap`. The
        fork starts a new forest at the present position; the past is answered by the original. If a
        warm-up is open, the fork begins one of its own there, and reads nothing of the past. If
        `fork` is interrupted its charge may stay: too much is counted then, never too little.
        """
        with self._ownership.lock:
            self._ownership.check()
            ownership = Ownership()
            epoch = (randomness or secure()).new_epoch()
            run = self._run
            spent = self.pipeline.stream_guarantee if run else self.pipeline.guarantee
            self._charges.append(cost(spent, simulation=epoch.simulation))
            branch = Release(
                self.pipeline,
                epoch,
                ownership=ownership,
                threshold=run.threshold if run else None,
                known=run.known if run else 0,
                origin=self.position,
                charges=self._charges,
            )
            branch._seen = self._seen
            branch._cap = self._cap and self._cap.branch()
            if self._holdout.units.size:
                branch._hold(self._holdout.units)
            return branch

    def journal_entries(self) -> list[JournalEntry]:
        """What was released since this was last asked, for a journal; the first call begins."""
        ownership, began = self._ownership, False
        try:
            with ownership.lock:
                ownership.begin()  # entries that are taken but not handed over are lost
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
