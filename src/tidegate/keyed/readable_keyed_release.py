"""`ReadableKeyed`: the read-only side of a keyed release: public facts, and answers."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate.clock import Clock
from tidegate.errors import QueryError
from tidegate.guarantee import Guarantee, cost
from tidegate.keyed.answers_from_key_records import KeyedQueries
from tidegate.keyed.engine_choice import Engine
from tidegate.keyed.key_names import KeyNames, key_text
from tidegate.keyed.keyed_verbs_and_plots import PlottedKeys
from tidegate.keyed.keyed_views_for_threads import KeyedView, LazyKeyedView
from tidegate.lattice import IntArray
from tidegate.ownership import Ownership
from tidegate.randomness import Epoch
from tidegate.record.record import Record
from tidegate.record.record_view import RecordView
from tidegate.run.hold_out import HoldOut
from tidegate.run.phased_run import Phase
from tidegate.run.pipeline import Pipeline
from tidegate.run.two_sided_caps import Ends
from tidegate.tables import html

if TYPE_CHECKING:
    from tidegate.keyed.keyed_specification import Keyed


class ReadableKeyed(KeyedQueries, PlottedKeys):
    """The read-only side of a `KeyedRelease`: nothing here changes it or shows a raw value."""

    specification: Keyed
    _pipeline: Pipeline
    _epoch: Epoch
    _ownership: Ownership
    _names: KeyNames
    _seen: int
    _dropped: int
    _clock: Clock | None
    _sample: HoldOut
    _ends: Ends | None
    _engine: Engine | None

    @property
    def pipeline(self) -> Pipeline:
        """The settings of each key's stream."""
        return self._pipeline

    @property
    def keys(self) -> list[str]:
        """All keys: declared ones, or those seen so far."""
        return list(self._names.names)

    @property
    def position(self) -> int:
        """The number of released rows, over all keys."""
        return 0 if self._engine is None else int(self._engine.positions().sum())

    @property
    def seen(self) -> int:
        """The number of rows taken: released, held out and dropped."""
        return self._seen

    @property
    def holding(self) -> int:
        """How many more rows of any key the shared hold-out takes before anything is released."""
        return self._sample.missing

    @property
    def dropped(self) -> int:
        """How many rows had an undeclared key. For the operator: not private."""
        return self._dropped

    @property
    def threshold(self) -> float | None:
        """The shared θ, in the unit of the data. None: not chosen yet, or not shared."""
        with self._ownership.lock:
            self._ownership.check()  # one that a cut-short push chose was never handed out
            return None if self._ends is None else self._ends.above * self._pipeline.lattice.step

    @property
    def cut_short(self) -> bool:
        """Whether a push is under way or was interrupted: nothing can be queried then."""
        return self._ownership.cut_short

    @property
    def clock(self) -> Clock | None:
        """Zone and text form of the times; None: no row has had a time so far."""
        return self._clock

    @property
    def epoch(self) -> str:
        """The public id of this run's noise."""
        return self._epoch.id.hex()

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for every row."""
        return cost(self.specification.guarantee, simulation=self._epoch.simulation)

    def record(self, key: Any) -> Record:
        """A copy of the record of a key, ready for queries (`Release.record`)."""
        with self._ownership.lock:
            return RecordView(self._record(key))

    def _record(self, key: Any) -> Record:
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

    def view(self, keys: Iterable[Any] | None = None) -> KeyedView:
        """Read-only answers about these keys, or all with rows, as of now: while more is released.

        Takes some microseconds a key; the answers are worked out by whoever asks for them.
        """
        with self._ownership.lock:
            self._ownership.check()
            active = self._active() if keys is None else []
            names = active if keys is None else [key_text(key) for key in keys]
            parts = {name: self._view(name) for name in names}
            lock = getattr(self._engine, "answering", None) or threading.RLock()
            return KeyedView(parts, active, str(self.guarantee), lock)

    def _view(self, name: str) -> LazyKeyedView | QueryError:
        try:
            code, engine = self._code(name), self._engine
            found = None if engine is None else engine.view(code)
        except QueryError as error:
            return QueryError(f"key {name!r}: {error}")
        return found or QueryError(f"key {name!r} has no released rows")

    def released_keys(self) -> list[tuple[str, int, list[Phase]]]:
        """Each key with released rows: its name, their number, and its thresholds."""
        with self._ownership.lock:  # it wakes keys that rest: never while another thread pushes
            self._ownership.check()
            if self._engine is None:
                return []
            counts, names = self._engine.positions().tolist(), self._names.names
            found = [code for code, count in enumerate(counts) if count]
            return [(names[code], counts[code], self._engine.phases(code)) for code in found]

    def counts(self) -> IntArray:
        """The number of released rows of each key, in the order of `keys`."""
        if self._engine is None:
            return np.zeros(len(self._names), dtype=np.int64)
        return self._engine.positions().copy()

    def unmeasured(self) -> int:
        """How many keys have rows but an open warm-up or hold-out."""
        with self._ownership.lock:
            self._ownership.check()
            return 0 if self._engine is None else self._engine.unmeasured()

    def _plotted(
        self, key: Any, keys: Iterable[Any] | None, window: int | None, confidence: float, ax: Any
    ) -> Any:
        chosen, heading = keys if key is None else [key], str(self.guarantee)
        return self._drawn(chosen, self._pipeline, heading, window, confidence, ax)

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

    def _repr_html_(self) -> str:
        """Public facts, for a notebook."""
        active, ends = len(self._active()), self._ends
        shared = "of each key"
        if ends is not None:
            shared = f"{ends.above * self._pipeline.lattice.step:g}"
        if self._ownership.cut_short:  # looked at last, as in `Release`
            shared = "a push is under way, or was cut short"
        rows: list[tuple[str, object]] = [
            ("keys", f"{len(self._names):,}, {active:,} of them with rows"),
            ("released", f"{self.position:,} rows"),
            ("threshold", shared),
            ("guarantee", self.guarantee),
        ]
        return html.facts("Keyed release", rows)

    def __repr__(self) -> str:
        return (
            f"<KeyedRelease of {len(self._names)} keys position={self.position}; {self.guarantee}>"
        )
