"""Answers about keys as they are now, for other threads to ask while more rows are released."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tidegate.errors import QueryError
from tidegate.keyed.lazy_view import LazyView
from tidegate.keyed.names import key_text
from tidegate.keyed.queries import KeyedQueries
from tidegate.record.record import Record


class KeyedView(KeyedQueries):
    """Views of the records of some keys.

    Args:
        parts: of each key that can be asked, its view or why it has none.
        active: the keys that have released rows, if all can be asked.
        guarantee: what is promised to every row.
    """

    def __init__(
        self, parts: Mapping[str, LazyView | QueryError], active: Sequence[str], guarantee: str
    ) -> None:
        self._parts, self._names, self.guarantee = parts, active, guarantee

    def record(self, key: Any) -> Record:
        """What was measured of one key."""
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
        return nullcontext()  # views are locked one by one
