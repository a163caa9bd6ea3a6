"""The questions that `tidegate query` can ask a file with keys, and who answers them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from tidegate.errors import QueryError, SettingError

A = TypeVar("A")


class AskedByKey(NamedTuple):
    """A question about a file with keys, as the options put it."""

    where: dict[str, Any]  # start and end, or from_ and to
    keys: list[str] | None
    every: str | None
    confidence: float
    total: bool
    as_json: bool

    def check(self) -> None:
        """Refuse options that do not fit a table by time, or that need one."""
        if self.every is not None and (
            self.where["start"] is not None or self.where["end"] is not None
        ):
            raise SettingError("every", "needs --from and --to, not positions")
        if self.total and self.every is None:
            raise SettingError("total", "needs --every: without it, the total is the last row")

    @property
    def times(self) -> dict[str, Any]:
        """The arguments of a table by time."""
        return {
            "keys": self.keys,
            "from_": self.where["from_"],
            "to": self.where["to"],
            "confidence": self.confidence,
        }

    def of_each(
        self, query: Callable[..., A], keys: Sequence[str], refuse: Callable[[], object]
    ) -> list[tuple[str, A | None]]:
        """One row for each key (None: it does not know this range), and one for their total."""
        rows: list[tuple[str, A | None]] = []
        for name in self.keys or keys:
            try:
                rows.append((name, query(key=name, confidence=self.confidence, **self.where)))
            except QueryError:
                if self.keys is not None:  # it was asked for
                    raise
                rows.append((name, None))
        known = [name for name, answer in rows if answer is not None]
        if not known:
            refuse()
        if len(known) > 1:
            rows.append(("total", query(keys=known, confidence=self.confidence, **self.where)))
        return rows
