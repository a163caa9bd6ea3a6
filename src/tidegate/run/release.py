"""`Release`: raw values in, private values out, online and without end.

push → lattice → hold-out → Threshold.choose → θ
               → PerturberRun.push → Noisy ║ Publisher → output
                                           ║ Record → query
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tidegate import ownership as owners
from tidegate.errors import InputError, SettingError
from tidegate.guarantee import Guarantee, cost
from tidegate.lattice import FloatArray, IntArray
from tidegate.randomness import Epoch
from tidegate.record.rows_and_levels import Rows
from tidegate.run.hold_out import HoldOut
from tidegate.run.phased_run import PhaseKeys
from tidegate.run.refinement_run import RefinementRun
from tidegate.run.release_snapshots_and_forks import SnapshotsAndForks
from tidegate.run.threshold_phases import ThresholdPhases
from tidegate.run.two_sided_caps import Ends
from tidegate.run.user_cap import checked_users, user_cap_of
from tidegate.tables.columns_to_numpy import as_single
from tidegate.tables.table_input import refuse_times_in_table
from tidegate.tables.tables_from_numpy import Column, series_from_numpy

if TYPE_CHECKING:
    from tidegate.record.times.time_ranges_and_tables import Moment
    from tidegate.run.event_run import EventRun
    from tidegate.run.pipeline import Pipeline
    from tidegate.run.timeline import Timeline
    from tidegate.timestamps import Times

_PIECE = 1 << 16  # values at once: few enough for the cache, many enough to hide fixed costs


class Release(SnapshotsAndForks):
    """A pipeline at work on one stream. Made by `Pipeline.start`, `Pipeline.resume` or `fork`.

    Holds raw values (the hold-out, the open block's sum) and the noise key: as secret as the data.
    Its `repr` shows public facts only; it can be neither pickled nor copied.

    Interruptions. A push is taken whole and its values are returned, or the release stops
    (`tidegate.ownership`): after any exception other than a refused input, `push`,
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
        ownership: owners.Ownership,
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
        self._cap = user_cap_of(pipeline.unit)
        self._timeline: Timeline | None = None  # if values have times
        self._run: ThresholdPhases | RefinementRun | EventRun | None = None
        keys = PhaseKeys(pipeline, epoch, origin)
        if pipeline.ticks is not None:
            self._run = pipeline.ticks.event_run(keys, state)
        elif pipeline.warm_up:
            self._run = RefinementRun(keys, ends=ends, evidence=evidence, state=state)
        elif ends is not None or state is not None:
            self._run = ThresholdPhases(keys, ends=ends, state=state)
        if self._run is None and pipeline.holdout == 0:
            self._choose_threshold()

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

        Nothing is released during the hold-out: None for a single value, an array without the held
        values. How a stream is split into pushes changes nothing (law 1). If an input is refused,
        none of this push was taken. `users` names the sender of each value; it is required if, and
        only if, the pipeline protects users. `times` are the times of the values (`tidegate.
        timestamps`), in order; `late="keep"` takes older ones too, at their place. They are public.
        """
        ownership, kind, began = self._ownership, type(values), False
        try:
            # `lock`, `begin` and `done` of the ownership, written out: every value pays for calls.
            if ownership._process is not owners._process:
                ownership.check()
            with ownership._lock:
                single = kind is int or kind is float
                if not single:
                    single, values = as_single(values)
                plain = users is None and times is None and self._timeline is None
                if single and plain and self._cap is None:
                    lattice, top = self._lattice, self._lattice.top
                    if kind is float and 0.0 < (scaled := values * lattice.per_unit) < lattice.end:
                        unit = round(scaled)
                    elif kind is not int or not 0 <= (unit := values * lattice.factor) <= top:
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
                as_series = series_from_numpy(values)
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
            if began:  # interrupted, or complete but not returned: the same to the caller
                ownership.refuse()
            raise

    def push_rows(
        self, values: Any, users: Any = None, times: Any = None, late: str = "refuse"
    ) -> Rows:
        """Like `push` of an array, but return rows: values, and a level for each.

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

    def finish(self) -> None:
        """End an open warm-up now, with the values so far: for a stream that is over.

        θ is chosen and the sum of these values is measured, both within the ε that they have. Their
        rows are out, so the sum is in the record (`query`), and in the next rows if any follow: a
        stream that continues after all may be pushed to, with the θ that was chosen. The end of a
        stream is public; do not let values decide about it. Does nothing elsewhere.
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

    def advance(self, until: Moment) -> Rows:
        """Release the ticks that are over at `until`; for event streams only."""
        raise SettingError("until", "is for event streams: give `every` and `start`")

    def close_ticks(self, count: int) -> Rows:
        """Release the next `count` ticks; for event streams only."""
        raise SettingError("until", "is for event streams: give `every` and `start`")

    # -- inside ----------------------------------------------------------------------------------

    def _checked(
        self, values: Any, users: Any, times: Any, late: str
    ) -> tuple[NDArray[Any], Sequence[str | None] | None, Times | None]:
        """Check numbers, users and times; the only place where a push is refused."""
        numbers = self._numbers(values)
        named = self._cap is not None
        names = checked_users(users, numbers.size, needed=named, position=self._seen)
        return numbers, names, self.checked_times(times, numbers.size, late)

    def _numbers(self, values: Any) -> NDArray[Any]:
        try:
            return self._lattice.numbers(values, self._seen)
        except InputError as error:
            problem = error
        # Outside of `except`: an error of ours has no other one as its context.
        refuse_times_in_table(values, "push(values, times=times)", self._seen)
        raise problem

    def checked_times(self, times: Any, count: int, late: str = "refuse") -> Times | None:
        """The parsed times of the next values; takes no values."""
        if times is None and self._timeline is None:
            return None
        from tidegate.run.timeline import checked_times  # on demand: few streams have times

        return checked_times(self._timeline, times, count, self._seen, late)

    def _take(
        self,
        numbers: NDArray[Any],
        users: Sequence[str | None] | None,
        times: Times | None,
        *,
        leveled: bool = False,
    ) -> Rows:
        """Release these values: one published value each, and levels on request."""
        first = self.position
        start = min(self.holding, numbers.size)
        out = np.zeros(numbers.size - start)  # zeros, never uninitialised memory
        levels = np.zeros(out.size if leveled else 0)
        self._seen += numbers.size
        if start:
            self._hold(self._units(numbers, users, 0, start, window=0))
        at = start
        while self._run is not None and at < numbers.size:
            window, room = divmod(self.position, self.pipeline.perturber.horizon)
            most = self.pipeline.perturber.horizon - room if self._cap else _PIECE
            end = at + min(_PIECE, most, numbers.size - at)
            units = self._units(numbers, users, at, end, window=1 + window)
            part = slice(at - start, end - start)
            self._run.push(units, out[part], levels[part] if leveled else None)
            at = end
        self._lattice.bounded(levels)
        if times is None:
            return Rows(first, out, levels)
        self.note_times(times, first, start)
        return Rows(first, out, levels, times.ticks[start:])

    def _units(self, numbers: Any, users: Any, start: int, end: int, window: int) -> IntArray:
        units = self._lattice.units(numbers[start:end])
        return units if self._cap is None else self._cap.apply(units, users[start:end], window)

    def _hold(self, units: IntArray) -> None:
        """Hold values for the choice of θ; choose once there are enough."""
        self._holdout.add(units)
        if not self._holdout.missing:
            self._choose_threshold()

    def _choose_threshold(self) -> None:
        keys = PhaseKeys(self.pipeline, self._epoch, self._origin)
        self._run = ThresholdPhases.after_hold_out(keys, self._holdout.units)
        self._run.log = [] if self._keeps_journal else None
        self._holdout.wipe()
