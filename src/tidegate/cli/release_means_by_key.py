"""`tidegate release --mean --by COLUMN`: sums and numbers of events, a stream of each per key."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

import tidegate as tg
from tidegate.cli import release_events
from tidegate.cli.exit_codes_and_signals import NOTHING, complain, stopping_on_signal
from tidegate.cli.file_options import refuse_bad_rows_in_file
from tidegate.cli.release import (
    source_options_of_release,
    state_options_of_release,
    tell_release_is_unsealed,
    warn_after_release,
)
from tidegate.cli.release_by_key import (
    ENDLESS,
    read_keys,
    tell_dropped,
    why_release_by_key_is_empty,
)
from tidegate.cli.release_summary import summarise_release_of_keys, summary_of_what_is_left
from tidegate.cli.rounding_note import RoundingNote
from tidegate.guarantee import sequential

if TYPE_CHECKING:  # files are imported when they are needed: start-up counts
    from tidegate.keyed import Keyed, KeyedRelease
    from tidegate.keyed.passage_to_file import KeyedTransferred
    from tidegate.run.pipeline import Pipeline


def release_means_by_key(
    source: str,
    options: dict[str, Any],
    pipelines: dict[str, Pipeline],
    sinks: dict[str, str],
    *,
    replaced: bool,
) -> None:
    """Release the columns of one log and its number of events, by key."""
    from tidegate.cli.progress import Progress
    from tidegate.io import open_source
    from tidegate.keyed.durable_columns_by_key import DurableKeyedColumns
    from tidegate.keyed.transfer import transfer_means_by_key

    wanted = keyed_columns(pipelines, options)
    until = release_events.clock(options)
    opening = {**source_options_of_release(options), "by": options["by"]}
    refuse_bad_rows_in_file(source, opening, options)
    quiet, output = bool(options.get("quiet")), options.get("output")
    with (
        open_source(source, **opening) as opened,
        Progress(opened, quiet=quiet, output=output) as progress,
        stopping_on_signal(opened if options.get("follow") else None) as stop,
    ):
        lattices = [one.lattice for one in pipelines.values()]
        read = RoundingNote(opened, lattices[:-1], [*pipelines][:-1])
        into: dict[str, Any] = {"format": options.get("output-format"), "until": until}
        into["progress"] = stop.then(progress.advance)
        if "state" not in options:
            started = {name: _started(one) for name, one in wanted.items()}
            with summary_of_what_is_left([*started.values()], output):
                results = transfer_means_by_key(read, started, sinks, **into)
        else:
            folder = options["state"]
            with DurableKeyedColumns.open(
                folder, wanted, **state_options_of_release(options)
            ) as all_:
                tell_release_is_unsealed(all_, options)
                results = transfer_means_by_key(read, all_, sinks, **into)
                started = {name: run.release for name, run in all_.runs.items()}
        progress.close()
    _summarise(started, results, sinks, options)
    warn_after_release(read, opened, options, replaced=replaced)


def keyed_columns(pipelines: dict[str, Pipeline], options: dict[str, Any]) -> dict[str, Keyed]:
    """One stream for each column and declared key."""
    keys = read_keys(options["keys"])
    # What a file says about the past is not forgotten.
    return {
        name: tg.keyed(replace(pipeline, history=ENDLESS), keys=keys)
        for name, pipeline in pipelines.items()
    }


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
    tell_dropped(result, options, events=True)
    if not result.released:
        complain(why_release_by_key_is_empty(result, events=True))
        raise typer.Exit(NOTHING)
    if options.get("quiet"):
        return
    for name, release in releases.items():
        summarise_release_of_keys(release, results[name], f"{name}: ")
    parts = ", ".join(f"{name} {float(one.guarantee.epsilon):g}" for name, one in releases.items())
    total = sequential(*(one.guarantee for one in releases.values()))
    complain(f"all columns together spent: {total} ({parts})")
    complain(f"written: {', '.join(sinks.values())}")
