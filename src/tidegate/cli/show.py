"""`tidegate show`: the released stream as a line of characters and as a picture."""

from __future__ import annotations

import shutil
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.exit_codes_and_signals import errors_as_exit_codes
from tidegate.cli.file_options import Released, ReleasedColumn, ReleasedFormat, file_of_column
from tidegate.cli.printed_answers import printed_spread, warned
from tidegate.errors import QueryError, SettingError, TidegateError
from tidegate.tables.plain_text import plain_percent, plain_time_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.lattice import FloatArray, IntArray
    from tidegate.record.range_queries_and_answers import Answers
    from tidegate.released import ReleasedFile
    from tidegate.run.phased_run import Phase

_BARS = "▁▂▃▄▅▆▇█"
_PLAIN_BARS = "_.-=+*%#"  # for terminals without Unicode
_POINTS = 2000  # of the picture: more than it has pixels
_WIDEST = 10_000  # columns of the line: each is one query
_LISTED = 6  # thresholds named one by one
_BLUE, _ORANGE = "#0072B2", "#D55E00"  # safe for colour-blind readers (Okabe and Ito)


def show(
    released: Released,
    png: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw a picture with an error band.")
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Values in the moving average; default: 1/50 of the stream."
        ),
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(metavar="COLUMNS", help="Width of the text line (default: the terminal's)."),
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Probability that the band holds the average.")
    ] = 0.95,
    column: ReleasedColumn = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="For a file with keys: the key to show.")
    ] = None,
    format: ReleasedFormat = None,  # noqa: A002  # the option's name
) -> None:
    """Show a released file: its level, and what is known about it.

    Everything shown is already released, so this spends no privacy budget.

    Examples:

    \b
      tidegate show private.csv
      tidegate show private.parquet --window 3600 --png private.png
      tidegate show zones.csv --key north --png north.png
    """  # noqa: D301  # \b keeps the lines of the examples
    with errors_as_exit_codes():
        released = file_of_column(released, column)
        columns = shutil.get_terminal_size().columns if width is None else width
        if not 1 <= columns <= _WIDEST:
            raise SettingError("width", f"must lie between 1 and {_WIDEST}, not {columns}")
        if png is not None:
            _check_picture_to_show(png, released)
        file = _opened_to_show(released, key, format)
        length = _show_window(file, window)
        for name, fact in _show_facts(file, confidence):
            typer.echo(f"{name:<11}{fact}")
        typer.echo("")
        average = _show_average(file, length, columns, confidence)
        import numpy as np  # on demand, as everywhere here: `--help` needs no numbers

        means = average.estimate / length
        levels = _show_levels(file, columns)
        drawn = means if levels is None else levels[1]
        typer.echo(sparkline(drawn.tolist()))
        if (times := file.record.times) is not None:  # of rows, which lie evenly along the line
            typer.echo(plain_time_axis(times.along(file.record.start, file.record.end), drawn.size))
        if levels is not None:
            typer.echo(f"level: {levels[1].min():.4g} to {levels[1].max():.4g}")
        below, above = (
            float(np.median(one)) / length
            for one in (average.estimate - average.low, average.high - average.estimate)
        )
        typer.echo(
            f"moving average of {length:,} values: {means.min():.4g} to {means.max():.4g}; as a "
            f"rule known to {printed_spread(below, above)} ({plain_percent(confidence)})"
        )
        whole = file.record.queries([file.record.start], [file.record.end], confidence)
        for line in filter(
            None, (*(warned(whole) or warned(average)), file.shared, file.unfinished, file.note)
        ):
            typer.echo(line)
        if png is not None:
            _show_picture(png, file, length, confidence, _show_levels(file, _POINTS))
            typer.echo(f"picture: {png}")


def _opened_to_show(released: Path, key: str | None, format: str | None) -> ReleasedFile:  # noqa: A002  # as in `show`
    """Open the file, or one of its keys."""
    from tidegate.keyed.keyed_file import KeyedFile, open_one_file  # on demand, as in `query`

    file = open_one_file(released, format)
    if not isinstance(file, KeyedFile):
        if key is not None:
            raise SettingError("key", f"is for files with keys, and {released.name} has none")
        return file
    if key is None:
        names = ", ".join(file.keys[:_LISTED])
        more = len(file.keys) - _LISTED
        raise SettingError(
            "key",
            f"is required: {released.name} has the keys {names}"
            f"{f' and {more:,} more' if more > 0 else ''}",
        )
    return file.of_key(key)


def _check_picture_to_show(picture: Path, released: Path) -> None:
    """Refuse to overwrite the released file or its metadata with the picture."""
    for kept in (released, released.with_name(f"{released.name}.meta.json")):
        if picture.exists() and kept.exists() and picture.samefile(kept):
            raise SettingError("png", f"is {kept.name}, which it would replace: give another name")


