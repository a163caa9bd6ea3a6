"""The part of `tidegate check` about --keys: rows of other keys would be dropped. Not private."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidegate.cli.declared_keys_and_rows import read_keys
from tidegate.errors import SettingError
from tidegate.tables.repeated_items import RepeatedItems
from tidegate.timestamps import Times

if TYPE_CHECKING:
    from tidegate.io import Batch


class CheckedDeclaredKeys:
    """The keys of a file for --keys, and how many rows have none of them.

    Args:
        path: of the file, one key a line; None: keys are not declared, and all rows are looked at.
    """

    def __init__(self, path: str | None, by: str | None) -> None:
        from tidegate.keyed.key_names import KeyNames, declared_keys  # on demand, as all of it

        self.path, self.dropped = path, 0
        if path is not None and by is None:
            raise SettingError("keys", "needs --by, the column with the keys")
        self._names = None
        if path is not None:
            self._names = KeyNames(declared_keys(read_keys(path)), more=False)

    @property
    def rows(self) -> Callable[[Any], NDArray[np.bool_]] | None:
        """Which rows have a declared key, given the keys of all; None: keys are not declared."""
        names = self._names
        return None if names is None else lambda keys: names.codes(keys, len(keys), 0) >= 0

    def of(self, batch: Batch) -> Batch:
        """The rows that a release takes; their keys as they are declared."""
        if self._names is None or batch.users is None:
            return batch
        codes = self._names.codes(batch.users, len(batch), 0)
        taken = codes >= 0
        self.dropped += int(np.count_nonzero(~taken))
        times = batch.times and Times(batch.times.ticks[taken], batch.times.clock)
        keys = RepeatedItems.present(self._names.names, codes[taken])
        return type(batch)(batch.values[taken], keys, times=times)

    @property
    def problem(self) -> str:
        """Why no row is left to look at; empty if there is another reason."""
        if not self.dropped:
            return ""
        return (
            f"keys: no row has a key of {self.path}. Are they spelt as in the input (leading "
            "zeros, spaces, another column)?"
        )

    def facts(self, keys: int) -> list[tuple[str, str]]:
        """What to tell the owner; `keys` is how many have rows."""
        if self._names is None:
            return []
        declared = len(self._names)
        found = [("declared", f"{declared:,} keys in {self.path}; {declared - keys:,} have no row")]
        if self.dropped:
            said = f"{self.dropped:,} rows have another key: a release drops them"
            found.append(("dropped", said))
        return found
