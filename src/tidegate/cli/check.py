"""`tidegate check`: a look at raw data for its owner, before any setting is chosen."""

from __future__ import annotations

import shlex
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from tidegate.cli.check_errors import (
    MUCH_LOST,
    doubts_of_errors,
    epsilon_with_good_errors,
    error_table,
    expected_errors,
    too_coarse,
    written,
)
from tidegate.cli.check_reading_options import found_reading_options, reading_facts
from tidegate.cli.check_rehearsal import RehearsalValues
from tidegate.cli.check_streams_and_times import CheckedStreams, CheckedTimes
from tidegate.cli.check_values import check_facts, nothing_to_check
from tidegate.cli.exit_codes_and_signals import errors_as_exit_codes
from tidegate.cli.file_options import Column, DecimalSign, Delimiter, Header, InputFormat, Source
from tidegate.cli.show import sparkline
from tidegate.errors import InputError, SettingError
from tidegate.exact_numbers import exact, positive, said
from tidegate.tables.plain_text import plain_number

if TYPE_CHECKING:
    from tidegate.plan.data_profile import DataProfile

_FIRST = (
    "For you alone: this looks at raw values and is not private. Do not publish it. Nothing is "
    "written, and no budget is spent."
)
_NOISE = "Noise: half of a 95 % interval, by formula, if noise were all and the level hardly moved."
_REHEARSALS = (
    " Rehearsals: whole releases of these values, against the true total; the interval reaches "
    "that far from the estimate."
)
_CAP = 0.995  # the quantile at which a release would about cut


def check(
    source: Source = "-",
    column: Column = None,
    bound: Annotated[
        str | None, typer.Option(help="Bound to try (default: a round number above all values).")
    ] = None,
    lower: Annotated[
        str | None,
        typer.Option(help="Lower bound to try (default: a round number below all values)."),
    ] = None,
    resolution: Annotated[
        str | None, typer.Option(help="Resolution to try (default: by the bound).")
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Epsilon to try (default: several are compared).")
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            help="Column or key with the time of a row (default: one that looks like it)."
        ),
    ] = None,
    zone: Annotated[
        str | None, typer.Option(help="Where times without a zone were written.")
    ] = None,
    time_format: Annotated[
        str | None,
        typer.Option(help="How times are written, unless ISO 8601: e.g. '%d.%m.%Y %H:%M'."),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Column with the key of a row: a stream for each key.")
    ] = None,
    every: Annotated[
        str | None, typer.Option(help="Rows are events: look at sums per tick, e.g. 15min.")
    ] = None,
    header: Header = None,
    delimiter: Delimiter = None,
    decimal: DecimalSign = None,
    format: InputFormat = None,  # noqa: A002  # the option's name
) -> None:
    """Look at raw data: what is in it, and how well it can be released.

    For the owner of the data only. The result is NOT private: do not publish it. Nothing is
    written. A bound must come from public knowledge (the rating of a meter, a legal maximum), not
    from this look: a bound that was read off the data tells something about it.

    Examples:

    \b
      tidegate check meters.csv --column watts
      tidegate check meters.csv --column watts --bound 10000 --epsilon 0.1 --time time
      tidegate check trips.csv --column fare --by zone --time pickup --every 15min
    """  # noqa: D301  # \b keeps the lines of the examples
    with errors_as_exit_codes():
        typer.echo(_FIRST)
        given = {"header": header, "delimiter": delimiter, "decimal": decimal, "format": format}
        reading = found_reading_options(source, given)
        if column is None and source != "-" and _list_columns_to_check(source, reading):
            raise SettingError("column", "is required: the file has several columns")
        timing = CheckedTimes.found(source, time, zone, time_format, reading)
        streams = CheckedStreams(by, every)
        streams.check(timing)
        try:
            profile, values = _check_profile(source, column, timing, streams, reading)
        except SettingError as error:
            if error.setting == "column" and source != "-":
                _list_columns_to_check(source, reading)
            raise
        if not profile.rows or profile.rows == profile.missing:
            raise InputError(nothing_to_check(profile, column))
        typer.echo("")
        thought = {"bound": bound, "lower": lower, "resolution": resolution, "epsilon": epsilon}
        facts = [*reading_facts(given, reading), *check_facts(profile, lower)]
        for name, fact in [*facts, *timing.facts(), *streams.facts()]:
            typer.echo(f"{name:<11}{fact}")
        means = profile.means
        if len(means) > 1:
            typer.echo(f"{'over time':<11}{sparkline(means)}")
        typer.echo("")
        reading |= {**timing.options(), **streams.options(timing)}
        told = {"column": column, **reading}
        about = streams, timing, values
        for line in _check_settings(profile, thought, source, told, about):
            typer.echo(line)


def _list_columns_to_check(source: str, reading: dict[str, Any]) -> bool:
    """List the columns for the owner. False: there is one column only, or none is known."""
    from tidegate.io.column_choice import column_names

    if reading["header"] is False:
        return False
    names = column_names(source, reading["format"], reading["delimiter"])
    if len(names) > 1:
        typer.echo(f"Choose a column with --column: {', '.join(map(repr, names))}")
    return len(names) > 1


