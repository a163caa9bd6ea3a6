"""Estimate how many rows a file has, without reading its values."""

from __future__ import annotations

from pathlib import Path

from tidegate.io.file_formats import is_standard, kind_of
from tidegate.tables.optional_libraries import require_for_files

_PIECE = 1 << 20


def rows_at_most(
    path: str | Path | None,
    format: str | None = None,  # noqa: A002  # as in open_source
) -> int | None:
    """An upper bound on the rows of a file, by its line ends; None: it cannot be known beforehand.

    The number of rows is public; nothing of their content is looked at. Pipes and compressed files
    have to be read to know it.
    """
    kind = kind_of(path, format)
    if is_standard(path) or kind.compression is not None or not Path(path or "").is_file():
        return None
    try:
        if kind.format == "parquet":
            parquet = require_for_files("pyarrow.parquet")
            return int(parquet.read_metadata(path).num_rows)
        with Path(path or "").open("rb") as file:
            return 1 + sum(piece.count(b"\n") for piece in iter(lambda: file.read(_PIECE), b""))
    except Exception:  # noqa: BLE001  # whoever reads it next says what is wrong with it
        return None
