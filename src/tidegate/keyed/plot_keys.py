"""Plot several keys: the moving average of each, with its error band."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from tidegate.errors import QueryError, SettingError
from tidegate.exact_numbers import said
from tidegate.record.record import Record
from tidegate.record.rows_and_levels import moving_average_of_rows, window_of_rows
from tidegate.released.released_plot import POINTS, label_dates, places_along_plot, plot_axis_label
from tidegate.tables.optional_libraries import require_library

# Told apart with any colour vision (Okabe and Ito).
_COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7b8794", "#000000",
)  # fmt: skip
MOST = len(_COLOURS)


def draw_keys(
    records: Mapping[str, Record],
    block: int,
    heading: str,
    *,
    window: int | None,
    confidence: float,
    axes: Any,
) -> Any:
    """Plot on these axes, or on new ones.

    Args:
        records: of each key that is drawn.
        block: of the pipeline.
        heading: the title.
        window: values in the moving average; None: chosen for the shortest of the streams.
        confidence: of the bands.
        axes: of matplotlib, or None.
    """
    check_number_of_keys_to_plot(len(records))
    sizes = [one.end - one.start for one in records.values()]
    if not min(sizes):
        raise QueryError("nothing was released yet: there is nothing to draw")
    if window is None:
        window = min(window_of_rows(one, block) for one in records.values())
    if not 1 <= window <= min(sizes):
        raise SettingError(
            "window", f"must lie between 1 and the {min(sizes)} values, not {said(window)}"
        )
    sums = [moving_average_of_rows(one, window, POINTS, confidence) for one in records.values()]
    if axes is None:
        _, axes = require_library("matplotlib.pyplot", "plot()").subplots(
            figsize=(10, 4), layout="constrained"
        )
    for (key, record), found, colour in zip(records.items(), sums, _COLOURS, strict=False):
        where = places_along_plot(record.times, found.end)
        low, high = found.low / window, found.high / window
        axes.fill_between(where, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(where, found.estimate / window, color=colour, label=key)
    first = next(iter(records.values()))
    about = f"Moving average of {window:,} values, {confidence:.0%} band"
    axes.set_title(textwrap.fill(f"{heading}", 90), loc="left", fontsize=10)
    axes.set(xlabel=plot_axis_label(first.times), ylabel="value")
    label_dates(axes, places_along_plot(first.times, sums[0].end))
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", frameon=False, ncols=4, title=about, alignment="left")
    return axes


def check_number_of_keys_to_plot(keys: int) -> None:
    """Refuse more keys than a plot can show."""
    if keys > MOST:
        raise QueryError(
            f"{keys:,} keys are too many for one picture: give key= for one, or keys= for up to "
            f"{MOST}"
        )
