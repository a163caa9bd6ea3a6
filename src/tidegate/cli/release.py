"""`tidegate release`: a stream in, a private stream out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tidegate.cli import release_events
from tidegate.cli.exit_codes_and_signals import (
    NOTHING,
    complain,
    errors_as_exit_codes,
    stopping_on_signal,
)
from tidegate.cli.file_options import (
    Source,
    check_output,
    file_holds_something,
    output_format,
    refuse_bad_rows_in_file,
    warn_of_released_file,
)
from tidegate.cli.option_builders import EMITTED, LATE, PIPES, build_options_of_one_column
from tidegate.cli.pipeline_from_options import (
    build_pipeline,
    options_with_config,
    options_with_length,
    options_with_rows,
)
from tidegate.cli.release_broker import check_broker, of_broker, run_broker
from tidegate.cli.release_by_key import check_by_key, run_by_key
from tidegate.cli.release_options import KINDS, with_release_options
from tidegate.cli.rounding_note import RoundingNote
from tidegate.cli.sealing_key import READABLE, read_sealing_key
from tidegate.errors import MissingError, SettingError
from tidegate.run.pipeline import Pipeline

if TYPE_CHECKING:  # files and durable state are imported when they are needed: start-up counts
    from tidegate.durable import DurableRelease, Transferred
    from tidegate.durable.columns_on_disk import ColumnsOnDisk
    from tidegate.run.release import Release


@with_release_options
def release(settings: dict[str, Any], source: Source = "-") -> None:
    """Release a stream of numbers under differential privacy.

    --epsilon and --bound are required (with --count, only --epsilon). By default the
    output has one row for each row of the input. Add up its column `value`, plot its column
    `level`, and ask `tidegate query` for sums with an interval.

    Examples:

    \b
      tidegate release meters.csv --column watts -o private.csv --epsilon 0.1 --bound 10000
      tidegate release trips.parquet -o private.parquet --config release.toml --state state/
      tidegate release trips.csv --column fare --column tip --epsilon 1 --bound 200 -o private.csv
      tidegate release trips.csv --column fare --time pickup --every 15min --start 2024-01-01 \\
          --until 2024-02-01 --epsilon 0.5 --bound 200 -o private.csv
      tidegate release trips.csv --column fare --mean --time pickup --every 15min \\
          --start 2024-01-01 --until 2024-02-01 --epsilon 1 --bound 200 -o private.csv
      sensor | tidegate release --epsilon 0.1 --bound 50 --resolution 0.1 --state state/ | dashboard
    """  # noqa: D301  # \b keeps the lines of the examples
    config = settings.pop("config")
    with errors_as_exit_codes():
        given = {name.replace("_", "-"): value for name, value in settings.items()}
        options = options_with_config(given, config, KINDS)
        release_events.check_mean(options)
        if len(options.get("column", ())) > 1 or options.get("mean"):
            from tidegate.cli.release_columns import release_columns

            if "by" in options and not options.get("mean"):
                raise SettingError("by", "needs exactly one --column, or --mean")
            if of_broker(source, options):
                raise SettingError("column", "can be given only once with a broker")
            warn_of_released_file(source, options.get("format"))
            release_columns(source, options)
        else:
            _run_release(source, build_options_of_one_column(options))


def _run_release(source: str, options: dict[str, Any]) -> None:
    from tidegate.cli.progress import Progress
    from tidegate.cli.release_summary import summary_of_what_is_left
    from tidegate.durable import transfer
    from tidegate.io import open_source

    if of_broker(source, options):
        check_broker(source, options)
        run_broker(source, options)
        return
    check_release_options(source, options)
    warn_of_released_file(source, options.get("format"))
    if not release_events.of_events(options):
        options = options_with_rows(options, source, source_options_of_release(options))
    if "by" in options:
        run_by_key(source, options)
        return
    refuse_bad_rows_in_file(source, source_options_of_release(options), options)
    replaced = file_holds_something(str(options.get("output") or ""))
    with_ticks = release_events.of_events(options)
    pipeline = (
        release_events.build_event_pipeline(options)
        if with_ticks
        else build_pipeline(options_with_length(options, source))
    )
    until = release_events.clock(options) if with_ticks else None
    quiet, follow = bool(options.get("quiet")), bool(options.get("follow"))
    first = 0 if with_ticks else pipeline.warm_up or pipeline.holdout
    with (
        open_source(source, **source_options_of_release(options)) as opened,
        Progress(opened, quiet=quiet, output=options.get("output"), first=first) as progress,
        stopping_on_signal(opened if follow else None) as stop,
    ):
        read = RoundingNote(opened, [pipeline.lattice])
        into: dict[str, Any] = {
            "sink": options.get("output"),
            "format": output_format(opened, source, options),
            "progress": stop.then(progress.advance),
            "warn": complain,
            "until": until,
        }
        if "state" not in options:
            once = pipeline.start()
            with summary_of_what_is_left([once], options.get("output")):
                result = transfer(read, once, **into)
            progress.close()
            close(once, result, quiet=quiet)
        else:
            with _opened_to_release(pipeline, options) as run:
                into.update(_release_after_a_restart(run, source, options))
                with summary_of_what_is_left(run, options.get("output")):
                    result = transfer(read, run, **into)
                progress.close()
                close(run, result, quiet=quiet)
    warn_after_release(read, opened, options, replaced=replaced)


def warn_after_release(
    read: RoundingNote, opened: Any, options: dict[str, Any], *, replaced: bool
) -> None:
    """Warn the operator about the input and the output after the release."""
    quiet = bool(options.get("quiet"))
    if not quiet:
        read.tell()
    if doubt := getattr(opened, "doubt", ""):
        complain(f"warning: {doubt}")
    if replaced and options.get("overwrite") and not quiet:
        complain("--overwrite: epsilon was spent anew; it adds up with what the old output spent")


def state_options_of_release(options: dict[str, Any]) -> dict[str, Any]:
    """The options that open durable state."""
    return {
        "key": read_sealing_key(options.get("key-file")),
        "source": options.get("ledger-source"),
        "cap": options.get("cap"),
        "new_epoch": bool(options.get("new-epoch")),
    }


def source_options_of_release(options: dict[str, Any]) -> dict[str, Any]:
    """The options that open the input."""
    names = ("format", "column", "time", "zone", "header", "delimiter", "decimal")
    return {
        **{name: options.get(name) for name in names},
        "time_format": options.get("time-format"),
        "user_column": options.get("user-column"),
        "late": "keep" if "every" in options else options.get("late", "refuse"),
        "follow": bool(options.get("follow")),
        "count": bool(options.get("count")),
        "events": "every" in options,
    }


def _opened_to_release(pipeline: Pipeline, options: dict[str, Any]) -> DurableRelease:
    from tidegate.durable import DurableRelease

    run = DurableRelease.open(options["state"], pipeline, **state_options_of_release(options))
    tell_release_is_unsealed(run, options)
    return run


def tell_release_is_unsealed(
    run: DurableRelease | ColumnsOnDisk[Any], options: dict[str, Any]
) -> None:
    """Warn, once, that whoever reads the state reads raw values."""
    if not run.sealed and not run.seen and not options.get("quiet"):
        complain(
            f"the state in {options['state']} is not sealed (no --key-file, no TIDEGATE_KEY): "
            f"{READABLE}"
        )


def _release_after_a_restart(
    run: DurableRelease, source: str, options: dict[str, Any]
) -> dict[str, Any]:
    """Where input and output continue after a restart: for a pipe, options say so."""
    continues = source == "-" and options.get("stdin", "resent") == "continues"
    new = options.get("output") in (None, "-") and options.get("emit", "all") == "new"
    return {"start": run.seen if continues else None, "written": run.position if new else None}


def check_release_options(source: str, options: dict[str, Any]) -> None:
    """Refuse options that contradict each other, before anything is read or spent."""
    for name, choices in (("stdin", PIPES), ("emit", EMITTED), ("late", LATE)):
        if options.get(name, choices[-1]) not in choices:
            raise SettingError(name, f"must be one of {', '.join(choices)}, not {options[name]!r}")
    for name in ("order", "gaps"):
        if name in options:
            raise SettingError(name, "is for brokers: nats://, redis://, kafka:// or mqtt://")
    check_by_key(options)
    if "state" not in options:
        for name in ("key-file", "ledger-source", "cap", "new-epoch", "stdin", "emit"):
            if name in options:
                raise SettingError(name, "needs --state")
    elif "overwrite" in options:
        raise SettingError("overwrite", "cannot be used with --state, which continues the output")
    output = str(options.get("output") or "")
    check_output(source, options.get("output"), options.get("output-format"))
    if "state" not in options and not options.get("overwrite") and file_holds_something(output):
        raise SettingError(
            "output",
            f"{output} exists, and this run would spend epsilon on the same values once more. Use "
            "--overwrite to replace it anyway, --state to continue a release, or another "
            "output",
        )
    if options.get("new-epoch") and output and output != "-" and Path(output).exists():
        raise SettingError(
            "output", "exists: a new epoch needs another output (or remove this one)"
        )
    if output and not Path(output).parent.is_dir():
        raise MissingError(
            f"output: there is no folder {Path(output).parent}. Nothing was read or spent"
        )
    _check_writable(output)
    protects_users = str(options.get("unit", "")).startswith("user-horizon")
    if protects_users != ("user-column" in options):
        raise SettingError("user-column", "is needed for --unit user-horizon:K, and only there")


def _check_writable(output: str) -> None:
    """Refuse an output that cannot be written before any row is read, so that no ε is spent.

    A look and no promise: the disk may still fill up, or be taken away.
    """
    if not output or output == "-":
        return
    place = Path(output)
    for needed in (place.parent, *([place] if place.exists() else [])):
        if not os.access(needed, os.W_OK):
            raise SettingError(
                "output", f"{needed} cannot be written to. Nothing was read or spent"
            )


def close(
    run: DurableRelease | Release, result: Transferred, *, quiet: bool, column: str = ""
) -> None:
    """Summarise a run, or say why nothing was measured."""
    from tidegate.cli.release_summary import (
        ReleaseOutcome,
        nothing_released,
        summarise_release,
        summary_of_left_out,
        summary_of_unmeasured,
    )
    from tidegate.durable import DurableRelease

    outcome, named = ReleaseOutcome.of(run, result), f"{column}: " if column else ""
    for line in summary_of_left_out(run):  # never hidden: the operator must know
        complain(f"{named}{line}")
    if not result.released:  # never hidden: a script would take a missing output for a good one
        complain(f"{named}{nothing_released(outcome, durable=isinstance(run, DurableRelease))}")
        raise typer.Exit(NOTHING)
    if result.unmeasured:
        complain(f"{named}{summary_of_unmeasured(result, durable=isinstance(run, DurableRelease))}")
        raise typer.Exit(NOTHING)
    if not quiet:
        summarise_release(outcome, named)
