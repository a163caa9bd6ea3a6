"""Counts, sums and means of events by key: for one key, for each in a table, for a group.

Post-processing of two released streams of each key: sums, and numbers of events. Sums are answered
alone here: with what the numbers tell (`record.record_given_counts`), each key would take 70 times
as long.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from tidegate.errors import QueryError
from tidegate.keyed.answers_from_key_records import KeyedQueries
from tidegate.keyed.keyed_table import FEWEST, MOST_CELLS, TableByKey
from tidegate.keyed.keyed_verbs_and_plots import AskedOfKeys, TablesByKey
from tidegate.record.answer import Answer
from tidegate.record.answer_text import SHOWN
from tidegate.record.means_of_events import MeansTable, MeanVerbs, means_table
from tidegate.record.times.time_ranges_and_tables import TimeTable

T = TypeVar("T")


class KeyedMeansTable(TableByKey[MeansTable]):
    """Count, sum and mean of each key and each part of a range."""

    @property
    def _about(self) -> str:
        return f"{len(self):,} counts, sums and means of {len(self.parts):,} keys"

    def _cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The header and the first rows of each key, as many as there is room for."""
        of_each = max(FEWEST, SHOWN // max(1, len(self.parts)))
        head: tuple[str, ...] = ("key",)
        rows: list[tuple[str, ...]] = []
        for shown, (key, part) in enumerate(self.parts.items()):
            names, cells = part.cells(of_each)
            head = ("key", *names)
            if len(rows) >= MOST_CELLS:
                more = f"{len(self.parts) - shown:,} more keys"
                rows.append(("…", more, *[""] * (len(head) - 2)))
                break
            rows += [(key, *row) for row in cells]
        return head, rows

    def _said(self) -> list[str]:
        """Warnings about these answers, each once."""
        found = [line for part in self.parts.values() for line in part.said]
        return list(dict.fromkeys(filter(None, (*found, self.note))))


class KeyedMeanQueries(TablesByKey[KeyedMeansTable, MeansTable, MeansTable], MeanVerbs):
    """Answers for count, sum and mean by key, from two keyed streams that `_both` gives.

    `query`, `sum`, `count` and `mean` are asked as `KeyedRelease.query`: `key=` for one key,
    `keys=` for the total over a group; without them, over all. Tables have lengths of time.
    """

    @abstractmethod
    def _both(self, ask: Callable[[KeyedQueries, KeyedQueries], T]) -> T:
        """Call a function with both streams, under their lock if there is one."""

    def _asked(self, *where: Any, **how: Any) -> tuple[Answer, Answer]:
        def ask(sums: KeyedQueries, counts: KeyedQueries) -> tuple[Answer, Answer]:
            if how.get("key") is None:
                how["keys"] = _group(sums, counts, how.get("keys"))
            return sums.query(*where, **how), counts.query(*where, **how)

        return self._both(ask)

    def _tables(self, every: int | str, asked: AskedOfKeys) -> KeyedMeansTable:
        if not isinstance(every, str):
            raise QueryError("every must be a length of time: 15min, 1h, 1d, 1w, 1mo, 1y")
        length = every

        def ask(sums: KeyedQueries, counts: KeyedQueries) -> KeyedMeansTable:
            asked_both = asked._replace(keys=_group(sums, counts, asked.keys))
            of_sums, of_counts = (one._tables(length, asked_both) for one in (sums, counts))
            parts = {
                name: self._one_table(of_sums[name], of_counts[name]) for name in of_sums.parts
            }
            return KeyedMeansTable(parts, of_sums.note)

        return self._both(ask)

    def _totals(self, every: str, asked: AskedOfKeys) -> MeansTable:
        def ask(sums: KeyedQueries, counts: KeyedQueries) -> MeansTable:
            asked_both = asked._replace(keys=_group(sums, counts, asked.keys))
            of_sums, of_counts = (one._totals(every, asked_both) for one in (sums, counts))
            return means_table(of_sums, of_counts, self.ends)

        return self._both(ask)

    def _one_table(self, sums: Any, counts: Any) -> MeansTable:
        if not isinstance(sums, TimeTable) or not isinstance(counts, TimeTable):
            raise AssertionError("tables by time have times")
        return means_table(sums, counts, self.ends)


def _group(sums: KeyedQueries, counts: KeyedQueries, keys: Iterable[Any] | None) -> list[str]:
    """The keys that both streams use; None: all that both have measured."""
    if keys is not None:
        return sums._group(keys)
    both = set(counts._active())
    found = [name for name in sums._active() if name in both]
    if not found:
        raise QueryError("nothing is released yet")
    return found
