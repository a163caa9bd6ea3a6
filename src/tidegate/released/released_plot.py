"""Plot a release: level, moving average, and its error band."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidegate.errors import QueryError, SettingError
from tidegate.exact_numbers import said
from tidegate.lattice import IntArray
from tidegate.record.rows_and_levels import moving_average_of_rows, window_of_rows
from tidegate.record.times.time_index import TimeIndex
from tidegate.tables.optional_libraries import require_library

if TYPE_CHECKING:
    from tidegate.released.released import ReleasedTable

POINTS = 1000  # about as many as the picture has pixels
_BLUE, _GREY = "#0072B2", "#7b8794"  # told apart with any colour vision, on light and dark


def plot_axis_label(times: TimeIndex | None) -> str:
    """The label of a plot's horizontal axis."""
    if times is None:
        return "position"
    zone = times.clock.zone
    return "time" if zone is None else f"time ({zone})"


def places_along_plot(times: TimeIndex | None, ends: IntArray) -> NDArray[Any]:
    """The horizontal coordinates of these positions in a plot."""
    if times is None:
        return ends
    local = times.clock.local(times.times(ends - 1))
    return local.astype("datetime64[ns]").astype("datetime64[ms]")


def label_dates(axes: Any, where: NDArray[Any]) -> None:
    """Label times shortly and without overlap: a day as 29, and Nov where a month begins.

    The labels that matplotlib chooses are whole dates, and two days where months meet.
    """
    if where.dtype.kind != "M":  # positions
        return
    dates = require_library("matplotlib.dates", "plot()")
    locator = dates.AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))


def plot_released(table: ReleasedTable, window: int | None, confidence: float, axes: Any) -> Any:
    """Plot on these axes, or on new ones."""
    record = table.record
    size = record.end - record.start
    if not size:
        raise QueryError("nothing was released yet: there is nothing to draw")
    if window is None:
        window = window_of_rows(record, table.pipeline.perturber.block)
    if not 1 <= window <= size:
        raise SettingError(
            "window", f"must lie between 1 and the {size} values, not {said(window)}"
        )
    sums = moving_average_of_rows(record, window, POINTS, confidence)
    if axes is None:
        _, axes = require_library("matplotlib.pyplot", "plot()").subplots(
            figsize=(10, 4), layout="constrained"
        )
    where = table.along(sums.end)
    at, levels = _plotted_levels(table)
    axes.plot(table.along(at), levels, color=_GREY, linewidth=0.9, label="level")
    axes.fill_between(
        where,
        sums.low / window,
        sums.high / window,
        color=_BLUE,
        alpha=0.25,
        linewidth=0,
        label=f"{confidence:.0%} band",
    )
    axes.plot(
        where, sums.estimate / window, color=_BLUE, label=f"moving average of {window:,} values"
    )
    axes.set_title(textwrap.fill(f"{table.title}. {table.guarantee}", 90), loc="left", fontsize=10)
    axes.set(xlabel=table.axis_label, ylabel="value", xlim=(where[0], where[-1]))
    label_dates(axes, where)
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", frameon=False, ncols=3)
    return axes


def _plotted_levels(table: ReleasedTable) -> tuple[Any, Any]:
    """The mean level of pieces of equal length, and the end of each."""
    rows = table.rows()
    edges = np.unique(np.linspace(0, rows.levels.size, POINTS + 1).astype(np.int64))
    means = np.add.reduceat(rows.levels, edges[:-1]) / np.diff(edges)
    return rows.first + edges[1:], means
