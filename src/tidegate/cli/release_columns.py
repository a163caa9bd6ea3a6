"""`tidegate release` with several columns: a release and a file for each, one budget for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tidegate.cli import release_events
from tidegate.cli.exit_codes_and_signals import complain, stopping_on_signal
from tidegate.cli.file_options import file_holds_something, refuse_bad_rows_in_file
from tidegate.cli.option_builders import build_option_by_column
from tidegate.cli.pipeline_from_options import build_pipeline, options_with_length
from tidegate.cli.release import (
    check_release_options,
    close,
    source_options_of_release,
    state_options_of_release,
    tell_release_is_unsealed,
    warn_after_release,
)
from tidegate.cli.rounding_note import RoundingNote
from tidegate.errors import SettingError
from tidegate.exact_numbers import positive
from tidegate.guarantee import sequential
from tidegate.methods._events import SUMS
from tidegate.run.column_budgets import (
    COUNT,
    checked_column_names,
    shares_of,
    shares_with_count_column,
)

if TYPE_CHECKING:
    from tidegate.durable import DurableRelease
    from tidegate.run.pipeline import Pipeline
    from tidegate.run.release import Release


def release_columns(source: str, options: dict[str, Any]) -> None:
    """Release several columns of one source."""
    from tidegate.cli.progress import Progress
    from tidegate.cli.release_summary import summary_of_what_is_left
    from tidegate.durable.durable_columns import DurableColumns, transfer_columns
    from tidegate.io import open_source
    from tidegate.released.released_columns import column_file

    names = checked_column_names(options["column"])
    means = bool(options.get("mean"))
    if means:
        names = [*names, COUNT]
    output = options.get("output")
    if output in (None, "-"):
        raise SettingError("output", "is needed for several columns: each has a file of its own")
    if "emit" in options:
        raise SettingError("emit", "is for standard output, and several columns go to files")
    sinks = {name: column_file(output, name) for name in names}
    replaced = any(file_holds_something(sink) for sink in sinks.values())
    for sink in sinks.values():
        check_release_options(source, {**options, "output": sink})
    with_ticks = release_events.of_events(options)
    if with_ticks:
        pipelines = event_pipelines_of(names, options, means=means)
        until = release_events.clock(options)
    else:
        pipelines, until = pipelines_of_columns(names, options_with_length(options, source)), None
    if "by" in options:
        from tidegate.cli.release_means_by_key import release_means_by_key

        release_means_by_key(source, options, pipelines, sinks, replaced=replaced)
        return
    refuse_bad_rows_in_file(source, source_options_of_release(options), options)
    quiet = bool(options.get("quiet"))
    continues = source == "-" and options.get("stdin", "resent") == "continues"
    with (
        open_source(source, **source_options_of_release(options)) as opened,
        Progress(opened, quiet=quiet, output=output) as progress,
        stopping_on_signal(opened if options.get("follow") else None) as stop,
    ):
        read = RoundingNote(opened, [one.lattice for one in pipelines.values()], names)
        into: dict[str, Any] = {"format": options.get("output-format"), "warn": complain}
        into |= {"progress": stop.then(progress.advance), "until": until, "means": means}
        runs: dict[str, DurableRelease | Release]
        if "state" not in options:
            started = {name: pipeline.start() for name, pipeline in pipelines.items()}
            runs = {**started}
            with summary_of_what_is_left([*started.values()], output):
                results = transfer_columns(read, started, sinks, **into)
            progress.close()
            _summarise_columns(runs, results, sinks, quiet=quiet)
        else:
            with DurableColumns.open(
                options["state"], pipelines, **state_options_of_release(options)
            ) as all_:
                tell_release_is_unsealed(all_, options)
                start = all_.seen if continues else None
                with summary_of_what_is_left(all_, output):
                    results = transfer_columns(read, all_, sinks, start=start, **into)
                progress.close()
                runs = {**all_.runs}
                _summarise_columns(runs, results, sinks, quiet=quiet)
    warn_after_release(read, opened, options, replaced=replaced)


def pipelines_of_columns(names: list[str], options: dict[str, Any]) -> dict[str, Pipeline]:
    """A pipeline for each column; together they spend epsilon."""
    shares = build_option_by_column("share", names, options.get("share"))
    return _pipelines_by_column(names, options, shares_of(names, shares), build_pipeline)


def event_pipelines_of(
    names: list[str], options: dict[str, Any], *, means: bool
) -> dict[str, Pipeline]:
    """A pipeline of events for each column; with means, the last one counts events."""
    shares = build_option_by_column("share", names, options.get("share"))
    if not means:
        return _pipelines_by_column(
            names, options, shares_of(names, shares), release_events.build_event_pipeline
        )
    parts = shares_of(names, shares_with_count_column(names[:-1], shares, 1 - SUMS))
    for setting in _OWN:
        for given in options.get(setting, ()):
            if given.startswith(f"{COUNT}="):
                raise SettingError(setting, "is not for the count: each event counts as 1")
    found = _pipelines_by_column(names[:-1], options, parts, release_events.build_event_pipeline)
    counted = {name: value for name, value in options.items() if name not in {*_OWN, "share"}}
    counted |= {"count": True, "epsilon": positive("epsilon", options["epsilon"]) * parts[COUNT]}
    return {**found, COUNT: release_events.build_event_pipeline(counted)}


def _pipelines_by_column(
    names: list[str],
    options: dict[str, Any],
    shares: Mapping[str, Fraction],
    build: Callable[[dict[str, Any]], Pipeline],
) -> dict[str, Pipeline]:
    if "epsilon" not in options:
        raise SettingError("epsilon", "is required (or set `epsilon` in the config file)")
    epsilon = positive("epsilon", options["epsilon"])
    own = {
        setting: build_option_by_column(setting, names, options.get(setting)) for setting in _OWN
    }
    common = {name: value for name, value in options.items() if name not in {*own, "share"}}
    found: dict[str, Pipeline] = {}
    for name in names:
        mine = {setting: each[name] for setting, each in own.items() if name in each}
        if "bound" not in mine:
            raise SettingError("bound", f"is required for {name!r}: give --bound {name}=NUMBER")
        found[name] = build({**common, **mine, "epsilon": epsilon * shares[name]})
    return found


_OWN = ("bound", "lower", "resolution")  # settings of single columns


def _summarise_columns(
    runs: dict[str, DurableRelease | Release],
    results: dict[str, Any],
    sinks: dict[str, str],
    *,
    quiet: bool,
) -> None:
    for name, run in runs.items():
        close(run, results[name], quiet=quiet, column=name)
    if quiet:
        return
    parts = ", ".join(f"{name} {float(run.guarantee.epsilon):g}" for name, run in runs.items())
    total = sequential(*(run.guarantee for run in runs.values()))
    complain(f"all columns together spent: {total} ({parts})")
    complain(f"written: {', '.join(sinks.values())}")
