"""`ReleasedMeansByKey`: the files of a run with --mean and --by, queried together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from tidegate.errors import QueryError
from tidegate.exact_numbers import said
from tidegate.keyed.answers_from_key_records import KeyedQueries
from tidegate.keyed.means_by_key import KeyedMeanQueries
from tidegate.record.means_of_events import Ends
from tidegate.released.released_columns import guarantee_together
from tidegate.released.released_means import ChosenColumn
from tidegate.run.column_budgets import COUNT

if TYPE_CHECKING:
    from tidegate.keyed.keyed_file import KeyedFile

T = TypeVar("T")


class ReleasedMeansByKey(ChosenColumn, KeyedMeanQueries):
    """What `tidegate release --mean --by` wrote. Made by `tidegate.open("means.csv")`.

    `means["fare"]` is the file of the sums, `means["count"]` that of the numbers. `query`, `mean`
    and `table` speak of the column of values; if there are several, `of("tip")` says which.

    Attributes:
        guarantee: of an event, all columns together.
    """

    def __init__(self, files: Mapping[str, KeyedFile], column: str | None = None) -> None:
        self._files, self.column = dict(files), column
        self.guarantee = guarantee_together(self._files)

    def __repr__(self) -> str:
        keys = f"{len(self.keys):,} keys; {self.guarantee}"
        return f"<ReleasedMeansByKey {', '.join(self.names)}: {keys}>"

    @property
    def names(self) -> list[str]:
        """The names of the columns; the count is last."""
        return list(self._files)

    @property
    def keys(self) -> list[str]:
        """All keys that have rows."""
        return self._files[COUNT].keys

    @property
    def zone(self) -> str | None:
        """The zone of the times, if they have one."""
        return self._files[COUNT].zone

    def __getitem__(self, name: str) -> KeyedFile:
        if name not in self._files:
            raise QueryError(f"there is no column {said(name)}; there are: {', '.join(self.names)}")
        return self._files[name]

    def of(self, column: str) -> ReleasedMeansByKey:
        """The same files, for the means of another column."""
        self._check_column(column)
        return ReleasedMeansByKey(self._files, column)

    def _both(self, ask: Callable[[KeyedQueries, KeyedQueries], T]) -> T:
        return ask(self._files[self.title], self._files[COUNT])

    @property
    def ends(self) -> Ends:
        """The public bounds of an event's value, which also bound every mean."""
        lattice = self._files[self.title].pipeline.lattice
        return float(lattice.lower), float(lattice.bound)
