"""Counts, sums and means of events by key: of one key, of each in a table, of a group together.

Post-processing of two released streams of each key: sums, and numbers of events. Sums are answered
alone here: with what the numbers tell (`record.sums_given_counts`), each key would take 70 times as
long.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import QueryError
from tidegate.keyed.answers_from_key_records import KeyedQueries
from tidegate.keyed.key_names import key_text
from tidegate.record.answer import Answer
from tidegate.record.answer_text import SHOWN
from tidegate.record.means_of_events import MeansTable, MeanVerbs, means_table
from tidegate.record.times.time_ranges_and_tables import Moment, TimeTable
from tidegate.tables import html, plain_text
from tidegate.tables.from_numpy import Tabular

T = TypeVar("T")
_FEWEST = 3  # rows of a key that are shown
_MOST_CELLS = 40  # rows of all keys that are shown


@dataclass(frozen=True, repr=False)
class KeyedMeansTable(Tabular):
    """Count, sum and mean of each key and each part of a range. `table[key]` is that of one key.

    Attributes:
        parts: these tables.
        note: which parts of the range are left out; may be empty.
    """

    parts: dict[str, MeansTable]
    note: str = ""

    def __len__(self) -> int:
        return sum(map(len, self.parts.values()))

    def __getitem__(self, key: Any) -> MeansTable:
        return self.parts[key_text(key)]

    @property
    def zone(self) -> str | None:
        """The zone of the times."""
        return next((part.zone for part in self.parts.values()), None)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns of `MeansTable`, with the key before them."""
        tables = [part.columns() for part in self.parts.values()]
        keys = np.repeat(np.array([*self.parts], np.str_), [*map(len, self.parts.values())])
        names = list(tables[0]) if tables else []
        return {"key": keys} | {
            name: np.concatenate([table[name] for table in tables]) for name in names
        }

    def __repr__(self) -> str:
        return "\n".join([self._about, plain_text.table(*self._cells()), *self._said()])

    def _repr_html_(self) -> str:
        shown = html.table(*self._cells())
        return f"<div><strong>{self._about}</strong>{shown}{html.lines(self._said())}</div>"

    @property
    def _about(self) -> str:
        return f"{len(self):,} counts, sums and means of {len(self.parts):,} keys"

    def _cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The head, and the first rows: of each key alike, as far as there is room."""
        of_each = max(_FEWEST, SHOWN // max(1, len(self.parts)))
        head: tuple[str, ...] = ("key",)
        rows: list[tuple[str, ...]] = []
        for shown, (key, part) in enumerate(self.parts.items()):
            names, cells = part.cells(of_each)
            head = ("key", *names)
            if len(rows) >= _MOST_CELLS:
                more = f"{len(self.parts) - shown:,} more keys"
                rows.append(("…", more, *[""] * (len(head) - 2)))
                break
            rows += [(key, *row) for row in cells]
        return head, rows

    def _said(self) -> list[str]:
        """What to fear of these answers, each thing once."""
        found = [line for part in self.parts.values() for line in part.said]
        return list(dict.fromkeys(filter(None, (*found, self.note))))


class KeyedMeanQueries(MeanVerbs):
    """Answers for count, sum and mean by key, from two keyed streams that `_both` gives.

    `query`, `sum`, `count` and `mean` are asked as `KeyedRelease.query`: `key=` for one key,
    `keys=` for the total over a group; without them, over all.
    """

    @abstractmethod
    def _both(self, ask: Callable[[KeyedQueries, KeyedQueries], T]) -> T:
        """Ask both streams; under the lock that guards them, if there is."""

    def _asked(self, *where: Any, **how: Any) -> tuple[Answer, Answer]:
        def ask(sums: KeyedQueries, counts: KeyedQueries) -> tuple[Answer, Answer]:
            if how.get("key") is None:
                how["keys"] = _group(sums, counts, how.get("keys"))
            return sums.query(*where, **how), counts.query(*where, **how)

        return self._both(ask)

    @overload
    def table(
        self,
        every: str | timedelta,
        *,
        key: None = None,
        keys: Iterable[Any] | None = None,
        total: Literal[False] = False,
        from_: Moment | None = None,
        to: Moment | None = None,
        confidence: float = 0.95,
    ) -> KeyedMeansTable: ...

    @overload
    def table(
        self,
        every: str | timedelta,
        *,
        keys: Iterable[Any] | None = None,
        total: Literal[True],
        from_: Moment | None = None,
        to: Moment | None = None,
        confidence: float = 0.95,
    ) -> MeansTable: ...

    @overload
    def table(
        self,
        every: str | timedelta,
        *,
        key: str | int,
        from_: Moment | None = None,
        to: Moment | None = None,
        confidence: float = 0.95,
    ) -> MeansTable: ...

    def table(
        self,
        every: str | timedelta,
        *,
        key: Any = None,
        keys: Iterable[Any] | None = None,
        total: bool = False,
        from_: Moment | None = None,
        to: Moment | None = None,
        confidence: float = 0.95,
    ) -> KeyedMeansTable | MeansTable:
        """Count, sum and mean of every hour, day or month: of each key, as `KeyedRelease.table`.

        Of one `key`, its table; with `total`, the table of the total over `keys`, or over all. No
        privacy is spent.
        """
        if not isinstance(every, str | timedelta):
            raise QueryError("every must be a length of time: 15min, 1h, 1d, 1w, 1mo, 1y")
        if key is not None and (keys is not None or total):
            raise QueryError(
                "give key= for one key, or keys= and total=True for the total of a group"
            )
        how: dict[str, Any] = {"from_": from_, "to": to, "confidence": confidence}

        def ask(sums: KeyedQueries, counts: KeyedQueries) -> KeyedMeansTable | MeansTable:
            names = _group(sums, counts, keys if key is None else [key])
            if total:
                totals = [one.totals(every, keys=names, **how) for one in (sums, counts)]
                return means_table(totals[0], totals[1], self.ends)
            two = [one.table(every, keys=names, **how) for one in (sums, counts)]
            parts = {name: self._one_table(two[0][name], two[1][name]) for name in names}
            return KeyedMeansTable(parts, two[0].note)

        found = self._both(ask)
        return found if key is None or isinstance(found, MeansTable) else found[key]

    def _one_table(self, sums: Any, counts: Any) -> MeansTable:
        if not isinstance(sums, TimeTable) or not isinstance(counts, TimeTable):
            raise AssertionError("tables by time have times")
        return means_table(sums, counts, self.ends)

    def totals(self, every: str | timedelta, **asked: Any) -> MeansTable:
        """The table of the total over `keys=`, or over all: `table(every, total=True)`."""
        return self.table(every, total=True, **asked)


def _group(sums: KeyedQueries, counts: KeyedQueries, keys: Iterable[Any] | None) -> list[str]:
    """The same keys for both; None: all that both have measured."""
    if keys is not None:
        return sums._group(keys)
    both = set(counts._active())
    found = [name for name in sums._active() if name in both]
    if not found:
        raise QueryError("nothing is released yet")
    return found