def _check_profile(
    source: str,
    column: str | None,
    timing: CheckedTimes,
    streams: CheckedStreams,
    reading: dict[str, Any],
) -> tuple[DataProfile, RehearsalValues]:
    """Summarise the values; without their times, where a release would refuse those."""
    from tidegate.io import open_source
    from tidegate.plan.data_profile import DataProfile

    profile, values = DataProfile(), RehearsalValues(streams.by is not None)
    try:
        how = {**timing.source(), **streams.source(), **reading}
        with open_source(source, column=column, **how) as opened:
            for batch in opened.batches():
                profile.push(np.asarray(batch.values, dtype=np.float64))
                timing.push(batch.times)
                streams.push(batch)
                values.push(batch)
    except InputError as error:
        if not timing.refused(error) or source == "-":
            raise
        if streams.every is not None:
            raise
        streams.rows_of_key.clear()
        streams.twice = 0
        return _check_profile(source, column, timing, streams, reading)
    return profile, values


def _check_settings(
    profile: DataProfile,
    thought: dict[str, str | None],
    source: str,
    reading: dict[str, Any],
    about: tuple[CheckedStreams, CheckedTimes, RehearsalValues],
) -> list[str]:
    """What the given settings would do, and a command with recommended ones."""
    from tidegate.plan.data_profile import round_above

    given = thought["bound"]
    bound = round_above(profile.largest) if given is None else positive("bound", given)
    count, lost_above = profile.above(float(bound))
    cut = (
        f"{count:.2%} of the rows count as less than they are, and a total loses {lost_above:.2%}."
    )
    lines = [f"With --bound {float(bound):g} {cut if count else 'no value is cut.'}"]
    lower = _lower_bound_to_check(profile, thought["lower"])
    if lower:
        count, lost = profile.below(float(lower))
        cut = f"{count:.2%} of the rows count as more than they are: {lost:.2%} of what is below 0."
        lines.append(f"With --lower {float(lower):g} {cut if count else 'no value is cut.'}")
    if given is None or (lower and thought["lower"] is None):
        lines.append("(A round number above all values. Choose bounds from public knowledge.)")
    low, cap = profile.quantiles(1 - _CAP, _CAP)
    cap = min(cap, float(bound))
    floor = max(float(lower), min(0.0, low))
    streams = about[0]
    errors = expected_errors(profile, (lower, bound), thought, (floor, cap), about)
    where = (
        f"below {plain_number(floor)} and above {plain_number(cap)}"
        if lower
        else f"at about {plain_number(cap)}"
    )
    if lost_above >= MUCH_LOST:
        lines.append(
            f"Warning: --bound {float(bound):g} takes {lost_above:.1%} off a total: no estimate "
            "and no interval has that part."
        )
    expected_table = error_table(errors, streams)
    lines += ["", f"Errors to expect, if values are cut {where}:", expected_table]
    lines.append(f"({_NOISE}{_REHEARSALS if 'rehearsals' in expected_table else ''})")
    _, taken = profile.above(cap)
    if taken >= MUCH_LOST and cap < float(bound):
        lines.append(
            f"(Cutting there takes {taken:.1%} off a total. The release cannot see that part: it "
            "adds an estimate, and the upper end of an interval reaches further.)"
        )
    if lower:
        lines.append("(In percent of the sum of all absolute values.)")
    doubts = doubts_of_errors(errors, profile, (lower, bound), (lost_above, taken))
    if lost_above >= MUCH_LOST:
        bound = round_above(profile.largest)
    best = epsilon_with_good_errors(errors)
    if best is None:
        return [*lines, "", "There are too few rows for this epsilon."]
    chosen, expected = best
    lines += doubts
    command = ["tidegate", "release", source]
    for name, value in reading.items():
        if name == "header" and value is not None:
            command.append("--header" if value else "--no-header")
        elif value is not None:
            command += [f"--{name}", str(value)]
    command += ["-o", "private.csv", "--epsilon", chosen, "--bound", f"{float(bound):.15g}"]
    if lower:
        command += ["--lower", f"{float(lower):.15g}"]
    step = _resolution_to_check(profile, (lower, bound), thought, chosen, about)
    command += [] if step is None else ["--resolution", written(step)]
    command += ["--horizon", str(streams.horizon(profile)), "--state", "state"]
    head_line = "To release it:" if not expected.useless else "To release it anyway:"
    if lost_above >= MUCH_LOST:
        head_line = "To release it with a bound that cuts nothing:"
    return [*lines, *streams.notes(), "", head_line, f"  {shlex.join(command)}"]


def _resolution_to_check(
    profile: DataProfile,
    bounds: tuple[Fraction, Fraction],
    thought: dict[str, str | None],
    epsilon: str,
    about: tuple[CheckedStreams, CheckedTimes, RehearsalValues],
) -> Fraction | None:
    """The resolution for the command: one that hardly changes sums. None: the default does that."""
    from tidegate.plan.data_profile import ROUNDED

    (lower, bound), (streams, timing, _), given = bounds, about, thought["resolution"]
    settings = {"horizon": streams.horizon(profile), "resolution": given, "lower": lower}
    pipeline = streams.pipeline(epsilon, bound, timing, **settings)
    coarse, step = too_coarse(pipeline, profile, bounds), pipeline.resolution
    if coarse is None and profile.rounded(step, bound, lower) < ROUNDED:
        return None if given is None else step
    return profile.fine_resolution(coarse or step, bound, lower)


def _lower_bound_to_check(profile: DataProfile, given: str | None) -> Fraction:
    """The lower bound that was given, or a round one that cuts no value."""
    from tidegate.plan.data_profile import round_above

    if given is None:
        return -round_above(-profile.smallest) if profile.negative else Fraction(0)
    lower = exact("lower", given)
    if lower > 0:
        raise SettingError("lower", f"must be 0 or below, not {said(given)}")
    return lower
