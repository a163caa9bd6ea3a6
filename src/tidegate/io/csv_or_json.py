"""Standard input: CSV, or JSON Lines if the first line begins with a brace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from tidegate.io.columns import Wanted
from tidegate.io.csv_rows import CsvRows
from tidegate.io.json_rows import JsonRows


class CsvOrJson:
    """Decides by the first byte that is not blank. No number begins with a brace, nor does a name
    of a column that could be asked for: what the values are decides nothing.
    """

    def __init__(self, wanted: Sequence[Wanted]) -> None:
        self._wanted = wanted
        self._rows: CsvRows | JsonRows = CsvRows(wanted)
        self._known = False

    @property
    def doubt(self) -> str:
        """What is strange about the first row; may be empty."""
        return getattr(self._rows, "doubt", "")

    def begin(self, line: bytes) -> bool | None:
        """Whether the first line names the columns; None: the next line may, this one is blank."""
        if not self._known and line.strip():
            self._known = True
            if line.lstrip().startswith(b"{"):
                self._rows = JsonRows(self._wanted)
        return self._rows.begin(line)

    def one(self, line: bytes, position: int) -> list[Any]:
        """The wanted fields of a row."""
        return self._rows.one(line, position)

    def many(self, text: bytes, count: int) -> list[NDArray[Any]] | None:
        """The wanted columns of a block."""
        return self._rows.many(text, count)
