"""Support for polars: `frame.tidegate.release(...)`, and released files as frames.

    import polars as pl, tidegate.polars
    released = pl.read_csv("meters.csv").tidegate.release("watts", epsilon=0.5, bound=5000)
    released.to_polars()                                  # position, value, level
    tidegate.polars.read_released("private.parquet")      # the same of a file

Importing this module registers the namespace.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from tidegate.released import Released, ReleasedFile, release


class Frame:
    """The namespace `frame.tidegate`."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __repr__(self) -> str:
        return "<tidegate of a frame>"

    def release(self, value: str, **settings: Any) -> Released:
        """Release one column: see `tidegate.release`. Every call spends ε anew."""
        return release(self._frame, value, **settings)


class Series:
    """The namespace `series.tidegate`."""

    def __init__(self, series: Any) -> None:
        self._series = series

    def __repr__(self) -> str:
        return "<tidegate of a series>"

    def release(self, **settings: Any) -> Released:
        """Release this column: see `tidegate.release`. Every call spends ε anew."""
        found: Released = release(self._series, **settings)
        return found


def read_released(path: str | Path, format: str | None = None) -> Any:  # noqa: A002  # as in open_source
    """The rows of a released file as a `polars.DataFrame`."""
    return ReleasedFile.open(path, format).to_polars()


if importlib.util.find_spec("polars"):  # who does not have it has no frames either
    _polars = importlib.import_module("polars")
    _polars.api.register_dataframe_namespace("tidegate")(Frame)
    _polars.api.register_series_namespace("tidegate")(Series)
