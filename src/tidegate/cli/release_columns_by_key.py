"""`tidegate release --by` of several columns, or with --mean: a stream of each for every key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from tidegate.cli import file_options, release_events
from tidegate.cli.declared_keys_and_rows import (
    options_with_rows_of_keys,
    read_keys,
    rows_with_declared_keys,
)
from tidegate.cli.exit_codes_and_signals import NOTHING, complain, stopping_on_signal
from tidegate.cli.release import (
    source_options_of_release,
    state_options_of_release,
    tell_release_is_unsealed,
    warn_after_release,
)
from tidegate.cli.release_by_key import (
    keyed_by_options,
    tell_dropped,
    why_release_by_key_is_empty,
)
from tidegate.cli.release_columns import event_pipelines_of, pipelines_of_columns
from tidegate.cli.release_summary import summarise_release_of_keys, summary_of_what_is_left
from tidegate.cli.rounding_note import RoundingNote
from tidegate.guarantee import sequential
from tidegate.run.column_budgets import COUNT

if TYPE_CHECKING:  # files are imported when they are needed: start-up counts
    from tidegate.io.held_source import HeldSource
    from tidegate.keyed import Keyed, KeyedRelease
    from tidegate.keyed.passage_to_file import KeyedTransferred


def release_columns_by_key(
    source: str, names: list[str], options: dict[str, Any], sinks: dict[str, str], *, replaced: bool
) -> None:
    """Release the columns of one table by key; of events with --mean, their number as well."""
    from tidegate.cli.progress import Progress
    from tidegate.io import open_source
    from tidegate.keyed.durable_columns_by_key import DurableKeyedColumns
    from tidegate.keyed.transfer import transfer_columns_by_key

    with_ticks, means = release_events.of_events(options), bool(options.get("mean"))
    opening = {**source_options_of_release(options), "by": options["by"], "late": "keep"}
    if "keys" in options:
        opening["declared"] = rows_with_declared_keys(read_keys(options["keys"]))
    else:
        file_options.refuse_key_for_each_row(source, opening)
    wanted, held = keyed_columns(source, names, options, opening)
    if held is None:
        file_options.refuse_bad_rows_in_file(source, opening, options)
    quiet, output = bool(options.get("quiet")), options.get("output")
    with (
        held or open_source(source, **opening) as opened,
        Progress(opened, quiet=quiet, output=output) as progress,
        stopping_on_signal(opened if options.get("follow") else None) as stop,
    ):
        lattices = {name: one.pipeline.lattice for name, one in wanted.items() if name != COUNT}
        read = RoundingNote(opened, [*lattices.values()], [*lattices])
        into: dict[str, Any] = {"format": options.get("output-format"), "means": means}
        into["until"] = release_events.clock(options) if with_ticks else None
        into["late"] = options.get("late", "refuse")
        into["progress"] = stop.then(progress.advance)
        if "state" not in options:
            started = {name: _started(one) for name, one in wanted.items()}
            with summary_of_what_is_left([*started.values()], output):
                results = transfer_columns_by_key(read, started, sinks, **into)
        else:
            folder = options["state"]
            with DurableKeyedColumns.open(
                folder, wanted, **state_options_of_release(options)
            ) as all_:
                tell_release_is_unsealed(all_, options)
                results = transfer_columns_by_key(read, all_, sinks, **into)
                started = {name: run.release for name, run in all_.runs.items()}
        progress.close()
    _summarise(started, results, sinks, options)
    warn_after_release(read, opened, options, replaced=replaced)


def keyed_columns(
    source: str, names: list[str], options: dict[str, Any], opening: dict[str, Any]
) -> tuple[dict[str, Keyed], HeldSource | None]:
    """A stream of each column for each key; and the input, if it had to be read for that."""
    held = None
    if release_events.of_events(options):
        pipelines = event_pipelines_of(names, options, means=bool(options.get("mean")))
    else:
        keys = read_keys(options["keys"]) if "keys" in options else None
        options, held = options_with_rows_of_keys(options, source, keys, opening)
        pipelines = pipelines_of_columns(names, options)
    return {name: keyed_by_options(one, options) for name, one in pipelines.items()}, held


def _started(specification: Keyed) -> KeyedRelease:
    # Values that add up are asked in the file; others need the record, for the file.
    return specification.start(record=not specification.pipeline.estimator.adds_up)


def _summarise(
    releases: dict[str, KeyedRelease],
    results: dict[str, KeyedTransferred],
    sinks: dict[str, str],
    options: dict[str, Any],
) -> None:
    """Summarise the release; tell the operator how many rows were dropped from all columns."""
    *_, result = results.values()
    events = release_events.of_events(options)
    tell_dropped(result, options, events=events)
    if not result.released:
        complain(why_release_by_key_is_empty(result, events=events))
        raise typer.Exit(NOTHING)
    if options.get("quiet"):
        return
    for name, release in releases.items():
        summarise_release_of_keys(release, results[name], f"{name}: ")
    parts = ", ".join(f"{name} {float(one.guarantee.epsilon):g}" for name, one in releases.items())
    total = sequential(*(one.guarantee for one in releases.values()))
    complain(f"all columns together spent: {total} ({parts})")
    complain(f"written: {', '.join(sinks.values())}")
