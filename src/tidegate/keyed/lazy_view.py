"""A view of one key's record that is made when it is needed, by whichever thread that is."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tidegate.record.record import Record
from tidegate.record.view import RecordView


class LazyView:
    """Makes its view once, for all who hold it. `make` gives a record that nobody changes."""

    def __init__(self, make: Callable[[], Record]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._found: RecordView | None = None

    @classmethod
    def of(cls, record: Record) -> LazyView:
        """Of a record that changes: the view is made now."""
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
