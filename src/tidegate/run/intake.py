"""`Intake`: check the values of a push, and take them in: hold-out, pieces, user caps."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import InputError, SettingError
from tidegate.lattice import IntArray, Lattice
from tidegate.record.rows import Rows
from tidegate.record.time_ranges import Moment
from tidegate.run.phased_run import PhaseKeys
from tidegate.run.readable_release import ReadableRelease
from tidegate.run.threshold_phases import Phases
from tidegate.run.timeline import Timeline, checked_times
from tidegate.run.two_sided_caps import choose
from tidegate.run.user_cap import checked_users
from tidegate.settings import digest
from tidegate.tables.column_kind import refuse_times
from tidegate.tables.to_numpy import MISSING
from tidegate.timestamps import Times

# Values handled at once: small enough to stay in the cache, large enough to hide fixed costs.
_PIECE = 1 << 16
_SCALARS = (np.generic, Decimal, Fraction, str, bytes, type(None), bool)


class Intake(ReadableRelease):
    """Takes checked values. The caller holds the lock and has begun a change (`Ownership`)."""

    _lattice: Lattice
    _keeps_journal: bool

    def _checked(
        self, values: Any, users: Any, times: Any, late: str
    ) -> tuple[NDArray[Any], Sequence[str | None] | None, Times | None]:
        """Numbers, users and times; the only place where a push is refused."""
        numbers = self._numbers(values)
        protects = self._cap is not None
        names = checked_users(users, numbers.size, needed=protects, position=self._seen)
        return numbers, names, self.checked_times(times, numbers.size, late)

    def _numbers(self, values: Any) -> NDArray[Any]:
        try:
            return self._lattice.numbers(values, self._seen)
        except InputError as error:
            problem = error
        # Outside of `except`: an error of ours has no other one as its context.
        refuse_times(values, "push(values, times=times)", self._seen)
        raise problem

    def checked_times(self, times: Any, count: int, late: str = "refuse") -> Times | None:
        """The times of the next values, as `push` would take them; nothing is taken."""
        return checked_times(self._timeline, times, count, self._seen, late)

    def advance(self, until: Moment) -> Rows:
        """Release the ticks that are over at `until`: of event streams only."""
        raise SettingError("until", "is for event streams: give `every` and `start`")

    def close_ticks(self, count: int) -> Rows:
        """Release the next `count` ticks: of event streams only."""
        raise SettingError("until", "is for event streams: give `every` and `start`")

    def _take(
        self,
        numbers: NDArray[Any],
        users: Sequence[str | None] | None,
        times: Times | None,
        *,
        leveled: bool = False,
    ) -> Rows:
        """Release these values: what is published for each, and the levels if they are wanted."""
        first = self.position
        start = min(self.holding, numbers.size)
        out = np.zeros(numbers.size - start)  # never memory that may hold something else
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
        if self._timeline is None:
            self._timeline = Timeline(times.clock)
        self._timeline.take(times, first, start)
        return Rows(first, out, levels, times.ticks[start:])

    def _units(
        self, numbers: NDArray[Any], users: Any, start: int, end: int, window: int
    ) -> IntArray:
        units = self._lattice.units(numbers[start:end])
        return units if self._cap is None else self._cap.apply(units, users[start:end], window)

    def _hold(self, units: IntArray) -> None:
        """Keep values for the choice of θ; choose when there are enough."""
        self._holdout.add(units)
        if not self._holdout.missing:
            self._choose_threshold()

    def _choose_threshold(self) -> None:
        epoch, identity = self._epoch, digest(self.pipeline.resolved_settings)
        rule, held = self.pipeline.threshold, self._holdout.units
        ends = choose(rule, held, self._lattice, lambda name: epoch.keystream(name, identity))
        self._run = Phases(PhaseKeys(self.pipeline, epoch, self._origin), ends=ends)
        self._run.log = [] if self._keeps_journal else None
        self._holdout.wipe()

    def finish(self) -> None:
        """End an open warm-up now, from the values that came: for a stream that is over.

        θ is chosen and the sum of these values is measured, both within the ε that they have. Their
        rows are out, so the sum is in the record (`query`), and in the next rows if any follow: a
        stream that goes on after all may be pushed to, with the θ that was chosen. The end of a
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


def as_single(values: Any) -> tuple[bool, Any]:
    """Whether this is one value, missing ones among them; and the value itself."""
    if type(values) is np.ndarray and values.ndim == 0:
        return True, values.item()
    return isinstance(values, _SCALARS) or type(values).__name__ in MISSING, values
