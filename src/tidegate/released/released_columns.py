"""Several columns of one table: released one by one, queried together, with ratios between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from tidegate.errors import QueryError, SettingError
from tidegate.exact_numbers import said
from tidegate.guarantee import Guarantee
from tidegate.randomness import Epoch, Randomness, secure
from tidegate.record.mean_and_ratio import Ratio, ratio
from tidegate.record.times.time_ranges_and_tables import Moment
from tidegate.released.released import Released, ReleasedTable
from tidegate.released.released_file import ReleasedFile
from tidegate.run.column_budgets import column_file_label, facts_of_all_columns
from tidegate.tables import html
from tidegate.tables.tables_from_numpy import Tabular


class ReleasedColumns(Tabular):
    """The released columns of one table. `released["tip"]` is one of them.

    Attributes:
        guarantee: of a row, all columns together.
    """

    def __init__(
        self,
        columns: Mapping[str, ReleasedTable],
        guarantee: Guarantee | str,
        *,
        in_memory: Mapping[str, Released] | None = None,
    ) -> None:
        self._columns, self._in_memory = dict(columns), in_memory  # None: they are files
        self.guarantee = str(guarantee)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self._columns)

    def __getitem__(self, name: str) -> ReleasedTable:
        if name not in self._columns:
            raise QueryError(f"there is no column {said(name)}; there are: {', '.join(self.names)}")
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        """The number of rows."""
        return min(len(column) for column in self._columns.values())

    def __repr__(self) -> str:
        names = ", ".join(self.names)
        return f"<ReleasedColumns {names}: {len(self)} rows; {self.guarantee}>"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [("guarantee", f"{self.guarantee}, all columns together")]
        rows += [(name, column.guarantee) for name, column in self._columns.items()]
        return html.facts(f"Released: {', '.join(self.names)}", rows)

    @property
    def zone(self) -> str | None:
        """The zone of the times, if they have one."""
        return next(iter(self._columns.values())).zone

    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns: time (if there is one), position, and `value_NAME`, `level_NAME` of each."""
        found: dict[str, NDArray[Any]] = {}
        for name, column in self._columns.items():
            rows = column.columns()
            for part in ("time", "position"):
                if part in rows:
                    found.setdefault(part, rows[part])
            found[f"value_{name}"], found[f"level_{name}"] = rows["value"], rows["level"]
        return found

    def save(self, path: str | Path) -> list[str]:
        """Write a file for each column, as `Released.save`: `private.csv` → `private.tip.csv`, ….

        `tidegate.released.open_columns(path, names)` opens them together. Returns the files' names.
        """
        columns = self._in_memory
        if columns is None:
            raise SettingError("path", "these columns were opened from files: copy those")
        all_of_them = facts_of_all_columns({name: one.promise for name, one in columns.items()})
        names = {name: column_file(path, name) for name in columns}
        for name, one in columns.items():
            one.save(names[name], together=all_of_them, column=name)
        return [*names.values()]

    def ratio(
        self,
        numerator: str,
        denominator: str,
        start: int | None = None,
        end: int | None = None,
        confidence: float = 0.95,
        *,
        from_: Moment | None = None,
        to: Moment | None = None,
    ) -> Ratio:
        """The sum of one column over that of another, over a range, with Fieller's interval.

        Raises:
            QueryError: the denominator may be 0, or the range cannot be answered.
        """
        if numerator == denominator:
            raise QueryError("a ratio needs two columns")
        sums = [
            self[name].query(start, end, confidence, from_=from_, to=to)
            for name in (numerator, denominator)
        ]
        return ratio(*sums)


@dataclass(frozen=True)
class RandomnessOfColumn:
    """Randomness for one column: the noise of two columns is unrelated, also in a simulation."""

    name: str
    base: Randomness | None = None

    def new_epoch(self) -> Epoch:
        """An epoch derived from one of the base and the name of the column."""
        return (self.base or secure()).new_epoch().of_key(f"column {self.name}")


def column_file(path: str | Path, name: str) -> str:
    """The file of one column: `private.csv` → `private.tip.csv`.

    >>> column_file("out/private.csv.gz", "Tip amount"), column_file("p_0.1.parquet", "tip")
    ('out/private.Tip_amount.csv.gz', 'p_0.1.tip.parquet')
    """
    place = Path(path)
    extension = place.suffix
    if extension.lower() in (".gz", ".zst"):
        extension = Path(place.stem).suffix + extension
    stem = place.name.removesuffix(extension)
    return str(place.with_name(f"{stem}.{column_file_label(name)}{extension}"))


def _named_columns(path: str | Path) -> list[str]:
    """The names of the columns whose files lie beside each other."""
    before, after = column_file(path, "\0").split(column_file_label("\0"), 1)
    folder, first = Path(before + "x").parent, Path(before + "x").name[:-1]
    try:
        found = [one.name for one in folder.iterdir()]
    except OSError:
        return []
    return sorted(
        one.removeprefix(first).removesuffix(after)
        for one in found
        if one.startswith(first) and one.endswith(after) and len(one) > len(first) + len(after)
    )


def columns_beside(path: str | Path) -> list[str]:
    """Files of columns that were released under this name, which is not a file itself."""
    place = Path(path)
    stem, _, extensions = place.name.partition(".")
    if place.exists() or not extensions:
        return []
    return sorted(one.name for one in place.parent.glob(f"{escape(stem)}.*.{escape(extensions)}"))


class FileOfColumn(Protocol):
    """A released file, with keys or without."""

    @property
    def path(self) -> Path:
        """The path of the file."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The public facts of the file."""


def open_columns(
    path: str | Path,
    names: list[str],
    format: str | None = None,  # noqa: A002  # as in open_source
) -> ReleasedColumns:
    """Open the files of several columns that one run of `tidegate release` wrote.

    Args:
        path: the output that was named, such as `private.csv`; the files are `private.tip.csv`, …
        names: the columns.
        format: csv, jsonl or parquet, if the extension does not tell.

    Raises:
        QueryError: the files are not of one run.
    """
    for name in names:
        if not Path(column_file(path, name)).exists() and (there := _named_columns(path)):
            raise QueryError(f"there is no released column {name!r} there: {', '.join(there)}")
    files = {name: ReleasedFile.open(column_file(path, name), format) for name in names}
    return ReleasedColumns(files, guarantee_together(files))


def guarantee_together(files: Mapping[str, FileOfColumn]) -> str:
    """The guarantee of several columns' files together.

    Raises:
        QueryError: they are not of one run.
    """
    said = [file.metadata.get("together") for file in files.values()]
    if not said or any(one != said[0] or not isinstance(one, dict) for one in said):
        raise QueryError("these columns were not released by one run: their sums do not compare")
    for name, file in files.items():
        if file.metadata.get("column") != name:
            raise QueryError(f"{file.path} is not of the column {name!r}")
    return str((said[0] or {}).get("guarantee", ""))
