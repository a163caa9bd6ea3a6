"""`Release`: raw values in, private values out, online and for ever.

push → lattice → hold-out → Threshold.choose → θ
               → PerturberRun.push → Noisy ║ Publisher → output
                                           ║ Record → query
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np
from numpy.typing import ArrayLike

from tidegate import ownership as owners
from tidegate.errors import TidegateError
from tidegate.guarantee import Guarantee, cost
from tidegate.lattice import FloatArray
from tidegate.ownership import Ownership
from tidegate.randomness import Epoch, Randomness, secure
from tidegate.record.journal_entry import JournalEntry
from tidegate.record.rows import Rows
from tidegate.run.event_run import EventRun
from tidegate.run.hold_out import HoldOut
from tidegate.run.intake import Intake, as_single
from tidegate.run.phased_run import PhaseKeys
from tidegate.run.refinement_run import RefinementRun
from tidegate.run.snapshot import opened_snapshot, sealed_snapshot
from tidegate.run.threshold_phases import Phases
from tidegate.run.timeline import Timeline
from tidegate.run.two_sided_caps import Ends
from tidegate.run.user_cap import cap_of
from tidegate.tables.from_numpy import Column, like

if TYPE_CHECKING:
    from tidegate.run.pipeline import Pipeline


class Release(Intake):
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
        ends: Ends | None = None,
        evidence: int = 0,
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
        self._timeline: Timeline | None = None  # if values have times
        self._run: Phases | RefinementRun | EventRun | None = None
        keys = PhaseKeys(pipeline, epoch, origin)
        if pipeline.ticks is not None:
            self._run = EventRun(keys, state=state)
        elif pipeline.warm_up:
            start: dict[str, Any] = {"ends": ends, "evidence": evidence, "state": state}
            self._run = RefinementRun(keys, **start)
        elif ends is not None:
            self._run = Phases(keys, ends=ends)
        elif state is not None:
            self._run = Phases(keys, state=state)
        if self._run is None and pipeline.holdout == 0:
            self._choose_threshold()

    # -- data ------------------------------------------------------------------------------------

    @overload
    def push(
        self,
        values: float | Decimal | Fraction | None,
        users: Any = None,
        times: Any = None,
        late: str = "refuse",
    ) -> float | None: ...

    @overload
    def push(
        self, values: Column, users: Any = None, times: Any = None, late: str = "refuse"
    ) -> Column: ...

    @overload
    def push(
        self, values: ArrayLike, users: Any = None, times: Any = None, late: str = "refuse"
    ) -> FloatArray: ...

    def push(self, values: Any, users: Any = None, times: Any = None, late: str = "refuse") -> Any:
        """Take one value or an array of values; give one private value for each.

        An array is a list, or a column of numpy, pandas, polars, pyarrow, DuckDB, or anything with
        Arrow's PyCapsule interface; a missing value counts as 0 in its place. A Series of pandas
        or polars gives a Series, with its index or name; all else gives an array of numpy.

        Nothing comes out during the hold-out: None for a single value, an array that is shorter by
        what was held. Splitting a stream into pushes in another way changes nothing (law 1). If an
        input is refused, none of this push was taken. `users` names who sent each value; needed if,
        and only if, the pipeline protects users. `times` says when each value was (`tidegate.
        timestamps`), in order; `late="keep"` takes older ones too, at their place. They are public.
        """
        ownership, kind = self._ownership, type(values)
        began = False
        try:
            # `lock`, `begin` and `done` of the ownership, written out: every value pays for calls.
            if ownership._process is not owners._process:
                ownership.check()
            with ownership._lock:
                single = kind is int or kind is float
                if not single:
                    single, values = as_single(values)
                named = users is not None or times is not None
                if single and not named and self._cap is None and self._timeline is None:
                    lattice = self._lattice
                    unit = values * lattice.factor if kind is int else -1
                    if not 0 <= unit <= lattice.top:
                        unit = lattice.unit(values, self._seen)
                    if ownership._cut_short:
                        ownership.check()
                    ownership._cut_short = True
                    began, run, one = True, self._run, None
                    self._seen += 1
                    if run is not None:
                        one = run.push_one(unit)
                    else:
                        self._hold(np.array([unit]))
                    # A copy that was forked meanwhile gets no further.
                    if ownership._process is not owners._process:
                        ownership.check()
                    ownership._cut_short = False
                    return one
                if single:
                    values, users = [values], None if users is None else [users]
                    times = None if times is None else [times]
                as_series = like(values)
                numbers, names, when = self._checked(values, users, times, late)
                ownership.begin()
                began = True
                out = self._take(numbers, names, when).values
                result = (out.item() if out.size else None) if single else out
                if as_series is not None:
                    result = as_series(out)
                ownership.done()
                return result
        except BaseException:
            if began:  # cut short, or complete but not handed over: the same to the caller
                ownership.refuse()
            raise

    def push_rows(
        self, values: Any, users: Any = None, times: Any = None, late: str = "refuse"
    ) -> Rows:
        """As `push` with an array of values; give rows: the values, and a level for each.

        Sums are made of `values`. `levels` are for people to look at: see `level`.
        """
        ownership, began = self._ownership, False
        try:
            with ownership.lock:
                numbers, names, when = self._checked(values, users, times, late)
                ownership.begin()
                began = True
                rows = self._take(numbers, names, when, leveled=True)
                ownership.done()
                return rows
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
                "times": self._timeline and self._timeline.state(brief),
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
        if state["times"]:
            release._timeline = Timeline.restored(state["times"])
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
