"""Tables by key: a table for each key, and their text and HTML.

What a keyed release, a keyed file and a stream of a service understand alike stands here once.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tidegate.keyed.key_names import key_text
from tidegate.record.answer_text import SHOWN, text_of_cautions, text_of_numbers
from tidegate.record.range_queries_and_answers import Answers
from tidegate.record.times.time_ranges_and_tables import TimeTable, joined_time_columns
from tidegate.tables import html, plain_text
from tidegate.tables.tables_from_numpy import Tabular

FEWEST = 3  # rows of a key that are shown
MOST_CELLS = 40  # rows of all keys that are shown


P = TypeVar("P", bound="_Part", covariant=True)


class _Part(Protocol):
    """The table of one key."""

    def __len__(self) -> int: ...

    def columns(self) -> dict[str, NDArray[Any]]: ...


@dataclass(frozen=True, repr=False)
class TableByKey(Tabular, Generic[P]):
    """A table for each key: `table[key]`.

    Attributes:
        parts: these tables.
        note: which parts of the range are left out; may be empty.
    """

    parts: dict[str, P]
    note: str = ""

    def __len__(self) -> int:
        return sum(map(len, self.parts.values()))

    def __getitem__(self, key: Any) -> P:
        return self.parts[key_text(key)]

    @property
    def zone(self) -> str | None:
        """The zone of the times."""
        return next((getattr(part, "zone", None) for part in self.parts.values()), None)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns of the tables, preceded by the key."""
        keys = np.repeat(np.array([*self.parts], np.str_), [*map(len, self.parts.values())])
        return {"key": keys} | self._columns_of_parts()

    def _columns_of_parts(self) -> dict[str, NDArray[Any]]:
        tables = [part.columns() for part in self.parts.values()]
        names = list(tables[0]) if tables else []
        return {name: np.concatenate([table[name] for table in tables]) for name in names}

    def __repr__(self) -> str:
        return "\n".join([self._about, plain_text.table(*self._cells()), *self._said()])

    def _repr_html_(self) -> str:
        shown = html.table(*self._cells())
        return f"<div><strong>{self._about}</strong>{shown}{html.lines(self._said())}</div>"

    @property
    @abstractmethod
    def _about(self) -> str:
        """A description in one line."""

    @abstractmethod
    def _cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The header and the first rows of each key, as many as there is room for."""

    @abstractmethod
    def _said(self) -> list[str]:
        """Warnings about these numbers, each once."""


class KeyedTable(TableByKey[TimeTable | Answers]):
    """A row for each key and each part of a range."""

    def _columns_of_parts(self) -> dict[str, NDArray[Any]]:
        timed = [part for part in self.parts.values() if isinstance(part, TimeTable)]
        return (
            joined_time_columns(timed) if timed else super()._columns_of_parts()
        )  # then of all keys

    @property
    def _about(self) -> str:
        sure = next(
            (f"{_sums_in_keyed_table(one).confidence:.0%} " for one in self.parts.values()), ""
        )
        return f"{len(self):,} sums of {len(self.parts):,} keys with {sure}intervals"

    def _cells(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The header and the first rows of each key, as many as there is room for."""
        timed = all(isinstance(part, TimeTable) for part in self.parts.values())
        of_each = max(FEWEST, SHOWN // max(1, len(self.parts)))
        cells: list[tuple[str, ...]] = []
        for shown, (key, part) in enumerate(self.parts.items()):
            if len(cells) >= MOST_CELLS:
                cells.append(("…", f"{len(self.parts) - shown:,} more keys", "", "", "", ""))
                break
            size = len(part) if len(part) <= of_each + 1 else of_each
            starts = part.times if isinstance(part, TimeTable) else []
            for at in range(size):
                one = _sums_in_keyed_table(part)[at]
                rows = int(part.rows[at]) if isinstance(part, TimeTable) else one.end - one.start
                start = starts[at] if starts else f"{one.start:,}"
                cells.append((key, start, f"{rows:,}", *(f"{n:.6g}" for n in text_of_numbers(one))))
            if size < len(part):
                cells.append((key, "…", f"{len(part) - size:,} more", "", "", ""))
        return ("key", "from" if timed else "start", "rows", "sum", "low", "high"), cells

    def _said(self) -> list[str]:
        """Warnings about these sums, each once."""
        parts = self.parts.values()
        found = [
            line
            for one in parts
            for line in (
                *text_of_cautions(_sums_in_keyed_table(one)),
                _sums_in_keyed_table(one).note,
            )
        ]
        return list(dict.fromkeys(filter(None, (*found, self.note))))


def _sums_in_keyed_table(part: TimeTable | Answers) -> Answers:
    return part.answers if isinstance(part, TimeTable) else part
