"""`RepeatedItems`: a column of few distinct items, each stored once, and each row's index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tidegate.lattice import IntArray


class RepeatedItems:
    """A dictionary-encoded column with the interface of a list: slices, `tolist`.

    Attributes:
        distinct: the items that rows have, in the order in which they come; in a joined column one
            may be there twice.
        places: which of them each row has.
    """

    def __init__(self, distinct: list[Any], places: IntArray) -> None:
        self.distinct, self.places = distinct, places

    @classmethod
    def present(cls, items: list[Any], places: IntArray) -> RepeatedItems:
        """Those of these items that occur in rows."""
        used, first = np.unique(places, return_index=True)
        order = np.argsort(first)
        ranks = np.empty(len(items), dtype=np.int64)
        ranks[used[order]] = np.arange(used.size)
        return cls([items[place] for place in used[order].tolist()], ranks[places])

    @classmethod
    def of(cls, column: Any) -> RepeatedItems:
        """The encoding of any column of hashable items."""
        if isinstance(column, RepeatedItems):
            return column
        items = column.tolist()
        codes = {item: code for code, item in enumerate(dict.fromkeys(items))}
        return cls(list(codes), np.array([codes[item] for item in items], dtype=np.int64))

    @classmethod
    def joined(cls, columns: Sequence[Any]) -> RepeatedItems:
        """Columns concatenated."""
        parts = [cls.of(column) for column in columns]
        firsts = np.cumsum([0, *(len(part.distinct) for part in parts)])
        distinct = [item for part in parts for item in part.distinct]
        moved = [part.places + first for part, first in zip(parts, firsts, strict=False)]
        return cls(distinct, np.concatenate(moved))

    def __repr__(self) -> str:  # never shows raw values
        return f"<RepeatedItems of {len(self)} rows>"

    def __len__(self) -> int:
        return self.places.size

    def __getitem__(self, rows: slice) -> RepeatedItems:
        return RepeatedItems.present(self.distinct, self.places[rows])

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """The item of every row."""
        return list(map(self.distinct.__getitem__, self.places.tolist()))
