"""The run of many keys: rows in, released rows out."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tidegate.clock import Clock
from tidegate.errors import InputError, QueryError, SettingError, TidegateError
from tidegate.guarantee import Guarantee, cost
from tidegate.keyed.columns import ColumnsEngine, fits
from tidegate.keyed.engine import Released
from tidegate.keyed.groups import Groups
from tidegate.keyed.names import Names, key_text
from tidegate.keyed.objects import Objects
from tidegate.keyed.queries import KeyedQueries
from tidegate.keyed.rows import KeyedRows
from tidegate.keyed.snapshot import sealed
from tidegate.lattice import IntArray
from tidegate.ownership import Ownership
from tidegate.randomness import Epoch
from tidegate.record.record import Record
from tidegate.run.ends import Ends, choose
from tidegate.run.phased_run import Phase
from tidegate.run.warm_up import HoldOut
from tidegate.settings import digest
from tidegate.timestamps import Times, read_times

if TYPE_CHECKING:
    from tidegate.keyed.specification import Keyed


class KeyedRelease(KeyedQueries):
    """A stream for each key, at work. Made by `Keyed.start` or `Keyed.resume`.

    What comes out for a key is, bit for bit, what a release of its rows alone would give with the
    key's noise; so rows of different keys may come in any order. Its noise is keyed by HKDF from
    the secret of the run, the random id of the run and the key: `Epoch.of_key`. Interruptions,
    threads and forks: as for `Release`.
    """

    def __init__(
        self, specification: Keyed, epoch: Epoch, *, ownership: Ownership, record: bool = True
    ) -> None:
        self.specification = specification
        self._epoch, self._ownership = epoch, ownership
        self._pipeline = specification.pipeline
        self._names = Names(specification.keys)
        self._ended: set[int] = set()  # tombstones: these keys must not begin again
        self._seen = self._dropped = 0
        self._clock: Clock | None = None
        self._sample = HoldOut(self._pipeline.holdout if specification.shared else 0)
        self._ends: Ends | None = None  # of all keys, if they are shared
        self._record_kept = record  # for queries
        self._engine: Objects | ColumnsEngine | None = None
        if not self._sample.missing:
            self._begin()

    # -- data ------------------------------------------------------------------------------------

    def push(self, keys: Any, values: Any, times: Any = None, late: str = "refuse") -> KeyedRows:
        """Take rows of any keys, in any order; give one private row for each.

        Rows of a key must be in its order; `times`, if given, are public and go forward within a
        key (`late="keep"` takes older ones too). Rows of keys that were not declared are dropped,
        and so counted (`dropped`). Nothing comes out for rows that are held out. If an input is
        refused, none of this push was taken.

        Raises:
            InputError: a value is not a number, a time none, or a key has ended.
        """
        ownership, began = self._ownership, False
        try:
            with ownership.lock:
                numbers, codes, when = self._checked(keys, values, times)
                dropped = int(np.count_nonzero(codes < 0)) if codes.size and codes.min() < 0 else 0
                if dropped:
                    taken = codes >= 0
                    numbers, codes = numbers[taken], codes[taken]
                    when = when and Times(when.ticks[taken], when.clock)
                start = min(self._sample.missing, codes.size)
                groups = Groups(codes[start:])
                later = when and Times(when.ticks[start:], when.clock)
                if self._engine is not None:
                    self._engine.check_times(groups, later, late)
                ownership.begin()
                began = True
                self._seen += codes.size + dropped
                self._dropped += dropped
                self._clock = self._clock if when is None else when.clock
                rows = self._take(groups, numbers, start, later, late)
                ownership.done()
                return rows
        except BaseException:
            if began:
                ownership.refuse()
            raise

    def _checked(
        self, keys: Any, values: Any, times: Any
    ) -> tuple[NDArray[Any], IntArray, Times | None]:
        """Numbers, codes and times; the only place where a push is refused."""
        numbers = self._pipeline.lattice.numbers(values, self._seen)
        when: Times | None = None
        if times is not None:
            if self._clock is None and self._seen:
                raise SettingError("times", "must be given from the first row on")
            when = read_times(times, position=self._seen, clock=self._clock)
            if when.ticks.size != numbers.size:
                raise InputError(f"{numbers.size} values but {when.ticks.size} times")
        elif self._clock is not None and numbers.size:
            raise SettingError("times", "must be given for every row: the rows before had them")
        codes = self._names.codes(keys, numbers.size, self._seen)
        for code in self._ended:
            if (codes == code).any():
                raise InputError(
                    f"key {self._names.names[code]!r} has ended: it takes no more rows"
                )
        return numbers, codes, when

    def _take(
        self, groups: Groups, numbers: NDArray[Any], start: int, times: Times | None, late: str
    ) -> KeyedRows:
        if start:
            self._sample.add(self._pipeline.lattice.units(numbers[:start]))
            if not self._sample.missing:
                self._begin()
        rest = numbers[start:]
        engine = self._engine
        if engine is None or not rest.size:
            out = Released.empty(rest.size)
        else:
            out = engine.push(groups, rest, times, late)
        ticks = None if times is None else times.ticks
        numbers_out = out.positions, out.values, out.levels
        rows = KeyedRows(self._names.names, groups.codes, *numbers_out, ticks, self._clock)
        return rows if out.released.all() else rows.part(np.flatnonzero(out.released))

    def _begin(self) -> None:
        """Choose the shared threshold, if there is one; from here on rows are released."""
        if self.specification.shared:
            pipeline, epoch = self._pipeline, self._epoch
            identity = digest({**pipeline.resolved(), "threshold": "shared by keys"})
            self._ends = choose(
                pipeline.threshold,
                self._sample.units,
                pipeline.lattice,
                lambda name: epoch.keystream(name, identity),
            )
            self._sample.wipe()
        self._restore_ends(self._ends)

    def _restore_ends(self, ends: Ends | None) -> None:
        self._ends, self._sample = ends, HoldOut(0)
        columns = not self._record_kept and fits(self._pipeline, shared=ends is not None)
        kind = ColumnsEngine if columns else Objects
        self._engine = kind(self._pipeline, self._epoch, self._names, ends)

    def finish(self) -> None:
        """End open warm-ups, from the rows that came: for streams that are over, all at once."""
        ownership, began = self._ownership, False
        try:
            with ownership.lock:
                ownership.begin()
                began = True
                if self._engine is not None:
                    self._engine.finish()
                ownership.done()
        except BaseException:
            if began:
                ownership.refuse()
            raise

    def end(self, key: Any) -> None:
        """Give up the state of a key, for ever: a tombstone stays, and it takes no more rows.

        A key that began again would use its noise again, on other values.
        """
        with self._ownership.lock:
            self._ownership.check()
            code = self._code(key)
            self._ended.add(code)
            if self._engine is not None:
                self._engine.drop(code)

    # -- public facts ----------------------------------------------------------------------------

    @property
    def keys(self) -> list[str]:
        """All keys: declared, or seen so far."""
        return list(self._names.names)

    @property
    def position(self) -> int:
        """How many rows have been released, of all keys."""
        return 0 if self._engine is None else int(self._engine.positions().sum())

    @property
    def seen(self) -> int:
        """How many rows have been taken: released, held out and dropped ones."""
        return self._seen

    @property
    def holding(self) -> int:
        """How many more rows of any key the shared hold-out takes before anything is released."""
        return self._sample.missing

    @property
    def dropped(self) -> int:
        """How many rows had a key that was not declared. For the operator: it is not private."""
        return self._dropped

    @property
    def threshold(self) -> float | None:
        """The shared θ, in the unit of the data; None: it is not chosen yet, or not shared."""
        return None if self._ends is None else self._ends.above * self._pipeline.lattice.step

    @property
    def clock(self) -> Clock | None:
        """The zone of the times, and how they are written; None: rows have none so far."""
        return self._clock

    @property
    def epoch(self) -> str:
        """The public id of this run's noise."""
        return self._epoch.id.hex()

    @property
    def guarantee(self) -> Guarantee:
        """What is promised to every row."""
        return cost(self.specification.guarantee, simulation=self._epoch.simulation)

    def record(self, key: Any) -> Record:
        """What was measured of a key, ready for queries."""
        with self._ownership.lock:
            self._ownership.check()
            name = key_text(key)
            try:
                found = None if self._engine is None else self._engine.record(self._code(name))
            except QueryError as error:
                raise QueryError(f"key {name!r}: {error}") from None
            if found is None:
                raise QueryError(f"key {name!r} has no released rows")
            return found

    def released_keys(self) -> list[tuple[str, int, list[Phase]]]:
        """Each key that has released rows: its name, how many, and its thresholds."""
        if self._engine is None:
            return []
        counts, names = self._engine.positions().tolist(), self._names.names
        found = [code for code, count in enumerate(counts) if count]
        return [(names[code], counts[code], self._engine.phases(code)) for code in found]

    def unmeasured(self) -> int:
        """How many keys have rows, and nothing measured: their warm-up or hold-out is open."""
        return 0 if self._engine is None else self._engine.unmeasured()

    def _reading(self) -> AbstractContextManager[Any]:
        return self._ownership.lock

    def _active(self) -> list[str]:
        counts = np.zeros(0) if self._engine is None else self._engine.positions()
        return [self._names.names[code] for code in np.flatnonzero(counts).tolist()]

    def _code(self, key: Any) -> int:
        code = self._names.code(key)
        if code is None:
            raise QueryError("there is no such key")
        return code

    def __repr__(self) -> str:
        return (
            f"<KeyedRelease of {len(self._names)} keys position={self.position}; {self.guarantee}>"
        )

    # -- state -----------------------------------------------------------------------------------

    def snapshot(self, key: bytes | None = None, *, brief: bool = False) -> bytes:
        """The whole state of all keys. As secret as the raw data: give a 32-byte key to seal it.

        Single-use, and `brief`: as `Release.snapshot`.
        """
        with self._ownership.lock:
            self._ownership.check()
            return sealed(self, key, brief=brief)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TidegateError(
            "a keyed release cannot be copied or pickled (two copies would share noise): "
            "use snapshot() to continue it elsewhere"
        )
