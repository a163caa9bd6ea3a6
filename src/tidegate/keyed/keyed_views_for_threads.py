"""Read-only views of keys as of now, for other threads while more rows are released."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tidegate.errors import QueryError
from tidegate.keyed.answers_from_key_records import KeyedQueries
from tidegate.keyed.key_names import key_text
from tidegate.record.record import Record
from tidegate.record.record_view import RecordView


class LazyKeyedView:
    """A view of one key, made on first use by any thread.

    It is made once, for all who hold it. `make` gives a record that nobody changes."""

    def __init__(self, make: Callable[[], Record]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._found: RecordView | None = None

    @classmethod
    def of(cls, record: Record) -> LazyKeyedView:
        """Make the view at once, from a record that will change."""
        view = RecordView(record)
        found = cls(lambda: view)
        found._found = view
        return found

    def record(self) -> RecordView:
        """The view."""
        with self._lock:
            if self._found is None:
                self._found = RecordView(self._make())
            return self._found


class KeyedView(KeyedQueries):
    """Views of the records of some keys.

    Args:
        parts: of each key that can be asked, its view or why it has none.
        active: the keys that have released rows, if all can be asked.
        guarantee: what is promised to every row.
        lock: of all views of these keys. Pushes do not need it.
    """

    def __init__(
        self,
        parts: Mapping[str, LazyKeyedView | QueryError],
        active: Sequence[str],
        guarantee: str,
        lock: threading.RLock,
    ) -> None:
        self._parts, self._names, self.guarantee = parts, active, guarantee
        self._lock = lock

    def record(self, key: Any) -> Record:
        """The record of one key."""
        name = key_text(key)
        part = self._parts[name]
        if isinstance(part, QueryError):
            raise part
        try:
            return part.record()
        except QueryError as error:
            raise QueryError(f"key {name!r}: {error}") from None

    def _active(self) -> list[str]:
        return list(self._names)

    def _reading(self) -> AbstractContextManager[Any]:
        return self._lock  # what is worked out is kept with the views; keys are smoothed together
