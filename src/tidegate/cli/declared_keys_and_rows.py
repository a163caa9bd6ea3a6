"""Keys that are declared, and how many rows of a file each has: what a horizon is chosen by."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidegate.cli.file_options import unpacked_file_size
from tidegate.cli.pipeline_from_options import (
    DEFAULT_PRESET,
    FEW_ROWS,
    SHORTEST_KEY,
    rows_of_an_average_row,
)
from tidegate.errors import MissingError, SettingError, TidegateError

if TYPE_CHECKING:  # files are imported when they are needed: start-up counts
    from tidegate.io import Batch
    from tidegate.io.held_source import HeldSource
    from tidegate.lattice import IntArray

# Rows of a file that is read once: in memory each takes 16 bytes, with a time 24. Of lines it is
# not known beforehand how many they are: bytes of a plain and of a packed file that may be counted.
_HELD, _HELD_LINES, _HELD_PACKED = 1 << 24, 1 << 28, 1 << 26


def read_keys(path: Path | str) -> list[str]:
    """The keys of a file, one a line; blank lines do not count."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise MissingError(f"keys: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingError("keys", f"{path} is not a text file in UTF-8") from None
    found = [line.strip() for line in text.splitlines()]
    return [line for line in found if line]


def rows_with_declared_keys(keys: list[str]) -> Callable[[Any], NDArray[np.bool_]]:
    """Which rows have one of these keys, given the keys of all rows."""
    from tidegate.keyed.key_names import KeyNames, declared_keys

    names = KeyNames(declared_keys(keys), more=False)
    return lambda column: names.codes(column, len(column), 0) >= 0


def options_with_rows_of_keys(
    options: dict[str, Any], source: str, keys: list[str] | None, opening: dict[str, Any]
) -> tuple[dict[str, Any], HeldSource | None]:
    """The options, with the rows of the key that an average row lies in as horizon; and the input,
    if held.

    That is Σn²/Σn for keys of n rows, and their number of rows where they are alike. A key that is
    far longer than the horizon stops choosing its threshold while that cuts many values.

    Privacy: settings are published. How many rows a key has is public; how many rows have a key
    that was not declared is not, so they do not count here either.
    """
    fixed = {"horizon", "holdout", "state", "follow", "start-early", "rethreshold"}
    if fixed & options.keys() or options.get("preset", DEFAULT_PRESET) != DEFAULT_PRESET:
        return options, None
    from tidegate.io.file_kind_and_row_count import file_kind_of, is_standard, row_count_at_most
    from tidegate.methods._preset import HORIZON

    kind, held = file_kind_of(source, options.get("format")), None
    lines = kind.recoverable and not is_standard(source) and Path(source).is_file()
    if lines and keys is not None:  # then its lines need not be counted first
        held = _held_file_with_keys(source, opening)
    rows = held.rows if held is not None else row_count_at_most(source, options.get("format"))
    if rows is not None and keys is not None:
        held = held if lines else _held_file_with_keys(source, opening)
        each = _rows_of_declared_keys(source, options, keys, held)
        rows = None if each is None else sum(each)
    else:
        each = None if rows is None else [rows]
    if not each or rows is None or rows < FEW_ROWS:
        return options, held
    expected = max(SHORTEST_KEY, rows_of_an_average_row(each))
    return (options if expected >= HORIZON else {**options, "horizon": expected}), held


def _held_file_with_keys(source: str, opening: dict[str, Any]) -> HeldSource | None:
    """A file that is not too large for the memory, read once for its length and its release.

    None: it is too large, or has a row that cannot be read; its rows are released up to there.
    """
    from tidegate.io import open_source
    from tidegate.io.held_source import HeldSource

    if not _fits_into_memory(source, opening["format"]):
        return None
    try:
        with open_source(source, **opening) as opened:
            return HeldSource(opened)
    except TidegateError:  # whoever reads it next says what is wrong with it
        return None


def _fits_into_memory(source: str, format: str | None) -> bool:  # noqa: A002  # as elsewhere
    from tidegate.io.file_kind_and_row_count import file_kind_of, row_count_at_most

    kind = file_kind_of(source, format)
    most = _HELD_LINES if kind.compression is None else _HELD_PACKED
    if kind.format != "parquet" and unpacked_file_size(source, format) > most:
        return False
    rows = None if kind.compression else row_count_at_most(source, format)
    return bool(_HELD) if rows is None else rows <= _HELD


def _rows_of_declared_keys(
    source: str, options: dict[str, Any], keys: list[str], held: HeldSource | None
) -> list[int] | None:
    """How many rows each declared key has in a file; None: it cannot be read to its end."""
    from tidegate.io.open_source import open_keys
    from tidegate.keyed.key_names import KeyNames, declared_keys
    from tidegate.tables.repeated_items import RepeatedItems

    names = ("format", "by", "header", "delimiter", "decimal")
    reading: dict[str, Any] = {name: options.get(name) for name in names}

    def declared_in(batches: Iterable[Batch]) -> list[int]:
        found: IntArray = np.zeros(len(keys) + 1, dtype=np.int64)  # the last are of no declared key
        for items in (RepeatedItems.of(batch.users) for batch in batches):
            codes = declared.codes(items.distinct, len(items.distinct), 0)
            np.add.at(found, codes, np.bincount(items.places, minlength=len(items.distinct)))
        return [int(rows) for rows in found[:-1]]

    try:
        declared = KeyNames(declared_keys(keys), more=False)
        if held is not None:
            return declared_in(held.held)
        with open_keys(source, **reading) as opened:
            return declared_in(opened.batches())
    except TidegateError:  # whoever reads it next says what is wrong with it
        return None
