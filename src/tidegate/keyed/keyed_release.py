"""`KeyedRelease`: rows of many keys in, released rows out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidegate.clock import Clock
from tidegate.errors import InputError, SettingError, TidegateError
from tidegate.keyed.engine_choice import Engine, chosen_engine
from tidegate.keyed.fixed_array_engine import FixedArrayEngine
from tidegate.keyed.key_names import KeyNames
from tidegate.keyed.keyed_rows import KeyedReleased, KeyedRowGroups, KeyedRows
from tidegate.keyed.keyed_snapshot import sealed_keys
from tidegate.keyed.readable_keyed_release import ReadableKeyed
from tidegate.lattice import IntArray
from tidegate.ownership import Ownership, handing_over
from tidegate.randomness import Epoch
from tidegate.record.times.time_ranges_and_tables import Moment
from tidegate.run.hold_out import HoldOut
from tidegate.run.two_sided_caps import Ends, choose_caps
from tidegate.settings import digest
from tidegate.tables.table_input import refuse_text_for_numbers, refuse_times_in_table
from tidegate.timestamps import Times, read_times

if TYPE_CHECKING:
    from tidegate.keyed.keyed_specification import Keyed

Found = TypeVar("Found")
_FORM = "push(keys, values, times)"


class KeyedRelease(ReadableKeyed):
    """The running release of a stream for each key. Made by `Keyed.start` or `Keyed.resume`.

    What comes out for a key is, bit for bit, what a release of its rows alone would give with the
    key's noise; so rows of different keys may come in any order. Its noise is keyed by HKDF from
    the secret of the run, the random id of the run and the key: `Epoch.of_key`. Interruptions,
    threads and forks: as for `Release`.
    """

    def __init__(
        self,
        specification: Keyed,
        epoch: Epoch,
        *,
        ownership: Ownership,
        record: bool = True,
        names: Sequence[str] | None = None,
    ) -> None:
        self.specification = specification
        self._epoch, self._ownership = epoch, ownership
        self._pipeline = specification.pipeline
        known = specification.keys if names is None else names
        self._names = KeyNames(known, more=specification.keys is None)
        self._ended: set[int] = set()  # tombstones: these keys must not begin again
        self._seen = self._dropped = 0
        self._clock: Clock | None = None
        self._sample = HoldOut(self._pipeline.holdout if specification.shared else 0)
        self._ends: Ends | None = None  # both caps of all keys, if they are shared
        self._record_kept = record  # for queries
        self.changed: set[int] = set()  # pages of keys, for who stores them (`ObjectEngine.PAGE`)
        self._engine: Engine | None = None
        if not self._sample.missing:
            self._begin()

    # -- data ------------------------------------------------------------------------------------

    @handing_over
    def push(self, keys: Any, values: Any, times: Any = None, late: str = "refuse") -> KeyedRows:
        """Take rows of any keys, in any order; return one private row for each.

        Rows of a key must be in its order; `times`, if given, are public and go forward within a
        key (`late="keep"` takes older ones too). Rows of keys that were not declared are dropped,
        and so counted (`dropped`). Nothing comes out for rows that are held out. If an input is
        refused, none of this push was taken.

        Raises:
            InputError: a value is not a number, a time none, or a key has ended.
        """
        first = self._first_position
        refuse_times_in_table(values, _FORM, first)
        refuse_text_for_numbers(values, keys, _FORM, first)
        return self.push_rows(keys, values, times, late)

    def push_rows(
        self, keys: Any, values: Any, times: Any = None, late: str = "refuse"
    ) -> KeyedRows:
        """Push rows as `push` does, with the same interface for readings and events."""
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
                groups = KeyedRowGroups(codes[start:])
                later = when and Times(when.ticks[start:], when.clock)
                if self._engine is not None:
                    self._engine.check_times(groups, later, late)
                ownership.begin()
                began = True
                self._names.add_new()
                self._seen += codes.size + dropped
                self._dropped += dropped
                if when is not None and codes.size:  # nothing is kept of dropped rows
                    self._clock = when.clock
                rows = self._take(groups, numbers, start, later, late)
                ownership.done()
                return rows
        except BaseException:
            if began:
                ownership.refuse()
            raise

    @property
    def _first_position(self) -> int:
        """The position of the next row, for messages.

        Where rows are dropped, no message may count them: positions are those within the push.
        """
        return self._seen if self.specification.keys is None else 0

    def _checked(
        self, keys: Any, values: Any, times: Any
    ) -> tuple[NDArray[Any], IntArray, Times | None]:
        """Check numbers, codes and times; the only place where a push is refused."""
        first = self._first_position
        numbers = self._pipeline.lattice.numbers(values, first)
        when: Times | None = None
        if times is not None:
            if self._clock is None and self._seen > self._dropped:
                raise SettingError("times", "must be given from the first row on")
            when = read_times(times, position=first, clock=self._clock)
            if when.ticks.size != numbers.size:
                raise InputError(f"{numbers.size} values but {when.ticks.size} times")
        elif self._clock is not None and numbers.size:
            raise SettingError("times", "must be given for every row: the rows before had them")
        codes = self._names.codes(keys, numbers.size, first)
        for code in self._ended:
            if (codes == code).any():
                raise InputError(
                    f"key {self._names.names[code]!r} has ended: it takes no more rows"
                )
        return numbers, codes, when

    def _take(
        self,
        groups: KeyedRowGroups,
        numbers: NDArray[Any],
        start: int,
        times: Times | None,
        late: str,
    ) -> KeyedRows:
        if start:
            self._sample.add(self._pipeline.lattice.units(numbers[:start]))
            if not self._sample.missing:
                self._begin()
        rest = numbers[start:]
        running = self._engine
        if running is None or not rest.size:
            out = KeyedReleased.empty(rest.size)
        else:
            out = running.push(groups, rest, times, late)
            codes = groups.present if groups.in_order else groups.codes
            pages = np.flatnonzero(np.bincount(codes // running.PAGE))
            self.changed.update(pages.tolist())
        ticks = None if times is None else times.ticks
        numbers_out = out.positions, out.values, out.levels
        names, codes = self._names.names, groups.codes
        rows = KeyedRows(names, codes, *numbers_out, ticks, self._clock, groups, out.runs)
        return rows if out.released.all() else rows.part(np.flatnonzero(out.released))

    def _begin(self) -> None:
        """Choose the shared threshold, if there is one; later rows are released."""
        if self.specification.shared:
            pipeline, epoch = self._pipeline, self._epoch
            identity = digest({**pipeline.resolved_settings, "threshold": "shared by keys"})
            self._ends = choose_caps(
                pipeline.threshold,
                self._sample.units,
                pipeline.lattice,
                lambda name: epoch.keystream(name, identity),
            )
            self._sample.wipe()
        self._restore_ends(self._ends)

    def _restore_ends(self, ends: Ends | None) -> None:
        self._ends, self._sample = ends, HoldOut(0)
        self._engine = chosen_engine(self._pipeline, ends, record=self._record_kept)(
            self._pipeline, self._epoch, self._names, ends
        )

    def finish(self) -> None:
        """End open warm-ups with the rows so far: for streams that are all over.

        More may be pushed, as after `Release.finish`.
        """
        self._ownership.whole(lambda: None if self._engine is None else self._engine.finish())

    def ends_until(self, until: Moment) -> list[int]:
        """Numbers of ticks for `close_ticks`; empty for readings."""
        return []

    def close_ticks(self, end: int) -> KeyedRows:
        """Release the ticks before number `end`; for event streams only."""
        raise SettingError("until", "is for event streams: give `every` and `start`")

    def end(self, key: Any) -> None:
        """Erase the state of a key for good: a tombstone stays, and the key takes no more rows.

        A key that began again would use its noise again, on other values.
        """
        code = self._code(key)

        def ended() -> None:
            self._ended.add(code)
            if self._engine is not None:
                self._engine.drop(code)
                self.changed.add(code // self._engine.PAGE)

        self._ownership.whole(ended)

    # -- state -----------------------------------------------------------------------------------

    def snapshot(self, key: bytes | None = None, *, brief: bool = False) -> bytes:
        """The whole state of all keys. As secret as the raw data: give a 32-byte key to seal it.

        Single-use, and `brief`: as `Release.snapshot`.
        """
        with self._ownership.lock:
            self._ownership.check()
            self._ownership.check_not_held()
            return sealed_keys(self, key, brief=brief)

    def noise_kept(self, codes: IntArray, counts: IntArray) -> dict[str, Any]:
        """Noise to store beside a snapshot that is resumed soon; as secret as the snapshot.

        `counts` are the numbers of rows that these keys had since the last snapshot. Only the
        engine of fixed methods has noise to store.
        """
        engine = self._engine
        return engine.noise_kept(codes, counts) if isinstance(engine, FixedArrayEngine) else {}

    def restore_noise(self, kept: Mapping[str, Any]) -> None:
        """Use what `noise_kept` returned with the same snapshot, before any push."""
        if kept and isinstance(self._engine, FixedArrayEngine):
            self._engine.restore_noise(kept)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TidegateError(
            "a keyed release cannot be copied or pickled (two copies would share noise): "
            "use snapshot() to continue it elsewhere"
        )
