"""`ReleasedMeans`: sums and counts of events from one run, queried for count, sum and mean."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tidegate.errors import QueryError
from tidegate.record.means_of_events import Ends, MeanQueries
from tidegate.record.record import Record
from tidegate.released.released_columns import ReleasedColumns, column_file, open_columns
from tidegate.run.column_budgets import COUNT

T = TypeVar("T")


class ChosenColumn:
    """The column that `query`, `mean` and `table` of a run with --mean refer to."""

    column: str | None = None

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The columns, including the count."""

    @property
    def title(self) -> str:
        """The name of the column.

        Raises:
            QueryError: there are several, and `of` has not chosen one.
        """
        columns = [name for name in self.names if name != COUNT]
        if self.column is None and len(columns) > 1:
            names = ", ".join(columns)
            raise QueryError(f"say of which column, such as of({columns[0]!r}): {names}")
        return self.column or columns[0]

    def _check_column(self, column: str) -> None:
        if column == COUNT or column not in self.names:
            known = ", ".join(name for name in self.names if name != COUNT)
            raise QueryError(f"there is no mean of {column!r}; there are: {known}")


class ReleasedMeans(ChosenColumn, MeanQueries, ReleasedColumns):
    """What `tidegate release --mean` wrote: `means["fare"]` has sums, `means["count"]` counts.

    `query`, `mean` and `table` speak of the column of values; if there are several, `of("tip")`
    says which.
    """

    @property
    def names(self) -> list[str]:
        """The names of the columns; the count is last."""
        return list(self._columns)

    def of(self, column: str) -> ReleasedMeans:
        """The same files, for the means of another column."""
        self._check_column(column)
        found = ReleasedMeans(self._columns, self.guarantee)
        found.column = column
        return found

    def __repr__(self) -> str:
        names = ", ".join(self.names)
        return f"<ReleasedMeans {names}: {len(self)} ticks; {self.guarantee}>"

    def _both(self, ask: Callable[[Record, Record], T]) -> T:
        return ask(self[self.title].record, self[COUNT].record)

    @property
    def sums(self) -> Record:
        """The record of the sums, whose answers also use the counts."""
        return self._both(self._sums_given)

    @property
    def ends(self) -> Ends:
        """The public bounds of an event's value, which also bound every mean."""
        lattice = self[self.title].pipeline.lattice
        return float(lattice.lower), float(lattice.bound)


def open_means(
    path: str | Path,
    format: str | None = None,  # noqa: A002  # as in open_source
) -> ReleasedMeans | None:
    """Open the files of a run with --mean under this name. None: there are none."""
    names = columns_of_means(path, format)
    if names is None:
        return None
    opened = open_columns(path, names, format)
    return ReleasedMeans(opened._columns, opened.guarantee)


def columns_of_means(
    path: str | Path,
    format: str | None = None,  # noqa: A002  # as in open_source
) -> list[str] | None:
    """The columns of a run with --mean, the count last. None: this is not such a run."""
    from tidegate.io import read_metadata  # on demand: answers in memory read no files

    if Path(path).exists() or not Path(count := column_file(path, COUNT)).exists():
        return None
    facts = (read_metadata(count, format) or {}).get("together")
    if not isinstance(facts, dict) or facts.get(COUNT) != COUNT:
        return None
    columns = facts.get("columns")
    names = [str(name) for name in columns if name != COUNT] if isinstance(columns, dict) else []
    return [*names, COUNT] if names else None