def _show_window(file: ReleasedFile, wanted: int | None) -> int:
    size = file.record.end - file.record.start
    if not size:
        raise QueryError(f"{file.path}: nothing was released yet")
    if wanted is None:  # less than a block would show predictions
        return min(size, max(size // 50, 4 * file.pipeline.perturber.block))
    if not 1 <= wanted <= size:
        raise SettingError("window", f"must lie between 1 and the {size} values, not {wanted}")
    return wanted


def _show_facts(file: ReleasedFile, confidence: float) -> list[tuple[str, str]]:
    pipeline, record = file.pipeline, file.record
    total = record.query(record.start, record.end, confidence)
    size = record.end - record.start
    mean, low, high = (one / size for one in (total.estimate, total.low, total.high))
    speaks = ", of capped values" if total.capped else ""
    thresholds = [f"{_shown_ends(phase)} from {phase.start:,} on" for phase in file.thresholds]
    blocks = f"blocks of {pipeline.perturber.block:,}"
    if not pipeline.estimator.adds_up:
        lowest, *_, highest = [*file.truncation, file.truncation[-1]]
        blocks = f"blocks measured as needed, truncated at {lowest:g} to {highest:g}"
    if len(thresholds) == 1:
        thresholds = [_shown_ends(file.thresholds[0])]
    elif len(thresholds) > _LISTED:
        more = len(thresholds) - _LISTED
        thresholds = [*thresholds[:_LISTED], f"and {more} more"]
    tree = pipeline.perturber.settings()
    kind = str(tree.pop("kind")).rpartition(".")[2]
    chosen = ", ".join(f"{name} {value}" for name, value in tree.items() if value is not None)
    withheld = f"hold-out {pipeline.holdout:,}"
    if pipeline.warm_up:
        withheld = f"warm-up {pipeline.warm_up:,} (released)"
    return [
        ("file", str(file.path.with_name(file.title))),
        ("guarantee", file.guarantee),
        ("values", f"{size:,}"),
        ("mean", f"{mean:.6g} ({plain_percent(confidence)}: {low:.6g} to {high:.6g}){speaks}"),
        ("threshold", "; ".join(thresholds)),
        (
            "settings",
            f"bound {float(pipeline.threshold.bound):g}, "
            f"{f'lower {float(pipeline.lower):g}, ' if pipeline.lower else ''}"
            f"resolution {float(pipeline.resolution):g}, "
            f"{withheld}, {blocks}",
        ),
        ("", f"{kind} ({chosen}), estimator {type(pipeline.estimator).__name__}"),
        ("version", f"released with Tidegate {file.metadata.get('tidegate', 'unknown')}"),
    ]


def _shown_ends(phase: Phase) -> str:
    """The caps of values; the lower one only where it is not 0."""
    return f"{f'{phase.floor:g} to ' if phase.floor else ''}{phase.threshold:g}"


def _show_average(file: ReleasedFile, window: int, points: int, confidence: float) -> Answers:
    """Print sums over moving windows that end at evenly spaced positions."""
    import numpy as np

    record = file.record
    last = record.end - record.start
    ends = record.start + np.unique(np.linspace(window, last, points).astype(np.int64))
    return record.queries(ends - window, ends, confidence)


def _show_levels(file: ReleasedFile, points: int) -> tuple[IntArray, FloatArray] | None:
    """Positions, and the mean level around each. None: the file has no levels."""
    import numpy as np

    start, end = file.record.start, file.record.end
    edges = np.unique(np.linspace(start, end, points + 1).astype(np.int64))
    sums = np.zeros(edges.size - 1)
    try:
        for rows in file.blocks():
            places = np.clip(np.arange(rows.first, rows.first + rows.levels.size), start, end - 1)
            bins = np.searchsorted(edges, places, side="right") - 1
            sums += np.bincount(bins, rows.levels, minlength=sums.size)
    except SettingError:  # written by `open_sink` without levels
        return None
    return edges[1:], sums / np.diff(edges)


def sparkline(values: Sequence[float]) -> str:
    """A line of bars, or of ASCII characters where a terminal has no bars."""
    bars = _BARS
    try:
        bars.encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        bars = _PLAIN_BARS
    low, spread = min(values), max(values) - min(values)
    if not spread:
        return bars[len(bars) // 2] * len(values)
    return "".join(bars[round((value - low) / spread * (len(bars) - 1))] for value in values)


def _show_picture(
    picture: Path,
    file: ReleasedFile,
    window: int,
    confidence: float,
    levels: tuple[IntArray, FloatArray] | None,
) -> None:
    import numpy as np

    from tidegate.released.released_plot import label_dates

    plt = _pyplot()
    average = _show_average(file, window, _POINTS, confidence)
    estimate, low, high = (one / window for one in (average.estimate, average.low, average.high))
    figure, axes = plt.subplots(figsize=(11, 4.5), layout="constrained")
    band = f"{plain_percent(confidence)} interval of the average"
    band += "\nof capped values" * average.capped
    # At the middle of each window: a cycle is then where it is in the level.
    middles = np.maximum(average.end - window // 2, average.start + 1)
    along, untimed = file.along(middles), file.record.times is None
    axes.fill_between(along, low, high, color=_BLUE, alpha=0.25, linewidth=0, label=band)
    axes.plot(along, estimate, color=_BLUE, linewidth=1.3, label=f"average of {window:,} values")
    if levels is not None:
        axes.plot(file.along(levels[0]), levels[1], color="black", linewidth=0.7, label="level")
    label: str | None = "a new threshold"
    for phase in file.thresholds[1:]:
        axes.axvline(
            file.along(np.array([phase.start + 1]))[0],
            color=_ORANGE,
            linestyle="--",
            linewidth=0.9,
            label=label,
        )
        label = None
    axes.set(
        xlabel="position (released values, counted from 0)" if untimed else file.axis_label,
        ylabel="value",
        title=f"{file.title}\n{textwrap.fill(file.guarantee, 90)}",
        xlim=(file.record.start, file.record.end) if untimed else (along[0], along[-1]),
    )
    if untimed:
        axes.xaxis.set_major_formatter(lambda position, _: f"{position:,.0f}")
    label_dates(axes, along)
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    try:
        figure.savefig(picture, dpi=120, format="png")
    except OSError as error:
        from tidegate.io.errors import sink_error

        raise sink_error(error, str(picture)) from None
    finally:
        plt.close(figure)


def _pyplot() -> Any:
    """Import matplotlib for use without a display."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise TidegateError(
            "--png needs matplotlib. Run pip install '.[cli]' in the checkout of tidegate"
        ) from None
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt
