"""What a ledger is told that costs nothing: caps, disjoint sources, remarks."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from tidegate.exact_numbers import Number, positive
from tidegate.ledger.account import Account
from tidegate.ledger.entries import Entry, check_text


class Declarations(Account, ABC):
    """An account that can be written to."""

    def __init__(self) -> None:
        super().__init__()
        self._writing = threading.Lock()  # from the check of a charge until it is written

    @abstractmethod
    def _append(self, kind: str, facts: Mapping[str, Any], note: str) -> Entry:
        """Append an entry, durably."""

    def set_cap(self, epsilon: Number, note: str = "", *, source: str | None = None) -> None:
        """Change how much ε any one source may spend, or `source` alone, from now on.

        A source that has spent more already is refused every further charge.
        """
        wanted = positive("cap", epsilon)
        if source is not None:
            check_text("source", source)
        named = {} if source is None else {"source": source}
        with self._writing:
            self._append("cap", {"epsilon": str(wanted), **named}, note)

    def declare(self, source: str, *, disjoint: bool, note: str = "") -> None:
        """Declare that a source has no value in common with any other, or take that back.

        The total over all sources then takes the larger cost instead of the sum.
        """
        check_text("source", source)
        with self._writing:
            self._append("source", {"source": source, "disjoint": bool(disjoint)}, note)

    def remark(self, note: str) -> None:
        """Append a note, which costs nothing."""
        with self._writing:
            self._append("note", {}, note)
